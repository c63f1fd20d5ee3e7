"""The rows of answers and of their results, and what a cell is."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from perturbations.base.errors import ConfigError, short
from perturbations.exports.export_names import CLEAN, joined_name
from perturbations.manifest.rows import RowKind


class CellKey(NamedTuple):
    """The scenario of a cell; CLEAN, CLEAN, 0 for clean clips. The suite is "" where a log does not name it."""

    suite: str = CLEAN
    perturbation: str = CLEAN
    severity: int = 0

    @property
    def name(self) -> str:
        """Its name in exports: `fog_3`."""
        return CLEAN if self == CellKey() else joined_name(self.perturbation, str(self.severity))


def cell_of(text: str, suites: Mapping[str, Collection[tuple[str, int]]]) -> CellKey:
    """A cell by its name: `clean`, `fog_3`, `mlvp/fog_3`, `blank`.

    `suites` are the scenarios of each suite. Where no suite is named, only one suite may have the scenario.
    Raises `ConfigError`.
    """
    if text == CLEAN:
        return CellKey()
    match = re.fullmatch(r"(?:([a-z][a-z0-9_]*)/)?([A-Za-z0-9_]+?)(?:_([0-9]+))?", text)
    if match is None:
        raise ConfigError(f"no cell {short(text)}: it is `clean` or a perturbation with its severity, such as fog_3")
    suite, perturbation, severity = match[1], match[2], int(match[3] or 1)
    having = [name for name, scenarios in suites.items() if (perturbation, severity) in scenarios]
    return CellKey(suite or (having[0] if len(having) == 1 else ""), perturbation, severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class _InCell:
    """A row of a model in a cell.

    `budget` holds the log's settings of frames: how many or how often, which sampler, which size.
    """

    model: str
    budget: str
    suite: str
    perturbation: str
    severity: int
    cell: str

    @property
    def key(self) -> CellKey:
        """The cell's key."""
        return CellKey(self.suite, self.perturbation, self.severity)

    @property
    def model_name(self) -> str:
        """The model's name in tables, with the budget if the log has one."""
        return f"{self.model} ({self.budget})" if self.budget else self.model

    @property
    def cell_name(self) -> str:
        """The cell's name in tables: `mlvp/fog_3`, `clean`."""
        return self.cell if self.cell == CLEAN or not self.suite else f"{self.suite}/{self.cell}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRow(_InCell):
    """A model's answer to a question in a cell.

    `parsed` is the option that the response names, from 0; empty where it names none. `reported_score` is the harness's
    own.
    """

    question_id: str
    response: str
    parsed: int | None = None
    correct: bool
    reported_score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerResult(_InCell):
    """The answers of a model in a cell beside its clean answers, over the `n` questions that both have.

    Accuracies, `delta` (perturbed - clean), their intervals and `smallest_drop` are percent; rates are shares of 1.
    `missing` are the other questions of the table. n11, n10, n01, n00 count questions that are right (1) or wrong (0)
    in the clean cell and in this cell. `low` and `high` bound `delta`. `smallest_drop` is the smallest drop that so
    many pairs can show (.05, power .8). `visual_share` is (A_p - A_blank) / (A_c - A_blank). `by_category` is JSON.
    """

    n: int
    missing: int
    unparsed: int
    accuracy: float | None = None
    accuracy_low: float | None = None
    accuracy_high: float | None = None
    clean_accuracy: float | None = None
    delta: float | None = None
    low: float | None = None
    high: float | None = None
    n11: int | None = None
    n10: int | None = None
    n01: int | None = None
    n00: int | None = None
    same_answer: float | None = None
    harmful_flips: float | None = None
    beneficial_flips: float | None = None
    resist_rate: float | None = None
    p_flip: float | None = None
    p_mcnemar: float | None = None
    p_holm: float | None = None
    smallest_drop: float | None = None
    equivalent: bool | None = None
    visual_share: float | None = None
    visual_low: float | None = None
    visual_high: float | None = None
    by_category: str
    clusters: int
    draws: int
    seed: int


_CELL = ("model", "budget", "suite", "perturbation", "severity")
ANSWERS = RowKind("answers", AnswerRow, (*_CELL, "question_id"))
ANSWER_RESULTS = RowKind("answer_results", AnswerResult, _CELL)


def kinds() -> list[RowKind[Any]]:
    """The kinds of manifests of this room."""
    return [ANSWERS, ANSWER_RESULTS]
