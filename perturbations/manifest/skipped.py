"""What a manifest of captions leaves out, and why: known when a run was planned."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from perturbations.base.errors import ManifestError

SET, SKIPPED = "set", "skipped"
"""In a manifest's metadata: the members of `sets.Listed`, and the perturbations that were skipped."""


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Skipped:
    """A requested perturbation that a run could not make, at any of its severities."""

    perturbation: str
    severities: tuple[int, ...]
    reason: str


_LIST = TypeAdapter(list[Skipped])


def as_json(skipped: Iterable[Skipped]) -> str:
    """Skipped perturbations as a command's option."""
    return json.dumps(list(map(asdict, skipped)), sort_keys=True)


def columns(skipped: Iterable[Skipped]) -> dict[str, object]:
    """Skipped perturbations as a member of what a manifest's metadata has under `SET`."""
    return {SKIPPED: json.loads(as_json(skipped))}


def parse(text: str) -> list[Skipped]:
    """What `as_json` wrote. Raises `ManifestError` for anything else."""
    try:
        return _LIST.validate_json(text)
    except ValidationError:
        raise ManifestError(
            "a manifest does not list skipped perturbations with their severities and a reason"
        ) from None


def of_manifest(about: Mapping[str, object]) -> list[Skipped]:
    """The perturbations that a manifest's metadata lists as skipped. Raises `ManifestError`."""
    described = about.get(SET)
    return parse(json.dumps(described.get(SKIPPED, []))) if isinstance(described, dict) else []


def sentences(skipped: Sequence[Skipped]) -> list[str]:
    """For people, one per reason: "skipped: 2 perturbations, insert_adv, tense (made for English)"."""
    by_reason: dict[str, list[str]] = {}
    for entry in skipped:
        by_reason.setdefault(entry.reason, []).append(entry.perturbation)
    return [
        f"skipped: {len(names)} perturbation{'s' if len(names) > 1 else ''}, {', '.join(names)} ({reason})"
        for reason, names in by_reason.items()
    ]
