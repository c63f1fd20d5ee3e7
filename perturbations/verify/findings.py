"""What does not check out, and comparing rows cell by cell."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perturbations.manifest.kinds import Kind, Row, columns_of

MEASURED_TOLERANCE = 1e-6
"""Relative. PSNR and SSIM are sums of floats, whose order is a matter of the processor."""

_MEASURED = ("psnr_db", "ssim", "storage_psnr_db", "similarity", "donor_similarity")


@dataclass(frozen=True)
class Finding:
    """What is wrong with a row, a file or a whole manifest.

    Attributes:
        place: the manifest, or the file, that is wrong.
        subject: the row, or "" where it is all of it.
        problem: what is wrong.
    """

    place: Path
    subject: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.subject}{': ' if self.subject else ''}{self.problem}"


def name_of(row: object, key: Sequence[str]) -> str:
    """A row's key for people: `video7 fog 3`."""
    return " ".join(
        repr(value) if isinstance(value, str) and " " in value else str(value) for value in values(row, key)
    )


def values(row: object, names: Sequence[str]) -> tuple[Any, ...]:
    """Some columns of a row."""
    return tuple(getattr(row, name) for name in names)


def differences(row: object, expected: object, ignored: Collection[str] = ()) -> list[str]:
    """The cells of a row that are not what they should be, in words."""
    problems = []
    for column in columns_of(type(expected)):
        held, wanted = getattr(row, column.name), getattr(expected, column.name)
        if column.name not in ignored and not _is_same(column.name, held, wanted):
            problems.append(f"{column.name} is {_short(held)}, and should be {_short(wanted)}")
    return problems


def _is_same(name: str, held: Any, wanted: Any) -> bool:
    if isinstance(held, float) and isinstance(wanted, float):
        tolerance = MEASURED_TOLERANCE if name in _MEASURED else 1e-12
        return math.isclose(held, wanted, rel_tol=tolerance) or (math.isnan(held) and math.isnan(wanted))
    if name == "guide" and held is not None and wanted is not None:
        return bool(_without_places(held) == _without_places(wanted))
    return bool(held == wanted)


def _without_places(guide: str) -> Any:
    """A guide but for where its files are, and the last digits of a similarity."""
    try:
        facts = json.loads(guide)
        facts.pop("files", None)
        facts["similarity"] = round(facts.get("similarity", 0.0), 5)
    except (ValueError, TypeError, AttributeError):
        return guide
    return facts


def _short(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)[:80]


def compared(place: Path, kind: Kind[Row], rows: Iterable[Row], expected: Iterable[Row]) -> list[Finding]:
    """How the rows of a manifest differ from those that it should have: missing, doubled, strange and changed ones."""
    held: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        held[values(row, kind.key)].append(row)
    findings = []
    for wanted in expected:
        members = held.pop(values(wanted, kind.key), [])
        subject = name_of(wanted, kind.key)
        if not members:
            findings.append(Finding(place, subject, "the row is missing"))
            continue
        findings += [Finding(place, subject, problem) for problem in differences(members[0], wanted)]
        findings += [Finding(place, subject, "the row is there twice")] * (len(members) > 1)
    return findings + [
        Finding(place, name_of(members[0], kind.key), "the row is nobody's") for members in held.values()
    ]
