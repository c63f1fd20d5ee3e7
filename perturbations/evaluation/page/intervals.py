"""The results of one model on one dataset in one direction, with intervals from the ranks of its queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from perturbations.base import rng
from perturbations.base.errors import ManifestError
from perturbations.evaluation.page.parts import declared_by, groups, number
from perturbations.evaluation.page.ranks import Group, Ranked, Run, run_of
from perturbations.retrieval.bootstrap import Samples, draws, interval, resampled_recall
from perturbations.tta.methods import registry as methods_shelf

RECALLS = {"r1": 1, "r5": 5, "r10": 10}
_SEED = 0  # of the resamples; the same for all, so that models of one dataset are compared on the same draws
_ROUNDING = 1e-6

Scenario = tuple[Any, ...]
"""Suite, perturbation, severity, mix, share; None where there is none."""
CLEAN: Scenario = ("clean", "clean", 0, None, None)


@dataclass(frozen=True)
class Column:
    """A weighted mean over scenarios: a column of a table.

    Attributes:
        name: its heading.
        weights: the scenarios and their weights, whose sum is 1.
    """

    name: str
    weights: tuple[tuple[Scenario, float], ...]


@dataclass(frozen=True)
class Span:
    """The ends of a 95 % interval."""

    low: float
    high: float

    @property
    def holds_zero(self) -> bool:
        """Whether what it is of cannot be told from zero."""
        return not (self.low > 0 or self.high < 0)


def mean_column(name: str, scenarios: Iterable[Scenario]) -> Column:
    """The mean over perturbations of each perturbation's mean over its severities (MSRVTT-P, Sec. 4.3)."""
    by_perturbation: dict[tuple[Any, ...], list[Scenario]] = {}
    for scenario in scenarios:
        by_perturbation.setdefault(scenario[:2], []).append(scenario)
    weights = [
        (scenario, 1 / (len(by_perturbation) * len(members)))
        for members in by_perturbation.values()
        for scenario in members
    ]
    return Column(name, tuple(weights))


def spans_of(samples: Sequence[Samples | None]) -> list[Span | None]:
    """The interval of each row of resamples; None without any, or where a resample is undefined."""
    known = [row if row is not None and np.isfinite(row).all() else None for row in samples]
    rows = [row for row in known if row is not None]
    if not rows:
        return [None] * len(known)
    spans = (Span(float(low), float(high)) for low, high in zip(*interval(np.stack(rows)), strict=True))
    return [None if row is None else next(spans) for row in known]


class Scores:
    """The results of one model on one dataset in one direction.

    Attributes:
        dataset, direction, model: `model` is the name in tables.
        methods: names of the methods, in the order of tables.
        rows: the rows of results.
        sampled: whether there are ranks, and so intervals.
    """

    def __init__(self, rows: pd.DataFrame, ranked: Ranked | None) -> None:
        first = rows.iloc[0]
        self.dataset, self.direction, self.model = map(str, first[["dataset", "direction", "model_name"]])
        self.model_key = str(first["model_key"])
        self.rows = rows
        self.methods = sorted(map(str, rows["method"].unique()), key=lambda name: (methods_shelf.place_of(name), name))
        self.sampled = ranked is not None
        self._ranked = ranked
        self._values: dict[Run, Mapping[str, Any]] = {run_of(row): row for row in _records(rows)}
        self._seeds: dict[str, list[int]] = {}
        for run in self._values:
            seeds = self._seeds.setdefault(str(run[5]), [])
            seeds += [] if run[6] in seeds else [run[6]]
        self._columns: dict[tuple[str, str, Column], Samples | None] = {}

    def scenarios(self, suite: str) -> dict[str, list[Scenario]]:
        """The scenarios of a suite that are no mixes, by category, in the paper's order."""
        levels: dict[Scenario, str] = {}
        for run, row in self._values.items():
            if run[0] == suite and run[3] is None:
                levels.setdefault(run[:5], str(row["level"]))
        places = {entry.name: place for place, entry in enumerate(declared_by(suite))}

        def place(scenario: Scenario) -> tuple[Any, ...]:
            _, perturbation, severity, _, _ = scenario
            return places.get(perturbation, len(places)), perturbation, -1 if severity is None else severity

        by_level: dict[str, list[Scenario]] = {}
        for scenario in sorted(levels, key=place):
            by_level.setdefault(levels[scenario], []).append(scenario)
        return by_level

    def value(self, metric: str, method: str, column: Column) -> float:
        """The mean of a metric over a column's scenarios and all seeds; NaN where a run is missing."""
        values = [self._value(metric, method, seed, column) for seed in self._seeds.get(method, ())]
        return float(np.mean(values)) if values else float("nan")

    def _value(self, metric: str, method: str, seed: int, column: Column) -> float:
        total = 0.0
        for scenario, weight in column.weights:
            row = self._values.get((*scenario, method, seed))
            value = None if row is None else row[metric]
            total += weight * (float("nan") if value is None else float(value))
        return total

    def samples(self, metric: str, method: str, column: Column) -> Samples | None:
        """`value` in each resample; None where there are no ranks of a run, or the metric is not of recall."""
        key = metric, method, column
        if key not in self._columns:
            of_seeds = self.seed_samples(metric, method, column)
            self._columns[key] = None if of_seeds is None else np.mean(of_seeds, axis=0)
        return self._columns[key]

    def seed_samples(self, metric: str, method: str, column: Column) -> list[Samples] | None:
        """The mean of a metric over a column's scenarios in each resample, for each seed."""
        recalls = self._recalls.get(metric)
        if recalls is None or self._ranked is None:
            return None
        result = []
        for seed in self._seeds.get(method, ()):
            total = np.zeros(recalls.shape[1])
            for scenario, weight in column.weights:  # one by one: equal runs stay exactly equal
                place = self._ranked.runs.get((*scenario, method, seed))
                if place is None:
                    return None
                total += weight * recalls[place]
            result.append(total)
        return result or None

    def change(self, metric: str, method: str, column: Column) -> tuple[float, Samples | None]:
        """The difference of a method to the baseline, and that difference in each resample."""
        baseline = methods_shelf.baseline().name
        value = self.value(metric, method, column) - self.value(metric, baseline, column)
        own, other = (self.samples(metric, name, column) for name in (method, baseline))
        return value, _difference(own, other)

    @cached_property
    def _recalls(self) -> dict[str, Samples]:
        if self._ranked is None:
            return {}
        self._check(self._ranked)
        ranks = self._ranked.ranks
        counts = draws(len(ranks), rng.generator(_SEED, self.dataset, self.direction, "report/bootstrap"))
        recalls = {metric: resampled_recall(counts, ranks, k) for metric, k in RECALLS.items()}
        recalls["rsum"] = sum(recalls.values(), np.zeros(()))
        return recalls

    def _check(self, ranked: Ranked) -> None:
        """Raise `ManifestError` where results and ranks are of different runs."""
        queries = np.count_nonzero(ranked.ranks, axis=0)
        for metric, k in RECALLS.items():
            hits = np.count_nonzero((ranked.ranks > 0) & (ranked.ranks <= k), axis=0)
            for run, place in ranked.runs.items():
                row = self._values.get(run)
                if row is not None and not abs(100 * hits[place] / queries[place] - float(row[metric])) < _ROUNDING:
                    raise ManifestError(
                        f"ranks and results of {self.model_key} on {self.dataset} are of different runs: "
                        f"{self.direction} {run[0]}/{run[1]}, {run[5]}, seed {run[6]}: {metric} is {row[metric]} in "
                        f"the results and {100 * hits[place] / queries[place]} by its ranks. Run the evaluation again"
                    )


def _records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    names = [str(name) for name in rows.columns]
    return [dict(zip(names, values, strict=True)) for values in rows.itertuples(index=False, name=None)]


def of(frame: pd.DataFrame, ranked: Mapping[Group, Ranked]) -> Iterator[list[Scores]]:
    """The scores of each dataset and direction: a list over its models."""
    for (dataset, direction), of_dataset in groups(frame, "dataset", "direction"):
        yield [
            Scores(rows, ranked.get((dataset, str(rows["model_key"].iloc[0]), direction)))
            for _, rows in of_dataset.groupby("model_name", sort=True)
        ]


def marks(
    values: Sequence[float], samples: Sequence[Samples | None], form: str = ".1f", *, lower: bool = False
) -> list[str]:
    """The mark of each value of a column: "best", "second", "tie", or "".

    With resamples of all values, the best one is "best" if the interval of its difference to every other one is off
    zero; otherwise it is a "tie", and so are those it cannot be separated from. Without resamples the best value is
    "best". Values with the same text are ties; no value is marked where all texts are the same.
    """
    texts = [number(value, form) for value in values]
    places = sorted({float(text) for text in texts if text}, reverse=not lower)
    if len(places) < 2:
        return [""] * len(texts)
    present = [place for place, text in enumerate(texts) if text]
    leader = (min if lower else max)(present, key=lambda place: values[place])
    inseparable = {leader}
    if any(own is not None for own in samples):  # without resamples of a value, nobody knows
        spans = spans_of([_difference(samples[leader], samples[place]) for place in present])
        inseparable |= {place for place, span in zip(present, spans, strict=True) if span is None or span.holds_zero}
    if len(inseparable) > 1:
        return ["tie" if place in inseparable else "" for place in range(len(texts))]
    names = {places[0]: "best", places[1]: "second"}
    return [names.get(float(text), "") if text else "" for text in texts]


def _difference(first: Samples | None, second: Samples | None) -> Samples | None:
    return None if first is None or second is None else first - second
