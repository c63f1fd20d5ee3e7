"""The results of one model on one dataset in one direction, with intervals from the ranks of its queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perturbations.base import rng
from perturbations.base.errors import ManifestError
from perturbations.evaluation.page.page_tables import number
from perturbations.evaluation.page.parts import declared_by, groups, in_order
from perturbations.evaluation.page.ranks import Ranked, RankGroup, RankRun, ScenarioKey, run_of
from perturbations.retrieval.bootstrap import Samples, draws, interval, resampled_recall, share_interval
from perturbations.tta.methods import registry as methods_shelf

RECALLS = {"recall_at_1": 1, "recall_at_5": 5, "recall_at_10": 10}
_SEED = 0  # of the resamples; the same for all, so that models of one dataset are compared on the same draws
_ROUNDING = 1e-6

CLEAN = ScenarioKey("none", "clean", "clean", 0)


@dataclass(frozen=True)
class IntervalColumn:
    """A column of a table: its heading, and a mean over scenarios, whose weights sum to 1."""

    name: str
    weights: tuple[tuple[ScenarioKey, float], ...]


CLEAN_COLUMN = IntervalColumn("clean", ((CLEAN, 1.0),))


IntervalSpan = tuple[float, float]
"""The ends of a 95 % interval."""


def place_in(suite: str) -> Callable[[ScenarioKey], tuple[Any, ...]]:
    """The place of a scenario's perturbations in the order of their paper."""
    places = {entry.name: place for place, entry in enumerate(declared_by(suite))}

    def place(scenario: ScenarioKey) -> tuple[Any, ...]:
        names = (scenario.perturbation, scenario.text_perturbation or "")
        return tuple((places.get(name, len(places)), name) for name in names)

    return place


def mean_column(name: str, scenarios: Iterable[ScenarioKey]) -> IntervalColumn:
    """The mean over perturbations of each perturbation's mean over its severities (MSRVTT-P, Sec. 4.3)."""
    by_perturbation: dict[tuple[str | None, ...], list[ScenarioKey]] = {}
    for scenario in scenarios:
        key = scenario.suite, scenario.perturbation, scenario.text_perturbation
        by_perturbation.setdefault(key, []).append(scenario)
    weights = [
        (scenario, 1 / (len(by_perturbation) * len(members)))
        for members in by_perturbation.values()
        for scenario in members
    ]
    return IntervalColumn(name, tuple(weights))


def spans_of(samples: Sequence[Samples | None]) -> list[IntervalSpan | None]:
    """The interval of each row of resamples; None without any, or where a resample is undefined."""
    known = [row if row is not None and np.isfinite(row).all() else None for row in samples]
    rows = [row for row in known if row is not None]
    if not rows:
        return [None] * len(known)
    spans = ((float(low), float(high)) for low, high in zip(*interval(np.stack(rows)), strict=True))
    return [None if row is None else next(spans) for row in known]


class Scores:
    """The results of one model on one dataset in one direction; without ranks it is not `sampled`: no intervals."""

    def __init__(self, rows: pd.DataFrame, ranked: Ranked | None) -> None:
        first = rows.iloc[0]
        self.dataset, self.direction, self.model = map(str, first[["dataset", "direction", "model_name"]])
        self.model_key = str(first["model_key"])
        self.rows = rows
        self.methods = in_order(rows["method"])
        self.sampled = ranked is not None
        self._ranked = ranked
        self._values: dict[RankRun, Mapping[Any, Any]] = {run_of(row): row for row in rows.to_dict("records")}
        self._seeds: dict[str, list[int]] = {}
        for run in self._values:
            seeds = self._seeds.setdefault(run[1], [])
            seeds += [] if run[2] in seeds else [run[2]]
        self._columns: dict[tuple[str, str, IntervalColumn], Samples | None] = {}

    def scenarios(self, suite: str, side: str) -> dict[str, list[ScenarioKey]]:
        """The scenarios of a suite and a side that are no mixes, by category, in the paper's order."""
        categories: dict[ScenarioKey, str] = {}
        for (scenario, _, _), row in self._values.items():
            if (scenario.suite, scenario.side, scenario.mix) == (suite, side, None):
                categories.setdefault(scenario, str(row["category"]))
        place = place_in(suite)
        by_category: dict[str, list[ScenarioKey]] = {}
        for scenario in sorted(categories, key=lambda key: (*place(key), -1 if key.severity is None else key.severity)):
            by_category.setdefault(categories[scenario], []).append(scenario)
        return by_category

    def every(self, suite: str, side: str) -> list[ScenarioKey]:
        """The same of all categories."""
        return [scenario for members in self.scenarios(suite, side).values() for scenario in members]

    @property
    def keys(self) -> list[ScenarioKey]:
        """Every scenario, in the order of the rows."""
        return list(dict.fromkeys(scenario for scenario, _, _ in self._values))

    def counts(self, scenarios: Iterable[ScenarioKey]) -> list[tuple[int, int, int]]:
        """The numbers of queries, of missing queries and of gallery items of each scenario that was run."""
        return [self._counts[scenario] for scenario in scenarios if scenario in self._counts]

    @cached_property
    def _counts(self) -> dict[ScenarioKey, tuple[int, int, int]]:
        runs = reversed(self._values.items())  # the first run of a scenario counts
        return {run[0]: (int(row["queries"]), int(row["missing_queries"]), int(row["gallery"])) for run, row in runs}

    def value(self, metric: str, method: str, column: IntervalColumn) -> float:
        """The mean of a metric over a column's scenarios and all seeds; NaN where a run is missing."""
        values = self.seed_values(metric, method, column)
        return float(np.mean(values)) if values else float("nan")

    def _number(self, run: RankRun, metric: str) -> float:
        row = self._values.get(run)
        value = None if row is None else row[metric]
        return float("nan") if value is None else float(value)

    def seed_values(self, metric: str, method: str, column: IntervalColumn) -> list[float]:
        """`value` of each seed."""
        return [
            sum((weight * self._number((scenario, method, seed), metric) for scenario, weight in column.weights), 0.0)
            for seed in self._seeds.get(method, ())
        ]

    def pairs(self, metric: str, method: str, scenario: ScenarioKey) -> list[tuple[float, float]]:
        """The clean result over the scenario's own queries, and the scenario's result, of each seed."""
        runs = [(scenario, method, seed) for seed in self._seeds.get(method, ())]
        return [(self._clean_number(run, metric), self._number(run, metric)) for run in runs]

    def _clean_number(self, run: RankRun, metric: str) -> float:
        """NaN where the clean result over these queries is not known."""
        if metric == "rsum":
            return sum(self._clean_number(run, own) for own in RECALLS)
        known = self._number(run, f"clean_{metric}")
        clean_run = CLEAN, run[1], run[2]
        same = self._number(run, "queries") == self._number(clean_run, "queries")
        return known if known == known or not same else self._number(clean_run, metric)

    def pair_samples(self, metric: str, method: str, scenario: ScenarioKey) -> list[tuple[Samples, Samples]] | None:
        """`pairs` in each resample; None without ranks."""
        if metric not in self._recalls or self._ranked is None:
            return None
        result = []
        for seed in self._seeds.get(method, ()):
            place = self._ranked.runs.get((scenario, method, seed))
            clean = self._paired[0].get((scenario, method, seed))
            if place is None or clean is None:
                return None
            recalls = self._recalls[metric]
            result.append((recalls[clean], recalls[place]))
        return result or None

    def own_span(self, metric: str, column: IntervalColumn, samples: Samples | None) -> IntervalSpan | None:
        """The interval of a value; where every resample is 0 or every one is 100, the exact one of its queries."""
        (span,) = spans_of([samples])
        if span is None or metric not in RECALLS or span not in ((0, 0), (100, 100)):
            return span
        queries = min(own[0] for own in self.counts(scenario for scenario, _ in column.weights))
        low, high = share_interval(span[0] / 100, queries)
        return 100 * low, 100 * high

    def samples(self, metric: str, method: str, column: IntervalColumn) -> Samples | None:
        """`value` in each resample; None where there are no ranks of a run, or the metric is not of recall."""
        key = metric, method, column
        if key not in self._columns:
            of_seeds = self.seed_samples(metric, method, column)
            self._columns[key] = None if of_seeds is None else np.mean(of_seeds, axis=0)
        return self._columns[key]

    def seed_samples(self, metric: str, method: str, column: IntervalColumn) -> list[Samples] | None:
        """The mean of a metric over a column's scenarios in each resample, for each seed."""
        recalls = self._recalls.get(metric)
        if recalls is None or self._ranked is None:
            return None
        result = []
        for seed in self._seeds.get(method, ()):
            total = np.zeros(recalls.shape[1])
            for scenario, weight in column.weights:  # one by one: equal runs stay exactly equal
                place = self._ranked.runs.get((scenario, method, seed))
                if place is None:
                    return None
                total += weight * recalls[place]
            result.append(total)
        return result or None

    def change(self, metric: str, method: str, column: IntervalColumn) -> tuple[float, Samples | None]:
        """The difference of a method to the baseline, and that difference in each resample."""
        baseline = methods_shelf.baseline().name
        value = self.value(metric, method, column) - self.value(metric, baseline, column)
        own, other = (self.samples(metric, name, column) for name in (method, baseline))
        return value, _difference(own, other)

    @cached_property
    def _recalls(self) -> dict[str, Samples]:
        """R@k in each resample: a row per run, then one per clean run over fewer queries (`_paired`)."""
        if self._ranked is None:
            return {}
        self._check(self._ranked)
        ranks = np.concatenate([self._ranked.ranks, *self._paired[1]], axis=1)
        counts = draws(len(ranks), rng.generator(_SEED, self.dataset, self.direction, "report/bootstrap"))
        recalls = {metric: resampled_recall(counts, ranks, k) for metric, k in RECALLS.items()}
        recalls["rsum"] = sum(recalls.values(), np.zeros(()))
        return recalls

    @cached_property
    def _paired(self) -> tuple[dict[RankRun, int], list[NDArray[np.uint8]]]:
        """The row of `_recalls` with the clean result over a run's own queries; ranks of clean runs over fewer."""
        places: dict[RankRun, int] = {}
        fewer: list[NDArray[np.uint8]] = []
        if self._ranked is None:
            return places, fewer
        ranks, known = self._ranked.ranks, {}
        for run, place in self._ranked.runs.items():
            clean = self._ranked.runs.get((CLEAN, run[1], run[2]))
            if clean is None:
                continue
            there = ranks[:, place] > 0
            if np.array_equal(there, ranks[:, clean] > 0):
                places[run] = clean
                continue
            key = clean, there.tobytes()
            if key not in known:
                known[key] = ranks.shape[1] + len(fewer)
                fewer.append(np.where(there, ranks[:, clean], 0).astype(np.uint8)[:, None])
            places[run] = known[key]
        return places, fewer

    def _check(self, ranked: Ranked) -> None:
        """Raise `ManifestError` where results and ranks are of different runs."""
        queries = np.count_nonzero(ranked.ranks, axis=0)
        for metric, k in RECALLS.items():
            hits = np.count_nonzero((ranked.ranks > 0) & (ranked.ranks <= k), axis=0)
            for run, place in ranked.runs.items():
                row = self._values.get(run)
                if row is not None and not abs(100 * hits[place] / queries[place] - float(row[metric])) < _ROUNDING:
                    scenario = f"{run[0].side} {run[0].suite}/{run[0].perturbation}"
                    raise ManifestError(
                        f"ranks and results of {self.model_key} on {self.dataset} are of different runs: "
                        f"{self.direction} {scenario}, {run[1]}, seed {run[2]}: {metric} is {row[metric]} in the "
                        f"results and {100 * hits[place] / queries[place]} by its ranks. Run the evaluation again"
                    )


def of(frame: pd.DataFrame, ranked: Mapping[RankGroup, Ranked]) -> Iterator[dict[str, list[Scores]]]:
    """The scores of each dataset: by direction, a list over its models."""
    for (_,), of_dataset in groups(frame, "dataset"):
        yield {
            direction: [
                Scores(rows, ranked.get((str(rows["dataset"].iloc[0]), str(rows["model_key"].iloc[0]), direction)))
                for _, rows in of_direction.groupby("model_name", sort=True)
            ]
            for (direction,), of_direction in groups(of_dataset, "direction")
        }


def marks(
    values: Sequence[float], samples: Sequence[Samples | None], form: str = ".1f", *, lower: bool = False
) -> list[str]:
    """The mark of each value of a column: "best", "second", "tie", or "".

    With resamples of all values, the best one is "best" if the interval of its difference to every other one is off
    zero; otherwise it is a "tie", and so are those it cannot be separated from. Without resamples the best value is
    "best". Values with the same text are ties; no value is marked where all texts are the same.
    """
    texts = ["" if value != value else number(value, form) for value in values]
    places = sorted({float(text) for text in texts if text}, reverse=not lower)
    if len(places) < 2:
        return [""] * len(texts)
    present = [place for place, text in enumerate(texts) if text]
    leader = (min if lower else max)(present, key=lambda place: values[place])
    inseparable = {leader}
    if any(own is not None for own in samples):  # without resamples of a value, nobody knows
        spans = spans_of([_difference(samples[leader], samples[place]) for place in present])
        inseparable |= {
            place for place, span in zip(present, spans, strict=True) if not span or span[0] <= 0 <= span[1]
        }
    if len(inseparable) > 1:
        return ["tie" if place in inseparable else "" for place in range(len(texts))]
    names = {places[0]: "best", places[1]: "second"}
    return [names.get(float(text), "") if text else "" for text in texts]


def _difference(first: Samples | None, second: Samples | None) -> Samples | None:
    return None if first is None or second is None else first - second
