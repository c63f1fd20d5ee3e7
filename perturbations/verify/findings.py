"""Findings of a verification, and the comparison of rows cell by cell."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from perturbations.manifest import files
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
    place: Path, kind: RowKind[RowT], rows: Sequence[RowT], expected: Sequence[RowT], unrecorded: Collection[str] = ()
) -> list[Finding]:
    """The differences between a manifest's rows and the expected rows: missing, duplicate, unexpected, changed rows.

    The expected rows are in the order of their key.
    """
    findings, unexpected = [], []
    for key, members, wanted in _side_by_side(kind, files.in_order(kind, rows), expected):
        subject = " ".join(map(_plain, key))
        if not members:
            findings.append(Finding(place, subject, "the row is missing"))
        elif not wanted:
            unexpected.append(Finding(place, subject, "the row is unexpected"))
        else:
            recorded = as_recorded(wanted[0], members[0], unrecorded)
            findings += [Finding(place, subject, problem) for problem in differences(members[0], recorded)]
            findings += [Finding(place, subject, "the row is there twice")] * (len(members) > 1)
    return findings + unexpected


def _side_by_side(
    kind: RowKind[RowT], rows: Iterable[RowT], expected: Iterable[RowT]
) -> Iterator[tuple[tuple[object, ...], list[RowT], list[RowT]]]:
    """Each key of rows in order with the rows that have it, of both."""

    def order(pair: tuple[bool, RowT]) -> list[tuple[bool, Any]]:
        return [(value is not None, value) for value in values(pair[1], kind.key)]

    sides = heapq.merge(((False, row) for row in rows), ((True, row) for row in expected), key=order)
    for _, same in groupby(sides, order):
        pairs = list(same)
        members, wanted = ([row for side, row in pairs if side == of_expected] for of_expected in (False, True))
        yield values(pairs[0][1], kind.key), members, wanted
