"""What a manifest of captions leaves out, and why: known when a run was planned.

A requested perturbation that a run could not make, at any of its severities, is a dict with the keys `perturbation`,
`severities` and `reason`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perturbations.base.errors import ManifestError

SET, SKIPPED = "set", "skipped"
"""In a manifest's metadata: the members of `sets.Listed`, and the perturbations that were skipped."""

Skipped = Mapping[str, Any]

_TYPES: dict[str, type] = {"perturbation": str, "severities": list, "reason": str}


def of_manifest(about: Mapping[str, object]) -> list[Skipped]:
    """The perturbations that a manifest's metadata lists as skipped. Raises `ManifestError`."""
    described = about.get(SET)
    entries = described.get(SKIPPED, []) if isinstance(described, dict) else []
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        raise ManifestError("a manifest does not list skipped perturbations with their severities and a reason")
    return entries


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, dict) or entry.keys() != _TYPES.keys():
        return False
    typed = all(isinstance(entry[name], kind) for name, kind in _TYPES.items())
    return typed and all(isinstance(severity, int) for severity in entry["severities"])


def sentences(skipped: Iterable[Skipped]) -> list[str]:
    """For people, one per reason: "skipped: 2 perturbations, insert_adv, tense (made for English)"."""
    by_reason: dict[str, list[str]] = {}
    for entry in skipped:
        by_reason.setdefault(entry["reason"], []).append(entry["perturbation"])
    return [
        f"skipped: {len(names)} perturbation{'s' if len(names) > 1 else ''}, {', '.join(names)} ({reason})"
        for reason, names in by_reason.items()
    ]
