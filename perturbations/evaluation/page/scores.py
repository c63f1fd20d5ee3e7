"""The results of one model on one dataset in one direction, with intervals from the ranks of its queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from perturbations.base import rng
from perturbations.base.errors import ManifestError
from perturbations.evaluation.page.displayed_names import (
    declared_by,
    groups,
    in_order,
    label,
    needs_all_queries,
    setting_of,
)
from perturbations.evaluation.page.page_tables import number
from perturbations.evaluation.result_rows import CLEAN_SCENARIO, RANKS, ScenarioKey
from perturbations.evaluation.result_sets import RANDOM
from perturbations.manifest import files
from perturbations.retrieval.bootstrap import (
    draws,
    interval,
    resampled_recall,
    samples_for,
    separable,
    share_interval,
)
from perturbations.tta.methods import method_registry as methods_registry

RECALLS = {"recall_at_1": 1, "recall_at_5": 5, "recall_at_10": 10}
_DRAWN = {**RECALLS, "recall_at_2": 2, "recall_at_3": 3}
"""The metrics that each resample has a value of; R@2 and R@3 are of composed retrieval."""
_SEED = 0  # of the resamples; the same for all, so that models of one dataset are compared on the same draws
_ROUNDING = 1e-6
_MOST = 255
"""Larger ranks are stored as this one: no recall of the page looks further than the first 10."""

RankRun = tuple[ScenarioKey, str, int]
"""Scenario, method's setting (`setting_of`), seed."""

RankGroup = tuple[str, ...]
"""Dataset, model's key, direction: runs that ask the same queries of one model."""

IntervalSpan = tuple[float, float]
"""The ends of a 95 % interval."""

Estimate = NDArray[np.float64]
"""Along the last axis the value, then, where ranks are known, the value in each resample."""

_GROUP = ["dataset", "model_key", "direction"]
_RUN = [*ScenarioKey._fields, "method", "label", "seed"]
_COUNTS = ["queries", "missing_queries", "gallery", "gallery_mean"]


def run_of(row: Mapping[Any, Any]) -> RankRun:
    """The run of a row of results or ranks, whose empty cells a DataFrame may hold as NaN."""
    known: dict[str, Any] = {name: None if row[name] != row[name] else row[name] for name in _RUN}
    for name in ("severity", "text_severity"):
        known[name] = None if known[name] is None else int(known[name])
    setting, seed = setting_of(known.pop("method"), known.pop("label")), known.pop("seed")
    return ScenarioKey(**known), setting, int(seed)


# --- ranks ------------------------------------------------------------------------------------------------------------


def read_ranks(paths: Sequence[Path]) -> dict[RankGroup, pd.DataFrame]:
    """The ranks of manifests, by group: uint8, queries (sorted by id) x runs, 0 where a run lacks a query.

    The result does not depend on the order of rows. Raises `ManifestError` for a file that is not such a manifest or is
    damaged, and where a run has a query twice.
    """
    known: dict[RankGroup, pd.DataFrame] = {}
    for path in paths:
        for group, rows in groups(_rank_rows(path), *_GROUP):
            runs = rows.groupby(_RUN, sort=False, dropna=False, observed=True)
            queries = rows["query_id"].cat.remove_unused_categories().cat
            own = np.zeros((len(queries.categories), runs.ngroups), np.uint8)
            own[queries.codes, runs.ngroup()] = rows["rank"]
            if group in known or np.count_nonzero(own) < len(rows):
                raise ManifestError(f"the ranks of {', '.join(group)} are there twice: give each manifest once")
            columns: Any = pd.Index([*map(run_of, runs.head(1).to_dict("records"))], tupleize_cols=False)
            known[group] = pd.DataFrame(own, queries.categories.astype(str), columns).sort_index()
    return known


def _rank_rows(path: Path) -> pd.DataFrame:
    """The rows of a file, whose texts are categories: there are millions of few texts."""
    with files.open_manifest(path, RANKS):
        words = [*dict.fromkeys((*_GROUP, *_RUN, "query_id", "rank"))]
        stored = pq.ParquetFile(path, read_dictionary=words, page_checksum_verification=True)
        frame: pd.DataFrame = stored.read(words).unify_dictionaries().to_pandas(strings_to_categorical=True)
        if not (frame["rank"] >= 1).all():
            raise ValueError("it holds a rank below 1, or none")
        return frame.assign(rank=frame["rank"].clip(upper=_MOST).astype(np.uint8))


def _clip_of(query: str) -> str:
    """The clip of a caption, whose id is the clip's and a number where a clip may have several."""
    clip, _, place = query.rpartition("#")
    return clip if clip and place.isdecimal() else query


# --- scores -----------------------------------------------------------------------------------------------------------


def mean_of(scenarios: pd.DataFrame) -> pd.Series:
    """The weights of scenarios in a mean over perturbations of each one's mean over severities (MSRVTT-P, Sec. 4.3)."""
    names = ["suite", "perturbation", "text_perturbation"]
    keys = list(scenarios[names].itertuples(index=False, name=None))
    sizes = Counter(keys)
    return pd.Series([1 / (len(sizes) * sizes[key]) for key in keys], scenarios.index)


def tasks_of(rows: pd.DataFrame) -> list[tuple[Any, ...]]:
    """What each row's numbers are of: what is perturbed, the sizes of galleries, and how many queries are listed."""
    listed = rows["queries"] + rows["missing_queries"]
    known = rows[[*ScenarioKey._fields, "gallery", "gallery_mean"]].assign(listed=listed).astype(object)
    return [*known.where(known.notna(), None).itertuples(index=False, name=None)]


class QueryDraws:
    """The queries of all models of a dataset in one direction, by id, and how often each resample draws each of them.

    A query that a model lacks is drawn all the same, so the differences between models stay paired. There are enough
    resamples for a best one among some `rows` of a table.
    """

    def __init__(self, dataset: str, direction: str, ranks: Sequence[pd.DataFrame], rows: int) -> None:
        self._dataset, self._direction, self._samples = dataset, direction, samples_for(rows)
        self.queries: pd.Index = reduce(pd.Index.union, [own.index for own in ranks] or [pd.Index([])])
        # The captions of one clip are no independent queries.
        self.clips = pd.factorize(self.queries.map(_clip_of) if direction == "t2v" else self.queries)[0]

    @cached_property
    def counts(self) -> NDArray[np.float32]:
        """Resamples x queries."""
        generator = rng.generator(_SEED, self._dataset, self._direction, "report/bootstrap")
        return draws(len(self.queries), generator, self._samples, self.clips)


class Scores:
    """The results of one model on one dataset in one direction; without ranks it is not `sampled`: no intervals.

    `scenarios` has a row for each scenario, in the order of the paper, with how it is called and what was counted.
    A column of a table is a Series of weights, by their numbers in it.
    """

    def __init__(self, rows: pd.DataFrame, ranks: pd.DataFrame | None, drawn: QueryDraws) -> None:
        self.dataset, self.direction, self.model, self.model_key = map(
            str, rows.iloc[0][["dataset", "direction", "model_name", "model_key"]]
        )
        self.rows, self.sampled, self._drawn_queries = rows, ranks is not None, drawn
        self._ranks = None if ranks is None else ranks.reindex(drawn.queries, fill_value=0)
        self._runs = {run_of(row): place for place, row in enumerate(rows[_RUN].to_dict("records"))}
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
        """The scenarios of a suite and a side that are no mixes, in the paper's order, category by category."""
        known = self.scenarios
        own = known[(known["suite"] == suite) & (known["side"] == side) & known["mix"].isna()]
        return own.iloc[np.argsort(pd.factorize(own["category"])[0], kind="stable")]

    def of_runs(self, metric: str, method: str, seed: int, runs: Iterable[ScenarioKey]) -> Estimate:
        """A metric of scenarios that a method was run in with a seed (scenarios, 1 or more), as `of_seeds` has it."""
        places = self._places[method][self.seeds[method].index(seed)]
        return np.asarray(self._table(metric)[places[[self.numbers[run] for run in runs]]])

    def of_seeds(self, metric: str, method: str, column: pd.Series) -> Estimate:
        """The mean of a metric over a column's scenarios (seeds, 1 or more), of each seed.

        NaN where a run is missing; of `clean_<metric>`, where the clean result over each scenario's own queries is not
        known, or is of another gallery.
        """
        table = self._table(metric)
        places = self._places.get(method, np.full((1, len(self.scenarios) + 1), -1))
        total = np.zeros((len(places), table.shape[1]))
        for scenario, weight in zip(
            column.index.to_numpy(), column, strict=True
        ):  # one by one: equal runs stay exactly equal
            total += weight * table[places[:, scenario]]
        return total

    def estimate(self, metric: str, method: str, column: pd.Series) -> Estimate:
        """The mean of `of_seeds`."""
        return np.asarray(self.of_seeds(metric, method, column).mean(axis=0))

    def value(self, metric: str, method: str, column: pd.Series) -> float:
        """The value of `estimate`."""
        return float(self.estimate(metric, method, column)[0])

    def loss(self, method: str, column: pd.Series, metric: str = "recall_at_1") -> Estimate:
        """The clean result of a method over each scenario's own queries minus the perturbed one."""
        return self.estimate(f"clean_{metric}", method, column) - self.estimate(metric, method, column)

    def own_span(self, metric: str, column: pd.Series, estimate: Estimate) -> IntervalSpan | None:
        """The interval of a value; where every resample is 0 or every one is 100, the exact one of its queries."""
        span = span_of(estimate)
        if span is None or span not in ((0, 0), (100, 100)) or metric not in _DRAWN:
            return span
        queries = self.scenarios["queries"].loc[column.index].min()
        low, high = share_interval(
            span[0] / 100, min(int(queries), np.unique(self._drawn_queries.clips[self.asked]).size)
        )
        return 100 * low, 100 * high

    @cached_property
    def collapsed(self) -> frozenset[str]:
        """The methods whose clean R@1 lost more than its own interval: the baseline's lies above it."""
        metric = "recall_at_1"
        baseline = self.value(metric, methods_registry.baseline().name, self.clean)
        spans = {
            name: self.own_span(metric, self.clean, self.estimate(metric, name, self.clean)) for name in self.methods
        }
        return frozenset(method for method, span in spans.items() if span is not None and span[1] < baseline)

    @cached_property
    def reference(self) -> str:
        """The model as it is; of composed retrieval, which has none, the method of the highest clean R@1 but chance."""
        plain = methods_registry.baseline().name
        values = {name: self.value("recall_at_1", name, self.clean) for name in self.methods}
        return max(values, key=lambda name: (name == plain, name != RANDOM, np.nan_to_num(values[name])))

    def competing(self, estimates: Estimate) -> Estimate:
        """Estimates of the methods, NaN where one needs all queries at once, is chance, or lost its clean result."""
        out = [name in self.collapsed or needs_all_queries(name) or name == RANDOM for name in self.methods]
        return np.where(np.array(out, np.bool_)[:, None], np.nan, estimates)

    def _table(self, metric: str) -> Estimate:
        """A metric, or its clean counterpart, of each run, then of its resamples; the last row is of no run."""
        if metric not in self._tables:
            values = self._clean(metric.removeprefix("clean_")) if metric.startswith("clean_") else self._column(metric)
            drawn = self._drawn(metric)
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
    def asked(self) -> NDArray[np.bool_]:
        """Which queries of all models it has a rank of, in any run; none without ranks."""
        ranks = np.zeros((len(self._drawn_queries.queries), 1)) if self._ranks is None else self._ranks.to_numpy()
        return np.asarray(ranks.any(axis=1))

    @cached_property
    def tasks(self) -> list[tuple[Any, ...]]:
        """The `tasks_of` its scenarios."""
        return tasks_of(self.scenarios)

    def _drawn(self, metric: str) -> Estimate:
        """The same of each run in each resample; NaN without ranks, nothing of what is not drawn.

        One metric at a time, as those of a run of each seed, method and scenario take most of the page's memory.
        """
        name = metric.removeprefix("clean_")
        if self._ranks is None or name not in (*_DRAWN, "rsum"):
            return np.empty((len(self.rows), 0))
        if name == "rsum":
            return sum((self._table(metric.replace(name, own))[:-1, 1:] for own in RECALLS), np.zeros(()))
        counts, ranks, own, clean = self._resampled
        distinct, places = np.unique(own if metric == name else clean, return_inverse=True)
        return resampled_recall(counts, ranks[:, distinct], _DRAWN[name])[places]

    @cached_property
    def _resampled(self) -> tuple[NDArray[np.float32], NDArray[np.uint8], NDArray[np.intp], NDArray[np.intp]]:
        """How often each query is drawn, the distinct columns of ranks, and which of them is of each run.

        And which is of its clean counterpart, over the run's own queries.
        """
        assert self._ranks is not None
        places: dict[Any, int] = {run: place for place, run in enumerate(self._ranks.columns)}
        padded = np.pad(self._ranks.to_numpy(), ((0, 0), (0, 1)))
        own = padded[:, [places.get(run, -1) for run in self._runs]]
        clean = padded[:, [places.get((CLEAN_SCENARIO, method, seed), -1) for _, method, seed in self._runs]]
        self._check(own)
        # Most clean counterparts are equal, and a resample without a query has no recall.
        both = np.concatenate([own, np.where(own > 0, clean, 0)], axis=1)
        distinct, places_of = np.unique(both, axis=1, return_inverse=True)
        of_runs, of_clean = np.split(places_of, 2)
        return self._drawn_queries.counts, distinct, of_runs, of_clean

    def _check(self, ranks: NDArray[np.uint8]) -> None:
        """Raise `ManifestError` where results and ranks (queries x runs) are of different runs."""
        queries = np.count_nonzero(ranks, axis=0)
        for metric, k in _DRAWN.items():
            values = self._column(metric)
            by_ranks = 100 * np.count_nonzero((ranks > 0) & (ranks <= k), axis=0) / np.where(queries, queries, np.nan)
            for (key, method, seed), value, by_rank in zip(self._runs, values, by_ranks, strict=True):
                if abs(by_rank - value) > _ROUNDING:  # NaN: one of them is not known
                    raise ManifestError(
                        f"ranks and results of {self.model_key} on {self.dataset} are of different runs: "
                        f"{self.direction} {key.side} {key.suite}/{key.perturbation}, {method}, seed {seed}: {metric} "
                        f"is {value} in the results and {by_rank} by its ranks. Run the evaluation again"
                    )


def _place_in_paper(key: ScenarioKey) -> tuple[Any, ...]:
    """The order of scenarios: of perturbations that of their paper, then by severity."""
    places = {entry.name: place for place, entry in enumerate(declared_by(key.suite))}
    names = (key.perturbation, key.text_perturbation or "")
    severity = -1 if key.severity is None else key.severity
    return key.suite, *((places.get(name, len(places)), name) for name in names), severity


def _heading(key: ScenarioKey, backend: str | None, *, full: bool) -> str:
    """What perturbs, marked where stand-ins made it; in full with its severities."""
    parts = [(label(key.suite, key.perturbation, backend), key.severity)]
    parts += [(key.text_perturbation, key.text_severity)] if key.text_perturbation else []
    return " + ".join(f"{name} {severity}" if full else name for name, severity in parts)


def of_datasets(
    frame: pd.DataFrame, ranks: Mapping[RankGroup, pd.DataFrame]
) -> Iterator[tuple[pd.DataFrame, dict[str, list[Scores]]]]:
    """The rows of each dataset, and by direction the scores of each of its models."""
    for (dataset,), of_dataset in groups(frame, "dataset"):
        scores: dict[str, list[Scores]] = {}
        for (direction,), of_direction in groups(of_dataset, "direction"):
            models = [rows for _, rows in groups(of_direction, "model_name")]
            known = [ranks.get(tuple(map(str, rows[_GROUP].iloc[0]))) for rows in models]
            lines = len(of_direction[["model_name", "method", "label"]].drop_duplicates())
            drawn = QueryDraws(dataset, direction, [own for own in known if own is not None], lines)
            scores[direction] = [Scores(rows, own, drawn) for rows, own in zip(models, known, strict=True)]
        yield of_dataset, scores


def are_paired(models: Sequence[Scores], columns: Sequence[pd.Series | pd.DataFrame]) -> bool:
    """Whether the numbers of models in a column are of the same scenarios, listed queries and galleries.

    Queries are the same where all of their ids together are no more than are listed, and some are common. Of each model
    a column has the numbers of scenarios as its index.
    """
    if len(models) == 1:
        return True
    tasks = [{scores.tasks[at] for at in own.index} for scores, own in zip(models, columns, strict=True)]
    hashes = {own for scores in models for own in scores.rows["listed_sha256"].dropna().unique()}
    if any(own != tasks[0] for own in tasks) or len(hashes) > 1:
        return False
    asked = [scores.asked for scores in models if scores.sampled]
    together, common = (np.count_nonzero(among.reduce(asked)) for among in (np.logical_or, np.logical_and))
    return not asked or 0 < common <= together <= max(own[-1] for own in tasks[0])


def span_of(estimate: Estimate) -> IntervalSpan | None:
    """The interval of an estimate; None without resamples, or where one is undefined."""
    if len(estimate) == 1 or not np.isfinite(estimate).all():
        return None
    low, high = interval(estimate[1:])
    return float(low), float(high)


def marks(estimates: Estimate, form: str = ".1f", *, lower: bool = False) -> list[str]:
    """The mark of each value of a column (methods, 1 or more): "best", "second", "tie", or "".

    With resamples, the best one is "best" if its difference to every other one is off zero, with Holm's correction;
    otherwise it is a "tie", and so are those it cannot be separated from. Without, the best value is "best". Values
    with the same text are ties; no value is marked where all texts are the same, or all are ties.
    """
    values = estimates[:, 0]
    texts = ["" if value != value else number(value, form) for value in values]
    places = sorted({float(text) for text in texts if text}, reverse=not lower)
    if len(places) < 2:
        return [""] * len(texts)
    present = [place for place, text in enumerate(texts) if text]
    leader = (min if lower else max)(present, key=lambda place: values[place])
    inseparable = {leader}
    if estimates.shape[1] > 1:  # what has no resamples is not separable
        others = [place for place in present if place != leader]
        apart = separable(estimates[leader, 1:] - estimates[others, 1:])
        inseparable |= {place for place, is_apart in zip(others, apart, strict=True) if not is_apart}
        inseparable |= {place for place in others if texts[place] == texts[leader]}
    if len(inseparable) == len(present):
        return [""] * len(texts)
    if len(inseparable) > 1:
        return ["tie" if place in inseparable else "" for place in range(len(texts))]
    names = {places[0]: "best", places[1]: "second"}
    return [names.get(float(text), "") if text else "" for text in texts]
