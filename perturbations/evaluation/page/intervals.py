"""The results of one model on one dataset in one direction, with intervals from the ranks of its queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perturbations.base import rng
from perturbations.base.errors import ManifestError
from perturbations.evaluation.page.names import declared_by, groups, in_order, needs_all_queries
from perturbations.evaluation.page.ranks import Ranked, RankGroup, run_of
from perturbations.evaluation.page.tables import number
from perturbations.evaluation.result_sets import RANDOM
from perturbations.evaluation.rows import CHOICES, CLEAN_SCENARIO, ScenarioKey
from perturbations.retrieval.bootstrap import draws, interval, resampled_recall, separable, share_interval
from perturbations.tta.methods import registry as methods_registry

RECALLS = {"recall_at_1": 1, "recall_at_5": 5, "recall_at_10": 10}
_DRAWN = {**RECALLS, "recall_at_2": 2, "recall_at_3": 3}
"""The metrics of which each resample has a value; R@2 and R@3 are of composed retrieval."""
_SEED = 0  # of the resamples; the same for all, so that models of one dataset are compared on the same draws
_ROUNDING = 1e-6


ScenarioMean = tuple[tuple[ScenarioKey, float], ...]
"""A mean over scenarios, with weights whose sum is 1."""

CLEAN_MEAN: ScenarioMean = ((CLEAN_SCENARIO, 1.0),)

IntervalSpan = tuple[float, float]
"""The ends of a 95 % interval."""

Estimate = NDArray[np.float64]
"""Along the last axis the value, then, where ranks are known, the value in each resample."""


def place_in(suite: str) -> Callable[[ScenarioKey], tuple[Any, ...]]:
    """The place of a scenario's perturbations in the order of their paper."""
    places = {entry.name: place for place, entry in enumerate(declared_by(suite))}

    def place(scenario: ScenarioKey) -> tuple[Any, ...]:
        names = (scenario.perturbation, scenario.text_perturbation or "")
        return tuple((places.get(name, len(places)), name) for name in names)

    return place


def mean_of(scenarios: Iterable[ScenarioKey]) -> ScenarioMean:
    """The mean over perturbations of each perturbation's mean over its severities (MSRVTT-P, Sec. 4.3)."""
    by_perturbation: dict[tuple[str | None, ...], list[ScenarioKey]] = {}
    for scenario in scenarios:
        key = scenario.suite, scenario.perturbation, scenario.text_perturbation
        by_perturbation.setdefault(key, []).append(scenario)
    return tuple(
        (scenario, 1 / (len(by_perturbation) * len(members)))
        for members in by_perturbation.values()
        for scenario in members
    )


def spans_of(estimates: Iterable[Estimate]) -> list[IntervalSpan | None]:
    """The interval of each estimate; None without resamples, or where one is undefined."""
    spans: list[IntervalSpan | None] = []
    for estimate in estimates:
        known = len(estimate) > 1 and np.isfinite(estimate).all()
        low, high = interval(estimate[1:]) if known else (None, None)
        spans.append(None if low is None or high is None else (float(low), float(high)))
    return spans


class Scores:
    """The results of one model on one dataset in one direction; without ranks it is not `sampled`: no intervals."""

    def __init__(self, rows: pd.DataFrame, ranked: Ranked | None) -> None:
        first = rows.iloc[0]
        self.dataset, self.direction, self.model = map(str, first[["dataset", "direction", "model_name"]])
        self.by_choice = first["gallery_name"] == CHOICES
        self.model_key = str(first["model_key"])
        self.rows = rows
        self.sampled = ranked is not None
        self._ranked = ranked
        self._records: Sequence[Mapping[Any, Any]] = rows.to_dict("records")
        self._runs = {run_of(row): place for place, row in enumerate(self._records)}
        if len(self._runs) < len(rows):
            raise ManifestError(
                f"the results of {self.model_key} on {self.dataset} have two settings of a method with one label: give "
                "each a `label` in evaluation.methods, and run snakemake again"
            )
        self.methods = in_order(run[1] for run in self._runs)
        self._tables: dict[str, Estimate] = {}
        self.seeds: dict[str, list[int]] = {}
        for _, method, seed in self._runs:
            self.seeds.setdefault(method, []).append(seed)
        self.seeds = {method: list(dict.fromkeys(own)) for method, own in self.seeds.items()}

    def scenarios(self, suite: str, side: str) -> dict[str, list[ScenarioKey]]:
        """The scenarios of a suite and a side that are no mixes, by category, in the paper's order."""
        of_suite = (run[0] for run in self._runs if (run[0].suite, run[0].side, run[0].mix) == (suite, side, None))
        place = place_in(suite)
        by_category: dict[str, list[ScenarioKey]] = {}
        for scenario in sorted(
            dict.fromkeys(of_suite), key=lambda key: (*place(key), -1 if key.severity is None else key.severity)
        ):
            by_category.setdefault(str(self.first_rows[scenario]["category"]), []).append(scenario)
        return by_category

    def every(self, suite: str, side: str) -> list[ScenarioKey]:
        """The same of all categories."""
        return [scenario for members in self.scenarios(suite, side).values() for scenario in members]

    @cached_property
    def first_rows(self) -> dict[ScenarioKey, Mapping[Any, Any]]:
        """The first row of each scenario."""
        first: dict[ScenarioKey, Mapping[Any, Any]] = {}
        for run, place in self._runs.items():
            first.setdefault(run[0], self._records[place])
        return first

    def counts(self, scenarios: Iterable[ScenarioKey]) -> list[tuple[int, int, int]]:
        """The numbers of queries, of missing queries and of gallery items of each scenario that was run."""
        rows = [self.first_rows[scenario] for scenario in scenarios if scenario in self.first_rows]
        return [(int(row["queries"]), int(row["missing_queries"]), int(row["gallery"])) for row in rows]

    def of_seeds(self, metric: str, method: str, column: ScenarioMean, seed: int | None = None) -> Estimate:
        """The mean of a metric over a column's scenarios (seeds, 1 or more), of each seed or of one.

        NaN where a run is missing; of `clean_<metric>`, where the clean result over each scenario's own queries is not
        known, or is of another gallery.
        """
        table = self._table(metric)
        seeds = self.seeds.get(method, [0]) if seed is None else [seed]
        total = np.zeros((len(seeds), table.shape[1]))
        for scenario, weight in column:  # one by one: equal runs stay exactly equal
            total += weight * table[[self._runs.get((scenario, method, own), -1) for own in seeds]]
        return total

    def estimate(self, metric: str, method: str, column: ScenarioMean) -> Estimate:
        """The mean of `of_seeds`."""
        return np.asarray(self.of_seeds(metric, method, column).mean(axis=0))

    def value(self, metric: str, method: str, column: ScenarioMean) -> float:
        """The value of `estimate`."""
        return float(self.estimate(metric, method, column)[0])

    def own_span(self, metric: str, column: ScenarioMean, estimate: Estimate) -> IntervalSpan | None:
        """The interval of a value; where every resample is 0 or every one is 100, the exact one of its queries."""
        (span,) = spans_of([estimate])
        if span is None or span not in ((0, 0), (100, 100)) or metric not in _DRAWN or self._ranked is None:
            return span
        queries = min(own[0] for own in self.counts(scenario for scenario, _ in column))
        clips = len(set(self._ranked.clips.tolist()))  # captions of one clip count once
        low, high = share_interval(span[0] / 100, min(queries, clips))
        return 100 * low, 100 * high

    @cached_property
    def collapsed(self) -> frozenset[str]:
        """The methods whose clean R@1 lost more than its own interval: the baseline's lies above it."""
        metric = "recall_at_1"
        baseline = self.value(metric, methods_registry.baseline().name, CLEAN_MEAN)
        spans = {
            method: self.own_span(metric, CLEAN_MEAN, self.estimate(metric, method, CLEAN_MEAN))
            for method in self.methods
        }
        return frozenset(method for method, span in spans.items() if span is not None and span[1] < baseline)

    @cached_property
    def reference(self) -> str:
        """The model as it is; of composed retrieval, which has none, the method of the highest clean R@1."""
        values = {name: self.value("recall_at_1", name, CLEAN_MEAN) for name in self.methods}
        return max(values, key=lambda name: (name == methods_registry.baseline().name, np.nan_to_num(values[name])))

    def competing(self, estimates: Estimate, names: Sequence[str]) -> Estimate:
        """Estimates of methods, NaN where one needs all queries at once, is chance, or lost its clean result."""
        out = [name in self.collapsed or needs_all_queries(name) or name == RANDOM for name in names]
        return np.where(np.array(out, np.bool_)[:, None], np.nan, estimates)

    def _table(self, metric: str) -> Estimate:
        """A metric, or its clean counterpart, of each run, then of its resamples; the last row is of no run."""
        if metric not in self._tables:
            values = self._clean(metric.removeprefix("clean_")) if metric.startswith("clean_") else self._column(metric)
            drawn = self._recalls.get(metric, np.empty((len(values), 0)))
            self._tables[metric] = np.vstack([np.column_stack([values, drawn]), np.full(1 + drawn.shape[1], np.nan)])
        return self._tables[metric]

    def _column(self, metric: str) -> Estimate:
        return np.asarray(self.rows[metric].to_numpy(np.float64, na_value=np.nan))

    def _clean(self, metric: str) -> Estimate:
        """The clean result over each run's own queries."""
        if metric == "rsum":
            return np.asarray(sum(self._clean(own) for own in RECALLS))
        clean = [self._runs.get((CLEAN_SCENARIO, method, seed), -1) for _, method, seed in self._runs]
        queries, gallery, own = (
            np.append(self._column(name), np.nan)[clean] for name in ("queries", "gallery", metric)
        )
        known = self._column(f"clean_{metric}")
        known = np.where(np.isnan(known) & (queries == self._column("queries")), own, known)
        return np.where(gallery != self._column("gallery"), np.nan, known)

    @cached_property
    def _recalls(self) -> dict[str, Estimate]:
        """R@k of each run and of its clean counterpart over the same queries, in each resample; NaN without ranks."""
        if self._ranked is None:
            return {}
        self._check(self._ranked)
        ranks, runs = self._ranked.ranks, self._ranked.runs
        columns = [runs.get(run, -1) for run in self._runs]
        clean = [runs.get((CLEAN_SCENARIO, method, seed), -1) for _, method, seed in self._runs]
        unknown = np.zeros((len(ranks), 1), np.uint8)
        padded = np.concatenate([ranks, unknown], axis=1)
        paired = np.where(padded[:, columns] > 0, padded[:, clean], 0)
        # Most clean counterparts are equal, and a resample without a query has no recall.
        distinct, places = np.unique(np.concatenate([padded[:, columns], paired], axis=1), axis=1, return_inverse=True)
        generator = rng.generator(_SEED, self.dataset, self.direction, "report/bootstrap")
        counts = draws(len(ranks), generator, clusters=self._ranked.clips)
        half = len(columns)
        recalls: dict[str, Estimate] = {}
        for metric, k in _DRAWN.items():
            drawn = resampled_recall(counts, distinct, k)
            recalls[metric], recalls[f"clean_{metric}"] = drawn[places[:half]], drawn[places[half:]]
        for prefix in ("", "clean_"):
            recalls[f"{prefix}rsum"] = sum((recalls[prefix + metric] for metric in RECALLS), np.zeros(()))
        return recalls

    def _check(self, ranked: Ranked) -> None:
        """Raise `ManifestError` where results and ranks are of different runs."""
        queries = np.count_nonzero(ranked.ranks, axis=0)
        for metric, k in _DRAWN.items():
            if self.rows[metric].isna().all():
                continue
            hits = np.count_nonzero((ranked.ranks > 0) & (ranked.ranks <= k), axis=0)
            for run, place in ranked.runs.items():
                row = self._records[self._runs[run]] if run in self._runs else None
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


def marks(estimates: Estimate, form: str = ".1f", *, lower: bool = False) -> list[str]:
    """The mark of each value of a column (methods, 1 or more): "best", "second", "tie", or "".

    With resamples, the best one is "best" if its difference to every other one is off zero, with Holm's correction;
    otherwise it is a "tie", and so are those it cannot be separated from. Without, the best value is "best". Values
    with the same text are ties; no value is marked where all texts are the same.
    """
    values = estimates[:, 0]
    texts = ["" if value != value else number(value, form) for value in values]
    places = sorted({float(text) for text in texts if text}, reverse=not lower)
    if len(places) < 2:
        return [""] * len(texts)
    present = [place for place, text in enumerate(texts) if text]
    leader = (min if lower else max)(present, key=lambda place: values[place])
    inseparable = {leader}
    if any(span is not None for span in spans_of(estimates[present])):  # of others nobody knows
        others = [place for place in present if place != leader]
        apart = separable(estimates[leader, 1:] - estimates[others, 1:])
        inseparable |= {place for place, is_apart in zip(others, apart, strict=True) if not is_apart}
    if len(inseparable) > 1:
        return ["tie" if place in inseparable else "" for place in range(len(texts))]
    names = {places[0]: "best", places[1]: "second"}
    return [names.get(float(text), "") if text else "" for text in texts]
