"""Rows of results of composed retrieval: every way to use a query, in every gallery, of one scenario."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from perturbations.base.records import canonical, digest
from perturbations.composed import strategies
from perturbations.composed.split import Split
from perturbations.composed.strategies import ScoredModel, ScoredSetting, Ways
from perturbations.evaluation import composed_plan
from perturbations.evaluation.planning import CLEAN
from perturbations.evaluation.result_sets import RANDOM, finished
from perturbations.evaluation.rows import Finished, ResultRow, Run
from perturbations.retrieval.composed import NOT_RETRIEVED, TWO_STAGE

_log = logging.getLogger("perturbations")


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
    runs: list[Finished] = []
    for score in strategies.evaluate(split, models, wanted, ways):
        counted = np.flatnonzero(score.counted).tolist()
        own_settings = {**settings, "gallery": score.gallery}
        about = {
            **columns,
            "missing_queries": listed - len(counted),
            "gallery": 0 if not counted else round(score.mean_size),
            "gallery_mean": score.mean_size,
            "settings": canonical(own_settings),
        }
        # A gallery's name follows the model's: results differ in the key.
        named = {name: replace(run, **_named(name, key, score.gallery)) for name, key in keys.items()}
        if not counted:
            _log.warning("%s: no query counts in any gallery", score.gallery)
        elif score.setting is not None:
            how = score.setting.method
            own = replace(named[score.setting.model], method=how, label=how)
            places = np.where(score.places == NOT_RETRIEVED, behind, score.places)[counted]
            ids = [split.queries[number].query_id for number in counted]
            first = [score.first[number] for number in counted]
            recalls = _recalls({k: 100 * float(np.mean(places <= k)) for k in strategies.KS})
            key = digest([own.columns(), own_settings])
            runs.append(finished(own, ids, places, first, **recalls, **about, recipe_id=key))
        elif run.side == "none":
            unknown = {"median_rank": math.nan, "mean_rank": math.nan, "queries": len(counted), "category": CLEAN}
            for own in (replace(own, method=RANDOM) for own in named.values()):
                key = digest([own.columns(), own_settings])
                figures = {**_recalls(score.chances), **unknown, **about}
                runs.append((ResultRow(**own.columns(), **figures, recipe_id=key), ((), (), ())))
    return runs


def _named(model: str, key: str, gallery: str) -> dict[str, Any]:
    return {"model": f"{model}@{gallery}", "model_key": f"{key}@{gallery}", "gallery_name": gallery}


def _recalls(values: Mapping[int, float]) -> dict[str, Any]:
    """The columns of recalls by k, and their sum."""
    return {f"recall_at_{k}": value for k, value in values.items()} | {"rsum": values[1] + values[5] + values[10]}


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
    queries = [(query.query_id, query.clip_id, query.target_ids, query.instruction) for query in split.queries]
    return digest([[(clip.clip_id, clip.video_id) for clip in split.pool], queries])
