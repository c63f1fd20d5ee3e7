"""Rows of results of composed retrieval: every way to use a query, in every gallery, of one scenario.

EgoCVR's first stage makes a shortlist, which its second stage ranks by text. Of two models the first makes the
shortlist; strategies of a single stage are evaluated for each model.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perturbations.base.errors import ConfigError
from perturbations.base.records import canonical, digest
from perturbations.composed.gallery_sets import NAMES, WITH_SOURCE, gallery, is_global, shared_rows, targets_in
from perturbations.composed.split import WORDS, Split
from perturbations.evaluation.plan import planned_runs
from perturbations.evaluation.plan.planned_runs import CLEAN
from perturbations.evaluation.result_rows import Finished, ResultRow, Run
from perturbations.evaluation.result_sets import RANDOM, result_of_ranks
from perturbations.retrieval.composed import (
    FEWEST,
    NOT_RETRIEVED,
    average_precisions,
    chance,
    chance_of_map,
    composed_places,
    composed_scores,
)
from perturbations.retrieval.metrics import first_places, retrieved_first

_log = logging.getLogger("perturbations")

_Floats = NDArray[np.float32]

_AS_RELEASED = (
    *("global_rows", "global_distinct", "global_targets", "global_target_rows", "local_released"),
    *("global_official", "local_official", "candidates"),
)
"""Galleries in which a query without any target is a miss, as in the authors' code. Other galleries leave it out."""

GIVEN = ("cross_attention", "two_stage_cross_attention")
"""Strategies for a model that gives similarities instead of features."""
STRATEGIES = ("text", "visual", "average", "two_stage", "two_stage_average")
"""Strategies for features: which half of a query is compared, in a whole gallery or in a first stage's shortlist."""
_TWO_STAGE = "two_stage"

KS = (1, 2, 3, 5, 10, 50, 100)
"""The k of results: EgoCVR's are 1, 5, 10 in global galleries and 1, 2, 3 in local ones."""

MAP_KS = (5, 10, 25, 50)
"""The k of mAP@k: TF-CoVR's."""

_BY_ROWS = "global_target_rows"
"""The gallery whose entries are rows: a repeated clip counts each time, and R@k counts the first target alone."""

Ways = Mapping[str, Any]
"""The ways to use queries, as `composed_runs.ways` gives them: the names of `galleries`, `strategies`, `words`,
`averages` and `first_stage` (which halves of a query make shortlists), the number of clips in a `shortlist`, and
`top_k`, how many clips that a query retrieved first are kept."""


@dataclass(frozen=True)
class ScoredModel:
    """A model's features, as they are stored: no length is changed.

    Attributes:
        name: its name in results.
        clips: float32, one row per row of the split's pool x D.
        texts: float32, one row per query x D, by `WORDS`; empty for a model of clips alone.
        queries: features of the queries' clips, one row per query x D, where they differ from the gallery's: if
            perturbed.
        similarities: queries x rows of the pool, of a model that has no feature of a query; its `clips` count for
            nothing.
    """

    name: str
    clips: _Floats
    texts: Mapping[str, _Floats] = field(default_factory=dict)
    queries: _Floats | None = None
    similarities: _Floats | None = None

    def visual(self, split: Split) -> _Floats:
        """The features of the queries' clips."""
        if self.queries is not None:
            return self.queries
        return self.clips[[split.last[query.clip_id] for query in split.queries]]


def words_of(split: Split, words: str) -> list[str]:
    """The words of each query; empty texts where the split has none."""
    return [getattr(query, WORDS[words]) for query in split.queries]


_MOST_WORDS = 30
_REMOVED = str.maketrans(dict.fromkeys('.!"()*#:;~', " "))


def pre_caption(text: str) -> str:
    """A text as the loaders of CoVR's authors give it to a model: lower case, no punctuation, 30 words at most."""
    return " ".join(text.lower().translate(_REMOVED).split()[:_MOST_WORDS])


def settings_of(models: Sequence[ScoredModel], ways: Ways) -> Iterator[dict[str, str]]:
    """Every setting that the models' features allow: the first model makes shortlists, the last one ranks them.

    `model` is the model whose features rank, by the `strategy`; `words` and `average` say how a query's halves are
    used, `first` and `half` which model makes the shortlist and by which half. A value that a setting does not have is
    empty. Strategies other than text rank only shortlists of another model.
    """
    first, last = models[0], models[-1]
    for strategy in ways["strategies"]:
        two_stages, compared = strategy.startswith(_TWO_STAGE), _compared(strategy)
        if two_stages and compared != "text" and first is last:
            continue
        for model in [last] if two_stages else models:
            if not two_stages and (strategy in GIVEN) != (model.similarities is not None):
                continue
            has_words = compared in ("text", "average")
            texts = [name for name in ways["words"] if name in model.texts] if has_words else [""]
            for words, half in product(texts, ways["first_stage"] if two_stages else [""]):
                if half in ("text", "average") and words not in first.texts:
                    continue
                for average in ways["averages"] if "average" in (compared, half) else [""]:
                    setting = {"model": model.name, "strategy": strategy, "words": words, "average": average}
                    yield {**setting, "first": first.name if two_stages else "", "half": half}


def _compared(strategy: str) -> str:
    """What the last (or only) stage of a strategy compares: a half of a query, or "cross_attention"."""
    return strategy.removeprefix(_TWO_STAGE).removeprefix("_") or "text"


def method_of(setting: Mapping[str, str]) -> str:
    """A setting's name in results: "text, instruction", "two_stage [first model] visual, gt"."""
    first = "" if setting["first"] == setting["model"] else setting["first"]
    how = " ".join(filter(None, (setting["strategy"], first, setting["half"], setting["average"])))
    return f"{how}, {setting['words']}" if setting["words"] else how


def _is_affected(setting: Mapping[str, str], run: Run) -> bool:
    """Whether a scenario's perturbation changes the result."""
    clips, texts = planned_runs.halves(run)
    halves = {_compared(setting["strategy"]), setting["half"]}
    by_clip, by_words = bool(halves & {"visual", "average"}), bool(halves & {"text", "average"})
    return (clips is None or by_clip) and (texts is None or by_words)


def scenario_rows(
    split: Split,
    models: Sequence[ScoredModel],
    run: Run,
    ways: Ways,
    *,
    listed: int,
    settings: Mapping[str, Any],
    **columns: Any,
) -> list[Finished]:
    """Results of a scenario: a gallery's name follows the model's key, and a setting is a method.

    Args:
        split: the queries, and the pool.
        models: their features. Of two models the first makes the shortlists, and results name it without its key.
        run: the scenario, of the last model.
        ways: which settings and galleries.
        listed: the number of queries in the whole split; queries that do not count are missing.
        settings: all other settings that results depend on.
        columns: further columns that all rows share.

    A query counts in galleries of at least two clips that hold a target, or that count without one. Random orders have
    a row beside each model where nothing is perturbed, and no ranks. A query whose targets were not retrieved ranks
    behind the whole pool, and behind 100. Raises `ConfigError` for features of another number of rows, and ValueError
    for an unknown gallery.
    """
    for model in models:
        _check(split, model)
    keys = {model.name: run.model_key if model is models[-1] else model.name for model in models}
    targets = [targets_in(split, query) for query in split.queries]
    candidates = {name: _candidates(split, name) for name in dict.fromkeys(ways["galleries"])}
    has_several = _has_several(split)
    behind = max(len(split.pool), KS[-1]) + 1
    counted: dict[str, NDArray[np.int64]] = {}
    about: dict[str, dict[str, Any]] = {}
    runs: list[Finished] = []

    def named(model: str, name: str, method: str) -> Run:
        # A gallery's name follows the model's: results differ in the key.
        called = {"model": f"{model}@{name}", "model_key": f"{keys[model]}@{name}", "gallery_name": name}
        return replace(run, **called, method=method)  # type: ignore[arg-type]  # all are texts

    def key_of(own: Run) -> str:
        return digest([own.columns(), {**settings, "gallery": own.gallery_name}])

    for name, members in candidates.items():
        sizes = np.array([len(rows) for rows in members])
        of_recall = _firsts(split) if name.startswith(_BY_ROWS) else targets
        present = np.array([np.isin(rows, own).sum() for rows, own in zip(members, of_recall, strict=True)])
        own = np.flatnonzero((sizes >= FEWEST) & ((present > 0) | (name.removesuffix(WITH_SOURCE) in _AS_RELEASED)))
        if not own.size:
            _log.warning("%s: no query counts in any gallery", name)
            continue
        mean = float(np.mean(sizes[own]))
        counted[name] = own
        about[name] = {
            **columns,
            "missing_queries": listed - len(own),
            "gallery": round(mean),
            "gallery_mean": mean,
            "source_in_gallery": name.endswith(WITH_SOURCE),
            "settings": canonical({**settings, "gallery": name}),
        }
        chances = _recalls({k: chance(sizes[own].tolist(), present[own].tolist(), k) for k in KS})
        if has_several:
            relevant = [int(np.isin(members[place], targets[place]).sum()) for place in own.tolist()]
            chances |= {f"map_at_{k}": chance_of_map(sizes[own].tolist(), relevant, k) for k in MAP_KS}
        unknown = {"median_rank": math.nan, "mean_rank": math.nan, "queries": len(own), "category": CLEAN}
        for by_chance in (named(model, name, RANDOM) for model in keys if run.side == "none"):
            figures: dict[str, Any] = {**chances, **unknown, **about[name], "recipe_id": key_of(by_chance)}
            runs.append((ResultRow(**by_chance.columns(), **figures), ((), (), ())))
    for setting in settings_of(models, ways):
        if not _is_affected(setting, run):
            continue
        kept = {name: _QueryFigures(len(split.queries)) for name in candidates}
        places = _places(split, models, setting, ways, candidates, targets, kept)
        for name, own in counted.items():
            by_setting = replace(named(setting["model"], name, method_of(setting)), label=method_of(setting))
            ranks = np.where(places[name] == NOT_RETRIEVED, behind, places[name])[own]
            recalls = _recalls({k: 100 * float(np.mean(ranks <= k)) for k in KS})
            ids = [split.queries[place].query_id for place in own]
            more = {**recalls, **about[name], "recipe_id": key_of(by_setting)}
            if has_several:
                means = 100 * kept[name].precisions[own].mean(axis=0)
                more |= {f"map_at_{k}": float(value) for k, value in zip(MAP_KS, means, strict=True)}
            if about[name]["source_in_gallery"]:
                more["source_first"] = 100 * float(np.mean(kept[name].source_first[own]))
            runs.append(result_of_ranks(by_setting, ids, ranks, [kept[name].first[place] for place in own], **more))
    return runs


class _QueryFigures:
    """For each query in a gallery: what it retrieved first, its average precisions, whether its own clip comes first.

    Attributes:
        first: the value of the column `retrieved`, where that is kept.
        precisions: by `MAP_KS`, float64 (queries, 4).
        source_first: whether the query's own clip outranks every target, bool (queries,).
    """

    def __init__(self, queries: int) -> None:
        self.first: list[str | None] = [None] * queries
        self.precisions = np.zeros((queries, len(MAP_KS)))
        self.source_first = np.zeros(queries, bool)


def _candidates(split: Split, name: str) -> Sequence[NDArray[np.int32]]:
    """The rows of each query's gallery, sorted; each clip once, except in `_BY_ROWS`."""
    if is_global(name) and name.removesuffix(WITH_SOURCE) in NAMES:
        return _GlobalGallery(split, name)
    return [np.unique(np.asarray(rows, np.int32)) for rows in gallery(split, name)]


class _GlobalGallery(Sequence[NDArray[np.int32]]):
    """The rows of `gallery` when they are asked for: of 5,000 queries and 16,000 clips, all at once take 330 MB."""

    def __init__(self, split: Split, name: str) -> None:
        rule = name.removesuffix(WITH_SOURCE)
        self.shared = np.array(shared_rows(split, rule), np.int32)
        self.own = [split.rows_of.get(query.clip_id, []) for query in split.queries]
        self.first_added = 0 if rule == "global_rows" else -1
        self.with_source = name.endswith(WITH_SOURCE)

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, query: Any) -> Any:
        own = self.own[query]
        rows = self.shared[np.isin(self.shared, own, invert=True)]
        return np.sort(np.append(rows, np.array(own[self.first_added :], np.int32))) if self.with_source else rows


def _has_several(split: Split) -> bool:
    """Whether a query has several targets, so that mAP@k says more than R@k."""
    return any(len({*query.target_ids}) > 1 for query in split.queries)


def _firsts(split: Split) -> list[Sequence[int]]:
    """The rows of each query's first target."""
    return [split.rows_of[query.target_ids[0]] for query in split.queries]


def _places(
    split: Split,
    models: Sequence[ScoredModel],
    setting: Mapping[str, str],
    ways: Ways,
    candidates: Mapping[str, Any],
    targets: Sequence[Sequence[int]],
    kept: Mapping[str, _QueryFigures],
) -> dict[str, NDArray[np.int64]]:
    """The place of each query's best target, by gallery; further figures of each query are added to `kept`."""
    by_name = {model.name: model for model in models}

    def scores_of(name: str, half: Any) -> Iterable[Any]:
        model = by_name[name]
        if half == "cross_attention":
            assert model.similarities is not None
            return model.similarities
        visual = None if half == "text" else model.visual(split)
        text, average = model.texts.get(setting["words"]), setting["average"] or "released"
        return composed_scores(half, model.clips, visual=visual, text=text, average=average)  # type: ignore[arg-type]

    has_several = _has_several(split)

    def keep(name: str, query: int, rows: NDArray[np.int64], scores: _Floats) -> None:
        if ways["top_k"]:
            best = first_places(scores[None], ways["top_k"])[0]
            names = [split.pool[row].clip_id for row in rows[best]]
            (kept[name].first[query],) = retrieved_first(scores[None, best], names, ways["top_k"])
        is_target = np.isin(rows, targets[query]) if has_several or name.endswith(WITH_SOURCE) else None
        if has_several:
            num_targets = len({*split.queries[query].target_ids})
            if not name.startswith(_BY_ROWS):  # the rows of its targets in the gallery, also outside of a shortlist
                num_targets = int(np.isin(candidates[name][query], targets[query]).sum())
            kept[name].precisions[query] = average_precisions(scores, is_target, MAP_KS, num_targets)
        if name.endswith(WITH_SOURCE):
            assert is_target is not None
            is_source = np.isin(rows, split.rows_of[split.queries[query].clip_id]) & ~is_target
            best_target = scores[is_target].max(initial=-np.inf)
            kept[name].source_first[query] = bool((scores[is_source] >= best_target).any())

    def places(targets: Sequence[Sequence[int]], some: Mapping[str, Any]) -> dict[str, NDArray[np.int64]]:
        scores = scores_of(setting["model"], _compared(setting["strategy"]))
        of_first = scores_of(setting["first"], setting["half"]) if setting["first"] else None
        return composed_places(scores, some, targets, first=of_first, shortlist=ways["shortlist"], kept=keep)

    by_rows = {name: rows for name, rows in candidates.items() if name.startswith(_BY_ROWS)}
    others = {name: rows for name, rows in candidates.items() if name not in by_rows}
    of_clips = places(targets, others) if others else {}
    return of_clips | (places(_firsts(split), by_rows) if by_rows else {})


def _recalls(values: Mapping[int, float]) -> dict[str, Any]:
    """The columns of recalls by k, and their sum."""
    return {f"recall_at_{k}": value for k, value in values.items()} | {"rsum": values[1] + values[5] + values[10]}


def _check(split: Split, model: ScoredModel) -> None:
    """Raise `ConfigError` where a model's features do not fit the split or each other."""
    width = model.clips.shape[1]
    expected = {"clips": (model.clips, len(split.pool))}
    expected |= {f"texts {words!r}": (rows, len(split.queries)) for words, rows in model.texts.items()}
    if model.queries is not None:
        expected["query clips"] = (model.queries, len(split.queries))
    for what, (rows, count) in expected.items():
        if rows.shape != (count, width):
            shape = " x ".join(map(str, rows.shape))
            raise ConfigError(
                f"{model.name}: the features of {what} are {shape}; expected {count} x {width}, as many as there are "
                "clips or queries, and as wide as the clips'"
            )
