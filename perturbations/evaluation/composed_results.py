"""Rows of results of composed retrieval: every way to use a query, in every gallery, of one scenario."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perturbations.base.records import canonical, digest
from perturbations.composed import strategies
from perturbations.composed.modifications import Split
from perturbations.composed.strategies import Score, ScoredModel, ScoredSetting, Ways
from perturbations.evaluation import composed_plan
from perturbations.evaluation.planning import category_of
from perturbations.evaluation.result_sets import RANDOM
from perturbations.evaluation.rows import RankRow, ResultRow, Run, rank_rows
from perturbations.retrieval.composed import NOT_RETRIEVED, TWO_STAGE

_log = logging.getLogger("perturbations")

ResultsAndRanks = tuple[list[ResultRow], list[RankRow]]


def scenario_rows(
    split: Split,
    models: Sequence[ScoredModel],
    run: Run,
    ways: Ways,
    *,
    listed: int,
    settings: Mapping[str, Any],
    **columns: Any,
) -> ResultsAndRanks:
    """Results and ranks of a scenario: a gallery's name follows the model's key, and a setting is a method.

    Args:
        split: the queries, and the pool.
        models: features; of two the first makes shortlists, and is called by its name alone.
        run: the scenario, of the last model.
        ways: which settings and galleries.
        listed: queries of the whole split; those that do not count are missing.
        settings: what else results depend on.
        columns: further ones that all rows share.

    Random orders have a row beside each model where nothing is perturbed, and no ranks. A query whose targets were not
    retrieved ranks behind the whole pool, and behind 100.
    """
    keys = {model.name: run.model_key if model is models[-1] else model.name for model in models}
    wanted = [own for own in strategies.settings(models, ways) if _is_affected(own, run)]
    behind = max(len(split.pool), strategies.KS[-1]) + 1
    columns = {**columns, "settings": settings, "listed": listed}
    rows: list[ResultRow] = []
    ranks: list[RankRow] = []
    for score in strategies.evaluate(split, models, wanted, ways):
        if not score.counted.any():
            _log.warning("%s: no query counts in any gallery", score.gallery)
        elif score.setting is not None:
            own = _named(run, score.setting.model, keys, score.gallery, score.setting.method)
            own = replace(own, label=score.setting.method)
            places = np.where(score.places == NOT_RETRIEVED, behind, score.places)
            rows.append(_row(score, own, places[score.counted], **columns))
            counted = np.flatnonzero(score.counted).tolist()
            ids = [split.queries[number].query_id for number in counted]
            first = [score.first[number] if score.first else None for number in counted]
            ranks += rank_rows(own, ids, places[counted].tolist(), first)
        elif run.side == "none":
            rows += [_row(score, _named(run, name, keys, score.gallery, RANDOM), None, **columns) for name in keys]
    return rows, ranks


def _named(run: Run, model: str, keys: Mapping[str, str], gallery: str, method: str) -> Run:
    """The run of a way to use queries in a gallery, after which its model is called: results differ in the key."""
    named: dict[str, Any] = {"model": f"{model}@{gallery}", "model_key": f"{keys[model]}@{gallery}"}
    return replace(run, **named, gallery_name=gallery, method=method)


def _is_affected(setting: ScoredSetting, run: Run) -> bool:
    """Whether a scenario's perturbation changes the result."""
    clips, texts = composed_plan.halves(run)
    halves: set[str] = {setting.strategy, setting.shortlist_strategy}
    if setting.strategy.startswith(TWO_STAGE):
        halves.add(setting.strategy.removeprefix(TWO_STAGE).removeprefix("_") or "text")
    by_clip, by_words = bool(halves & {"visual", "average"}), bool(halves & {"text", "average"})
    return (clips is None or by_clip) and (texts is None or by_words)


def listed_sha256(split: Split) -> str:
    """A hash of a split's pool and queries."""
    queries = [(query.query_id, query.clip, query.targets, query.instruction) for query in split.queries]
    return digest([[(clip.clip_id, clip.video_id) for clip in split.pool], queries])


def _row(
    score: Score,
    run: Run,
    places: NDArray[np.int64] | None,
    *,
    listed: int,
    settings: Mapping[str, Any],
    **columns: Any,
) -> ResultRow:
    """The row of a score; without places, of random orders."""
    measured: dict[str, Any]
    if places is None:
        recalls = dict(score.chances)
        measured = {"median_rank": float("nan"), "mean_rank": float("nan")}
    else:
        recalls = {k: 100 * float(np.mean(places <= k)) for k in strategies.KS}
        measured = {"median_rank": float(np.median(places)), "mean_rank": float(np.mean(places))}
    measured |= {f"recall_at_{k}": value for k, value in recalls.items()}
    settings = {**settings, "gallery": score.gallery}
    counted = int(score.counted.sum())
    return ResultRow(
        **run.columns(),
        **columns,
        **measured,
        category=category_of(run),
        rsum=recalls[1] + recalls[5] + recalls[10],
        queries=counted,
        missing_queries=listed - counted,
        gallery=round(score.mean_size),
        gallery_mean=score.mean_size,
        settings=canonical(settings),
        recipe_id=digest([run.columns(), settings]),
    )
