"""What is said of a corpus as a whole, gathered from its rows in one pass: there may be millions of them."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Generic, Self, TypeVar

from perturbations.base import shown, storage
from perturbations.engine.guided import offline_roles
from perturbations.manifest.kinds import COMPLETE, ClipRow, TextRow, VideoRow

_Row = TypeVar("_Row", ClipRow, TextRow)

Value = Callable[[ClipRow], float | None]
"""Gives what was measured of a row; None where it was not."""

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
    """The rows of one perturbation at one severity.

    Attributes:
        level: of the perturbation.
        complete, others: the numbers of rows that are complete, and that are not.
        bytes: of all stored files.
        backends: of complete rows.
        values: what was measured of complete rows, by the value's name.
    """

    level: str | None
    complete: int = 0
    others: int = 0
    bytes: int = 0
    backends: set[str | None] = field(default_factory=set)
    values: defaultdict[str, array[float]] = field(default_factory=lambda: defaultdict(lambda: array("d")))


@dataclass
class Tally(RowTally[ClipRow]):
    """The rows of a corpus, counted.

    Attributes:
        measures: what is gathered of complete rows, by name.
        complete: the number of complete rows per item.
        failed: the rows that are not complete.
        losses: the finite PSNRs of stored against intended frames, by suite and storage.
        scenarios: the rows of each perturbation and severity, in the order in which these come first.
    """

    measures: Mapping[str, Value] = field(default_factory=dict)
    complete: Counter[str] = field(default_factory=Counter)
    failed: list[ClipRow] = field(default_factory=list)
    losses: defaultdict[tuple[str, str], array[float]] = field(default_factory=lambda: defaultdict(lambda: array("d")))
    scenarios: dict[tuple[str, int], ScenarioTally] = field(default_factory=dict)

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
        name = str(row.perturbation), row.severity
        scenario = self.scenarios.get(name) or self.scenarios.setdefault(name, ScenarioTally(row.level))
        if row.status != COMPLETE:
            scenario.others += 1
            self.failed.append(row)
            return
        self.complete[row.item_id] += 1
        scenario.complete += 1
        scenario.bytes += row.bytes or 0
        scenario.backends.add(row.backend)
        for measure, value in self.measures.items():
            if (number := value(row)) is not None:
                scenario.values[measure].append(number)

    def of(self, perturbation: str) -> dict[int, ScenarioTally]:
        """The scenarios of a perturbation by their severities."""
        return {severity: scenario for (name, severity), scenario in self.scenarios.items() if name == perturbation}

    def in_words(self, text: str) -> str:
        """A sentence about clips, about pictures where the clips are pictures."""
        return shown.in_words_of(text, pictures=self.has_pictures)

    @property
    def has_pictures(self) -> bool:
        """Whether the clips are pictures."""
        return self.first is not None and storage.is_picture(self.first.source_path)

    @property
    def perturbations(self) -> set[str]:
        """The names of the perturbations."""
        return {name for name, _ in self.scenarios}

    @property
    def severities(self) -> list[int]:
        """The severities, sorted."""
        return sorted({severity for _, severity in self.scenarios})

    @property
    def bytes(self) -> int:
        """The bytes of all stored files."""
        return sum(scenario.bytes for scenario in self.scenarios.values())

    @property
    def number_complete(self) -> int:
        """The number of complete rows."""
        return self.complete.total()

    @property
    def loss_db(self) -> tuple[float, float] | None:
        """The smallest and the largest finite PSNR of stored against intended frames; None where nothing is lost."""
        values = [value for losses in self.losses.values() for value in (min(losses), max(losses))]
        return (min(values), max(values)) if values else None


def stand_ins(scenarios: Iterable[ScenarioTally]) -> list[str]:
    """The roles that offline backends played in complete rows, sorted."""
    backends = {backend for scenario in scenarios for backend in scenario.backends}
    return sorted({role for backend in backends for role in offline_roles(backend)})
