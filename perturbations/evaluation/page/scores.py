"""The results of one model on one dataset in one direction, with intervals from the ranks of its queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perturbations.base.errors import ManifestError
from perturbations.evaluation.page.displayed_names import declared_by, groups, in_order, label, needs_all_queries
from perturbations.evaluation.page.marks import Estimate, IntervalSpan, span_of
from perturbations.evaluation.page.query_ranks import GROUP, RUN, QueryDraws, RankGroup, run_of
from perturbations.evaluation.result_rows import CLEAN_SCENARIO, ScenarioKey
from perturbations.evaluation.result_sets import RANDOM
from perturbations.retrieval.bootstrap import resampled_recall, share_interval
from perturbations.tta.methods import method_registry as methods_registry

RECALLS = {"recall_at_1": 1, "recall_at_5": 5, "recall_at_10": 10}
_DRAWN = {**RECALLS, "recall_at_2": 2, "recall_at_3": 3}
"""The metrics with a value in each resample; R@2 and R@3 are for composed retrieval."""
_ROUNDING = 1e-6
_COUNTS = ["queries", "missing_queries", "gallery", "gallery_mean"]


def mean_of(scenarios: pd.DataFrame) -> pd.Series:
    """The weights of scenarios in a mean over perturbations of their means over severities (MSRVTT-P, Sec. 4.3)."""
    names = ("suite", "perturbation", "text_perturbation")
    keys = list(zip(*(scenarios[name] for name in names), strict=True))  # a page asks thousands of times
    sizes = Counter(keys)
    return pd.Series([1 / (len(sizes) * sizes[key]) for key in keys], scenarios.index)


class Scores:
    """The results of one model on one dataset in one direction. Without ranks (not `sampled`) there are no intervals.

    `scenarios` has a row for each scenario, in the order of the paper, with its names and counts. A column of a table
    is a Series of weights by the scenarios' numbers; `unknown` is the column without a scenario.
    """

    def __init__(self, rows: pd.DataFrame, ranks: pd.DataFrame | None, drawn: QueryDraws) -> None:
        self.dataset, self.direction, self.model, self.model_key = map(
            str, rows.iloc[0][["dataset", "direction", "model_name", "model_key"]]
        )
        self.rows, self.sampled, self._drawn_queries = rows, ranks is not None, drawn
        self._ranks = None if ranks is None else ranks.reindex(drawn.queries, fill_value=0)
        self._runs = {run_of(row): place for place, row in enumerate(rows[RUN].to_dict("records"))}
        if len(self._runs) < len(rows):
            raise ManifestError(
                f"the results of {self.model_key} on {self.dataset} have two settings of a method with one label: give "
                "each a `label` in evaluation.methods, and run snakemake again"
            )
        self.methods = in_order(method for _, method, _ in self._runs)
        self.seeds: dict[str, list[int]] = {method: [] for method in self.methods}
        first: dict[ScenarioKey, int] = {}
        for (key, method, seed), place in self._runs.items():
            first.setdefault(key, place)
            self.seeds[method] += [] if seed in self.seeds[method] else [seed]
        keys = sorted(first, key=_place_in_paper)
        self.numbers = {key: at for at, key in enumerate(keys)}
        self.unknown = pd.Series({len(keys): 1.0})
        self.clean = pd.Series({self.numbers.get(CLEAN_SCENARIO, len(keys)): 1.0})
        about = rows.iloc[[first[key] for key in keys]][["category", "backend", *_COUNTS]].reset_index(drop=True)
        self.scenarios = pd.DataFrame(keys, columns=ScenarioKey._fields, dtype=object).join(about)
        self.scenarios["name"], self.scenarios["full"] = (
            [_heading(key, backend, full=full) for key, backend in zip(keys, about["backend"], strict=True)]
            for full in (False, True)
        )
        self._places = {
            method: np.array([[self._runs.get((key, method, seed), -1) for key in [*keys, None]] for seed in seeds])  # type: ignore[arg-type]
            for method, seeds in self.seeds.items()
        }
        self._tables: dict[str, Estimate] = {}

    def perturbed(self, suite: str, side: str) -> pd.DataFrame:
        """The scenarios of a suite and a side, without mixes, in the paper's order, category by category."""
        known = self.scenarios
        own = known[(known["suite"] == suite) & (known["side"] == side) & known["mix"].isna()]
        return own.iloc[np.argsort(pd.factorize(own["category"])[0], kind="stable")]

    def of_scenarios(self, metric: str, method: str, numbers: Sequence[int]) -> Estimate:
        """A metric of scenarios, by their numbers, for each seed, and its resamples (seeds, scenarios, 1 or more).

        NaN where a run is missing. `clean_<metric>` is NaN where the clean result over the scenario's own queries is
        not known, or is of another gallery.
        """
        places = self._places.get(method, np.full((1, len(self.scenarios) + 1), -1))
        return np.asarray(self._table(metric)[places[:, numbers]])

    def of_seeds(self, metric: str, method: str, column: pd.Series) -> Estimate:
        """The mean of a metric over a column's scenarios (seeds, 1 or more), of each seed."""
        known = self.of_scenarios(metric, method, [*column.index])
        # One by one: equal runs stay exactly equal.
        terms = (weight * known[:, place] for place, weight in enumerate(column))
        return np.asarray(sum(terms, np.zeros((len(known), known.shape[2]))))

    def estimate(self, metric: str, method: str, column: pd.Series) -> Estimate:
        """The mean of `of_seeds`."""
        return np.asarray(self.of_seeds(metric, method, column).mean(axis=0))

    def loss(self, method: str, column: pd.Series, metric: str = "recall_at_1") -> Estimate:
        """The clean result of a method over each scenario's own queries minus the perturbed one."""
        return self.estimate(f"clean_{metric}", method, column) - self.estimate(metric, method, column)

    def own_span(self, metric: str, column: pd.Series, estimate: Estimate) -> IntervalSpan | None:
        """The interval of a value; where all resamples are 0 or all are 100, the exact interval for its queries."""
        span = span_of(estimate)
        if span is None or span not in ((0, 0), (100, 100)) or metric not in _DRAWN:
            return span
        low, high = share_interval(span[0] / 100, self.units(column))
        return 100 * low, 100 * high

    def units(self, column: pd.Series | pd.DataFrame) -> int:
        """How many queries, or clips with their captions, a column's numbers are of at least."""
        queries = self.scenarios["queries"].reindex(column.index).min()
        clips = int(np.unique(self._drawn_queries.clips[self.asked]).size)
        return clips if queries != queries else min(int(queries), clips)

    @cached_property
    def collapsed(self) -> frozenset[str]:
        """The methods whose clean R@1 fell so far that the baseline's lies above its interval."""
        metric = "recall_at_1"
        baseline = self.estimate(metric, methods_registry.baseline().name, self.clean)[0]
        spans = {
            name: self.own_span(metric, self.clean, self.estimate(metric, name, self.clean)) for name in self.methods
        }
        return frozenset(method for method, span in spans.items() if span is not None and span[1] < baseline)

    @cached_property
    def reference(self) -> str:
        """The model without adaptation; in composed retrieval, the method of the highest clean R@1, without chance."""
        plain = methods_registry.baseline().name
        values = {name: self.estimate("recall_at_1", name, self.clean)[0] for name in self.methods}
        return max(values, key=lambda name: (name == plain, name != RANDOM, np.nan_to_num(values[name])))

    def competing(self, estimates: Estimate) -> Estimate:
        """Estimates of the methods; NaN for one that needs all queries at once, is chance, or lost its clean result."""
        out = [name in self.collapsed or needs_all_queries(name) or name == RANDOM for name in self.methods]
        return np.where(np.array(out, np.bool_)[:, None], np.nan, estimates)

    def _table(self, metric: str) -> Estimate:
        """A metric, or its clean counterpart, of each run and of its resamples; the last row stands for a missing run.

        A clean counterpart has an equal gallery. One metric is resampled at a time, as the resamples of each seed,
        method and scenario take most of the page's memory.
        """
        if metric not in self._tables:
            name = metric.removeprefix("clean_")
            if name == "rsum":
                known = np.asarray(sum(self._table(metric.replace(name, own))[:-1] for own in RECALLS))
            else:
                values = self.rows[metric].to_numpy(np.float64, na_value=np.nan)
                if name != metric:
                    gallery = np.append(self.rows["gallery"].to_numpy(np.float64), np.nan)
                    values = np.where(gallery[self._clean_runs] == gallery[:-1], values, np.nan)
                known = values[:, None]
                if self._ranks is not None and name in _DRAWN:
                    counts, ranks, own, clean = self._resampled
                    distinct, places = np.unique(own if metric == name else clean, return_inverse=True)
                    drawn = resampled_recall(counts, ranks[:, distinct], _DRAWN[name])[places]
                    known = np.column_stack([values, drawn])
            self._tables[metric] = np.vstack([known, np.full(known.shape[1], np.nan)])
        return self._tables[metric]

    @cached_property
    def _clean_runs(self) -> list[int]:
        """The place of the clean counterpart of each run; -1 where it was not run."""
        return [self._runs.get((CLEAN_SCENARIO, method, seed), -1) for _, method, seed in self._runs]

    @cached_property
    def asked(self) -> NDArray[np.bool_]:
        """For each query of all models, whether this model has a rank of it in any run; empty without ranks."""
        ranks = np.zeros((len(self._drawn_queries.queries), 1)) if self._ranks is None else self._ranks.to_numpy()
        return np.asarray(ranks.any(axis=1))

    @cached_property
    def listed(self) -> frozenset[str]:
        """The hashes of the listed queries of its runs, where they are known."""
        return frozenset(self.rows["listed_sha256"].dropna().unique())

    @cached_property
    def tasks(self) -> list[tuple[Any, ...]]:
        """For scenarios by number: what is perturbed, the sizes of galleries, and the listed queries."""
        listed = self.scenarios["queries"] + self.scenarios["missing_queries"]
        known = self.scenarios[[*ScenarioKey._fields, "gallery", "gallery_mean"]].assign(listed=listed).astype(object)
        return [*known.where(known.notna(), None).itertuples(index=False, name=None)]

    @cached_property
    def _resampled(self) -> tuple[NDArray[np.float32], NDArray[np.uint8], NDArray[np.intp], NDArray[np.intp]]:
        """How often each query is drawn, the distinct columns of ranks, and the column of each run.

        Also the column of each run's clean counterpart, over the run's own queries.
        """
        assert self._ranks is not None
        runs = pd.Index([*self._runs], tupleize_cols=False)
        own = np.pad(self._ranks.to_numpy(), ((0, 0), (0, 1)))[:, self._ranks.columns.get_indexer(runs)]
        self._check(own)
        clean = np.pad(own, ((0, 0), (0, 1)))[:, self._clean_runs]
        # Most clean counterparts are equal, and a resample without a query has no recall.
        both = np.concatenate([own, np.where(own > 0, clean, 0)], axis=1)
        distinct, places_of = np.unique(both, axis=1, return_inverse=True)
        of_runs, of_clean = np.split(places_of, 2)
        return self._drawn_queries.counts, distinct, of_runs, of_clean

    def _check(self, ranks: NDArray[np.uint8]) -> None:
        """Raise `ManifestError` where results and ranks (queries x runs) belong to different runs."""
        queries = np.count_nonzero(ranks, axis=0)
        for metric, k in _DRAWN.items():
            values = self.rows[metric].to_numpy(np.float64, na_value=np.nan)
            by_ranks = 100 * np.count_nonzero((ranks > 0) & (ranks <= k), axis=0) / np.where(queries, queries, np.nan)
            for (key, method, seed), value, by_rank in zip(self._runs, values, by_ranks, strict=True):
                if abs(by_rank - value) > _ROUNDING:  # NaN: one of the two is not known
                    raise ManifestError(
                        f"ranks and results of {self.model_key} on {self.dataset} are of different runs: "
                        f"{self.direction} {key.side} {key.suite}/{key.perturbation}, {method}, seed {seed}: {metric} "
                        f"is {value} in the results and {by_rank} by its ranks. Run the evaluation again"
                    )


def _place_in_paper(key: ScenarioKey) -> tuple[Any, ...]:
    """The order of scenarios: perturbations as in their paper, then by severity."""
    places = {entry.name: place for place, entry in enumerate(declared_by(key.suite))}
    names = (key.perturbation, key.text_perturbation or "")
    severity = -1 if key.severity is None else key.severity
    return key.suite, *((places.get(name, len(places)), name) for name in names), severity


def _heading(key: ScenarioKey, backend: str | None, *, full: bool) -> str:
    """The name of a perturbation, marked where stand-ins made it; with `full`, also its severities."""
    parts = [(label(key.suite, key.perturbation, backend), key.severity)]
    parts += [(key.text_perturbation, key.text_severity)] if key.text_perturbation else []
    return " + ".join(f"{name} {severity}" if full else name for name, severity in parts)


def of_datasets(
    frame: pd.DataFrame, ranks: Mapping[RankGroup, pd.DataFrame]
) -> Iterator[tuple[pd.DataFrame, dict[str, list[Scores]]]]:
    """The rows of each dataset and, by direction, the scores of each of its models."""
    for (dataset,), of_dataset in groups(frame, "dataset"):
        scores: dict[str, list[Scores]] = {}
        for (direction,), of_direction in groups(of_dataset, "direction"):
            models = [rows for _, rows in groups(of_direction, "model_name")]
            known = [ranks.get(tuple(map(str, rows[GROUP].iloc[0]))) for rows in models]
            lines = len(of_direction[["model_name", "method", "label"]].drop_duplicates())
            drawn = QueryDraws(dataset, direction, [own for own in known if own is not None], lines)
            scores[direction] = [Scores(rows, own, drawn) for rows, own in zip(models, known, strict=True)]
        yield of_dataset, scores


def are_paired(models: Sequence[Scores], columns: Sequence[pd.Series | pd.DataFrame]) -> bool:
    """Whether all models have the same scenarios, listed queries and galleries in a column, so that they are paired.

    Queries count as the same where all their ids together are not more than the listed queries, and some are common. A
    column's index holds the numbers of each model's scenarios.
    """
    if len(models) == 1:
        return True
    tasks = [{scores.tasks[at] for at in own.index} for scores, own in zip(models, columns, strict=True)]
    if any(own != tasks[0] for own in tasks) or len(frozenset().union(*(scores.listed for scores in models))) > 1:
        return False
    asked = [scores.asked for scores in models if scores.sampled]
    together, common = (np.count_nonzero(among.reduce(asked)) for among in (np.logical_or, np.logical_and))
    return not asked or 0 < common <= together <= max(own[-1] for own in tasks[0])
