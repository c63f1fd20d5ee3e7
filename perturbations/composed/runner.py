"""The results of a job of composed retrieval: every scenario, in every way to use a query, in every gallery."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perturbations.base.errors import ManifestError
from perturbations.base.records import canonical, digest
from perturbations.composed import strategies as composed_scores
from perturbations.composed.manifests import names_of, restricted
from perturbations.composed.modifications import Split
from perturbations.composed.planning import ComposedScenario, ComposedSettings
from perturbations.composed.strategies import Score, ScoredModel, ScoredSetting, Ways
from perturbations.evaluation import results
from perturbations.evaluation.keys import LISTED
from perturbations.evaluation.planning import CLEAN
from perturbations.evaluation.result_sets import RANDOM
from perturbations.evaluation.rows import RANKS, RESULTS, RankRow, ResultRow, backend_cell
from perturbations.evaluation.stored_features import Floats, StoredFeatures, rows_of_ids
from perturbations.manifest.columns import row_from
from perturbations.manifest.kinds import ClipRow, TextRow
from perturbations.retrieval.composed import NOT_RETRIEVED, TWO_STAGE
from perturbations.suites import registry

_log = logging.getLogger("perturbations")

_Encode = Callable[[Sequence[str]], Floats]
"""Texts -> their features, texts x D."""


@dataclass(frozen=True)
class Encoded:
    """The features that the scenarios of a job share.

    Attributes:
        clips: of the clean clips.
        texts: encodes words.
        checkpoint: a hash of the model's weights.
        architecture: of the model's vision tower.
    """

    clips: StoredFeatures
    texts: _Encode
    checkpoint: str
    architecture: str | None = None


@dataclass(frozen=True)
class Queries:
    """What a scenario's queries are.

    Attributes:
        clips: features of the perturbed query clips; None: of the clean ones.
        instructions: the accepted perturbed instructions by the queries' ids; None: the clean ones.
        rows: the rows of the perturbed clips or instructions, for the backends that results name.
    """

    clips: StoredFeatures | None = None
    instructions: Mapping[str, str] | None = None
    rows: Sequence[ClipRow | TextRow] = ()


_OF_SETTINGS = {"strategies", "words", "first_stage", "deduplicate", "shortlist", "top_k"}
"""The settings of a job that are its ways to use queries."""

_Results = tuple[list[ResultRow], list[RankRow]]


def evaluate(
    settings: ComposedSettings,
    split: Split,
    dataset: str,
    encoded: Encoded,
    asking: Callable[[ComposedScenario], Queries],
) -> _Results:
    """The rows of a job's results and ranks.

    Args:
        settings: of `perturbations.composed.planning.settings`.
        split: the whole split, and its dataset's name.
        encoded: features of the clean clips, and how words are encoded.
        asking: what a scenario asks.

    Clips without features count as missing: they are in no gallery, and queries that lack their clip or all targets
    are left out. Only what a perturbation changes is evaluated: not "text" where clips are perturbed, nor "visual"
    where instructions are.
    Raises `ManifestError` where no query is left.
    """
    rows: list[ResultRow] = []
    ranks: list[RankRow] = []
    for scenario in settings.scenarios:
        queries = asking(scenario)
        part = restricted(split, frozenset(encoded.clips.ids), _query_ids(split, queries))
        _log.info("%s: %d of %d queries", _name(scenario), len(part.queries), len(split.queries))
        if not part.queries:
            raise ManifestError(f"{_name(scenario)}: no query is left: clips are quarantined, or words not accepted")
        model = _model(settings, part, encoded, queries, scenario)
        own_rows, own_ranks = scenario_rows(
            part,
            [model],
            scenario,
            Ways(
                galleries=names_of(split, settings.galleries),
                averages=settings.average,
                **settings.model_dump(include=_OF_SETTINGS),
            ),
            keys={settings.model: settings.model_key},
            shared={
                "dataset": dataset,
                "listed_sha256": listed_sha256(split),
                "setting": settings.setting,
                "adapter": settings.adapter,
                "pooling": settings.model,
                "pretrained": settings.pretrained,
                "num_frames": settings.num_frames,
                "backend": backend_cell(results.backends(settings.pretrained, queries.rows)),
                "checkpoint_sha256": encoded.checkpoint,
                "architecture": encoded.architecture,
                "tools": canonical(results.tools()),
            },
            how=settings.model_dump(
                mode="json", include={"pretrained", "num_frames", "frames", "deduplicate", "shortlist", "files"}
            ),
            listed=len(split.queries),
        )
        rows += own_rows
        ranks += own_ranks
    return rows, ranks


def scenario_rows(
    split: Split,
    models: Sequence[ScoredModel],
    scenario: ComposedScenario,
    ways: Ways,
    *,
    keys: Mapping[str, str],
    shared: Mapping[str, object],
    how: Mapping[str, object],
    listed: int,
) -> _Results:
    """Results and ranks of a scenario: a gallery's name follows the model's key, and a setting is a method.

    Args:
        split: the queries, and the pool.
        models: features; of two the first makes shortlists.
        scenario: what is perturbed.
        ways: which settings and galleries.
        keys: the key of each model, by its name.
        shared: the columns that all rows share.
        how: the settings that all rows share.
        listed: queries of the whole split; those that do not count are missing.

    Random orders have a row beside each model where nothing is perturbed, and no ranks. A query whose targets were not
    retrieved ranks behind the whole pool, and behind 100.
    """
    settings = [own for own in composed_scores.settings(models, ways) if _is_affected(own, scenario)]
    scores = composed_scores.evaluate(split, models, settings, ways)
    columns = {**shared, **_columns(scenario), "direction": "composed", "seed": 0, "order": LISTED}
    columns["parameters"] = canonical({name: how[name] for name in ("frames", "deduplicate", "shortlist")})
    behind = max(len(split.pool), composed_scores.KS[-1]) + 1
    rows: list[ResultRow] = []
    ranks: list[RankRow] = []
    for score in scores:
        if not score.counted.any():
            _log.warning("%s: no query counts in any gallery", score.gallery)
        elif score.setting is not None:
            own = {**columns, **_named(score.setting.model, keys, score), "method": score.setting.method}
            own["label"] = score.setting.method
            places = np.where(score.places == NOT_RETRIEVED, behind, score.places)
            rows.append(_row(score, own, how, listed, places[score.counted]))
            ids = [query.query_id for query in split.queries]
            ranks += [
                row_from(RANKS, {**own, "query_id": query, "rank": int(place), "retrieved": first})
                for query, place, first, counted in zip(
                    ids, places, score.first or [None] * len(ids), score.counted, strict=True
                )
                if counted
            ]
        elif scenario.perturbed == "nothing":
            for name in keys:
                own = {**columns, **_named(name, keys, score), "method": RANDOM}
                rows.append(_row(score, own, how, listed, None))
    return rows, ranks


def listed_sha256(split: Split) -> str:
    """A hash of a split's pool and queries."""
    queries = [(query.query_id, query.clip, query.targets, query.instruction) for query in split.queries]
    return digest([[(clip.clip_id, clip.video_id) for clip in split.pool], queries])


def _named(model: str, keys: Mapping[str, str], score: Score) -> dict[str, str]:
    """The columns that name a model in a gallery: results of one file differ in them."""
    named = {"model": f"{model}@{score.gallery}", "model_key": f"{keys[model]}@{score.gallery}"}
    return {**named, "gallery_name": score.gallery}


def _row(
    score: Score,
    columns: Mapping[str, object],
    how: Mapping[str, object],
    listed: int,
    places: NDArray[np.int64] | None,
) -> ResultRow:
    """The row of a score; without places, of random orders."""
    if places is None:
        recalls = dict(score.chances)
        measured = {"median_rank": float("nan"), "mean_rank": float("nan")}
    else:
        recalls = {k: 100 * float(np.mean(places <= k)) for k in composed_scores.KS}
        measured = {"median_rank": float(np.median(places)), "mean_rank": float(np.mean(places))}
    settings = {**how, "gallery": score.gallery}
    counted = int(score.counted.sum())
    return row_from(
        RESULTS,
        {
            **columns,
            **measured,
            **{f"recall_at_{k}": value for k, value in recalls.items()},
            "rsum": recalls[1] + recalls[5] + recalls[10],
            "queries": counted,
            "missing_queries": listed - counted,
            "gallery": round(score.mean_size),
            "gallery_mean": score.mean_size,
            "settings": canonical(settings),
            "recipe_id": digest({**columns, **settings}),
            **dict.fromkeys(("updates", "empty", "non_finite"), 0),
            **dict.fromkeys(("queries_sha256", "manifest_sha256"), ""),
        },
    )


def _query_ids(split: Split, queries: Queries) -> frozenset[str]:
    """The ids of the queries whose perturbed clip or instruction is there."""
    held = None if queries.clips is None else frozenset(queries.clips.ids)
    ids = frozenset(query.query_id for query in split.queries if held is None or query.clip in held)
    return ids if queries.instructions is None else ids.intersection(queries.instructions)


def _model(
    settings: ComposedSettings, split: Split, encoded: Encoded, queries: Queries, scenario: ComposedScenario
) -> ScoredModel:
    """The features of a scenario, for the rows and queries of a split."""
    texts: dict[str, Floats] = {}
    for words in settings.words if scenario.instructions is None else ("instruction",):
        lines = composed_scores.words_of(split, words)
        if queries.instructions is not None:
            lines = [queries.instructions[query.query_id] for query in split.queries]
        if all(lines):
            texts[words] = encoded.texts(lines)
    return ScoredModel(
        name=settings.model,
        clips=rows_of_ids(encoded.clips, [clip.clip_id for clip in split.pool]),
        texts=texts,
        queries=None if queries.clips is None else rows_of_ids(queries.clips, [query.clip for query in split.queries]),
    )


def _is_affected(setting: ScoredSetting, scenario: ComposedScenario) -> bool:
    """Whether a scenario's perturbation changes the result."""
    halves: set[str] = {setting.strategy, setting.shortlist_strategy}
    if setting.strategy.startswith(TWO_STAGE):
        halves.add(setting.strategy.removeprefix(TWO_STAGE).removeprefix("_") or "text")
    by_clip, by_words = bool(halves & {"visual", "average"}), bool(halves & {"text", "average"})
    return (scenario.clips is None or by_clip) and (scenario.instructions is None or by_words)


def _columns(scenario: ComposedScenario) -> dict[str, object]:
    """The columns of a scenario: where clips and instructions are perturbed, the latter's have names of their own."""
    shifts = [shift for shift in (scenario.clips, scenario.instructions) if shift is not None]
    if not shifts:
        return {"suite": CLEAN, "perturbation": CLEAN, "severity": 0, "category": CLEAN, "side": "none"}
    first = shifts[0]
    columns: dict[str, object] = {
        "suite": first.suite,
        "perturbation": first.perturbation,
        "severity": first.severity,
        "category": registry.get(f"{first.suite}/{first.perturbation}").category,
        "side": "query",
    }
    if len(shifts) > 1:
        second = shifts[1]
        columns |= {
            "text_perturbation": f"{second.suite}/{second.perturbation}",
            "text_severity": second.severity,
        }
    return columns


def _name(scenario: ComposedScenario) -> str:
    shifts = [shift for shift in (scenario.clips, scenario.instructions) if shift is not None]
    shown = " with ".join(f"{shift.suite}/{shift.perturbation} {shift.severity}" for shift in shifts)
    return f"composed, perturbed: {scenario.perturbed} {shown}".strip()
