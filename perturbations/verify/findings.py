"""Findings of a verification, and the comparison of rows cell by cell."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from perturbations.manifest.columns import columns_of
from perturbations.manifest.kinds import RowKind, RowT

_MEASURED_TOLERANCE = 1e-6
"""Relative. PSNR and SSIM are sums of floats, and the order of summation depends on the processor."""

_MEASURED = ("psnr_db", "ssim", "storage_psnr_db", "similarity", "donor_similarity")


@dataclass(frozen=True)
class Finding:
    """A problem of a row, a file or a whole manifest.

    Attributes:
        place: the manifest or file that has the problem.
        subject: the row; "" for the whole file.
        problem: the problem in words.
    """

    place: Path
    subject: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.subject}{': ' if self.subject else ''}{self.problem}"


def name_of(row: object, key: Sequence[str]) -> str:
    """A row's key in readable form: `video7 fog 3`."""
    return " ".join(_plain(value) for value in values(row, key))


def _plain(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and " " not in text else repr(text)


def values(row: object, names: Sequence[str]) -> tuple[object, ...]:
    """The values of some columns of a row."""
    return tuple(getattr(row, name) for name in names)


def differences(row: object, expected: object, ignored: Collection[str] = ()) -> list[str]:
    """The cells of a row that differ from the expected row, in words."""
    if row == expected:
        return []
    problems = []
    for column in columns_of(type(expected)):
        held, wanted = getattr(row, column.name), getattr(expected, column.name)
        if column.name not in ignored and not _is_same(column.name, held, wanted):
            problems.append(f"{column.name} is {_short(held)}, and should be {_short(wanted)}")
    return problems


def as_recorded(expected: RowT, row: RowT, unrecorded: Collection[str]) -> RowT:
    """The expected row, less what the version that made `row` did not record."""
    empty = {name: None for name in unrecorded if getattr(row, name) is None}
    return replace(cast("Any", expected), **empty) if empty else expected


def _is_same(name: str, held: object, wanted: object) -> bool:
    if isinstance(held, float) and isinstance(wanted, float):
        tolerance = _MEASURED_TOLERANCE if name in _MEASURED else 1e-12
        return math.isclose(held, wanted, rel_tol=tolerance) or (math.isnan(held) and math.isnan(wanted))
    if name == "guide" and isinstance(held, str) and isinstance(wanted, str):
        return bool(_without_places(held) == _without_places(wanted))
    return bool(held == wanted)


def _without_places(guide: str) -> object:
    """A guide's facts without the paths of its files, and with a rounded similarity."""
    try:
        facts: dict[str, object] = json.loads(guide)
        facts.pop("files", None)
        similarity = facts.get("similarity", 0.0)
        facts["similarity"] = round(similarity, 5) if isinstance(similarity, float) else similarity
    except (ValueError, TypeError, AttributeError):
        return guide
    return facts


def _short(value: object) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)[:80]


def compared(
    place: Path, kind: RowKind[RowT], rows: Iterable[RowT], expected: Iterable[RowT], unrecorded: Collection[str] = ()
) -> list[Finding]:
    """The differences between a manifest's rows and the expected rows: missing, duplicate, unexpected, changed rows."""
    held: dict[tuple[object, ...], list[RowT]] = defaultdict(list)
    for row in rows:
        held[values(row, kind.key)].append(row)
    findings = []
    for wanted in expected:
        members = held.pop(values(wanted, kind.key), [])
        subject = name_of(wanted, kind.key)
        if not members:
            findings.append(Finding(place, subject, "the row is missing"))
            continue
        recorded = as_recorded(wanted, members[0], unrecorded)
        findings += [Finding(place, subject, problem) for problem in differences(members[0], recorded)]
        findings += [Finding(place, subject, "the row is there twice")] * (len(members) > 1)
    return findings + [
        Finding(place, name_of(members[0], kind.key), "the row is unexpected") for members in held.values()
    ]
