"""What a manifest of captions leaves out, and why: known when a run was planned. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from perturbations.base.errors import ManifestError

SET, SKIPPED = "set", "skipped"
"""In a manifest's metadata: the members of `sets.Listed`, and the perturbations that were skipped."""


@dataclass(frozen=True)
class Skipped:
    """A requested perturbation that a run could not make, at any of its severities."""

    perturbation: str
    severities: tuple[int, ...]
    reason: str


def as_json(skipped: Iterable[Skipped]) -> str:
    """Skipped perturbations as a command's option."""
    return json.dumps(_entries(skipped), sort_keys=True)


def columns(skipped: Iterable[Skipped]) -> dict[str, object]:
    """Skipped perturbations as a member of what a manifest's metadata has under `SET`."""
    return {SKIPPED: _entries(skipped)}


def _entries(skipped: Iterable[Skipped]) -> list[dict[str, object]]:
    return [{**asdict(entry), "severities": list(entry.severities)} for entry in skipped]


def parse(text: str) -> list[Skipped]:
    """What `as_json` wrote. Raises `ManifestError` for anything else."""
    try:
        return _of_columns(json.loads(text))
    except ValueError as error:
        raise ManifestError(f"the list of skipped perturbations is not JSON: {error}") from None


def _of_columns(value: object) -> list[Skipped]:
    """What `_entries` gave. Raises `ManifestError` for anything else."""
    if not isinstance(value, list) or not all(map(_is_entry, value)):
        raise ManifestError("a manifest does not list skipped perturbations with their severities and a reason")
    return [Skipped(entry["perturbation"], tuple(entry["severities"]), entry["reason"]) for entry in value]


def of_manifest(about: Mapping[str, object]) -> list[Skipped]:
    """The perturbations that a manifest's metadata lists as skipped. Raises `ManifestError`."""
    described = about.get(SET)
    return _of_columns(described.get(SKIPPED, [])) if isinstance(described, dict) else []


def _is_entry(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {"perturbation", "severities", "reason"}:
        return False
    severities = value["severities"]
    texts = isinstance(value["perturbation"], str) and isinstance(value["reason"], str)
    return texts and isinstance(severities, list) and all(type(severity) is int for severity in severities)


def sentences(skipped: Sequence[Skipped]) -> list[str]:
    """For people, one per reason: "skipped: 2 perturbations, insert_adv, tense (made for English)"."""
    by_reason: dict[str, list[str]] = {}
    for entry in skipped:
        by_reason.setdefault(entry.reason, []).append(entry.perturbation)
    return [
        f"skipped: {len(names)} perturbation{'s' if len(names) > 1 else ''}, {', '.join(names)} ({reason})"
        for reason, names in by_reason.items()
    ]
