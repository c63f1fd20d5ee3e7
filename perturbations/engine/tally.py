"""What is said of a corpus as a whole, gathered from its rows in one pass: there may be millions of them."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Generic, Self, TypeVar

from perturbations.base import storage
from perturbations.manifest.kinds import COMPLETE, ClipRow, TextRow, VideoRow

_Row = TypeVar("_Row", ClipRow, TextRow)

_WAY = attrgetter("dataset", "suite", "perturbation", "severity", "variant", "params", "recipe")


@dataclass
class RowTally(Generic[_Row]):
    """Rows of perturbed clips or captions, counted.

    Attributes:
        rows: the number of rows.
        first: the first row.
        items: the ids of the clips.
        distinct: a row for each way in which rows were made.
    """

    rows: int = 0
    first: _Row | None = None
    items: set[str] = field(default_factory=set)
    distinct: dict[tuple[object, ...], _Row] = field(default_factory=dict)

    def add(self, row: _Row, *way: object) -> None:
        """Count a row; `way` is how it was made, beside what rows of clips and of captions say."""
        self.rows += 1
        self.first = self.first or row
        self.items.add(row.item_id)
        self.distinct.setdefault((*_WAY(row), *way), row)

    def counted(self, rows: Iterable[_Row]) -> Self:
        """This tally, with rows that it counts."""
        for row in rows:
            self.add(row)
        return self


TextTally = RowTally[TextRow]
"""The rows of perturbed captions, counted."""


@dataclass
class ScenarioTally:
    """The complete rows of one perturbation at one severity: their number, backends, and PSNRs against clean clips."""

    complete: int = 0
    backends: set[str | None] = field(default_factory=set)
    psnr_db: array[float] = field(default_factory=lambda: array("d"))


@dataclass
class Tally(RowTally[ClipRow]):
    """The rows of a corpus, counted.

    Attributes:
        complete: the number of complete rows per item.
        failed: the rows that are not complete.
        losses: the finite PSNRs of stored against intended frames, by suite and storage.
        scenarios: the rows of each perturbation and severity, in the order in which these come first.
    """

    complete: Counter[str] = field(default_factory=Counter)
    failed: list[ClipRow] = field(default_factory=list)
    losses: defaultdict[tuple[str, str], array[float]] = field(default_factory=lambda: defaultdict(lambda: array("d")))
    scenarios: defaultdict[tuple[str, int], ScenarioTally] = field(default_factory=lambda: defaultdict(ScenarioTally))

    def over(self, rows: Iterable[VideoRow]) -> Iterator[VideoRow]:
        """The same rows, which are counted."""
        for row in rows:
            self.add(row)
            yield row

    def add(self, row: ClipRow, *way: object) -> None:
        """Count a row."""
        super().add(row, row.backend, bool(row.guide), row.storage, *way)
        loss = row.storage_psnr_db
        if loss is not None and loss < math.inf:
            self.losses[row.suite, row.storage].append(loss)
        scenario = self.scenarios[str(row.perturbation), row.severity]
        if row.status != COMPLETE:
            self.failed.append(row)
            return
        self.complete[row.item_id] += 1
        scenario.complete += 1
        scenario.backends.add(row.backend)
        if row.psnr_db is not None:
            scenario.psnr_db.append(row.psnr_db)

    @property
    def has_pictures(self) -> bool:
        """Whether the clips are pictures."""
        return self.first is not None and storage.is_picture(self.first.source_path)
