"""Results of composed retrieval: every scenario, in every way to use a query, in every gallery."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perturbations.base.errors import ManifestError
from perturbations.base.records import canonical, digest
from perturbations.composed import strategies
from perturbations.composed.manifests import names_of, restricted
from perturbations.composed.modifications import Split
from perturbations.composed.strategies import Score, ScoredModel, ScoredSetting, Ways
from perturbations.evaluation import composed_plan, encoding, results, scenarios
from perturbations.evaluation.backbone import LoadedBackbone
from perturbations.evaluation.planning import category_of
from perturbations.evaluation.result_sets import RANDOM, scenario_name
from perturbations.evaluation.rows import RankRow, ResultRow, Run, backend_cell
from perturbations.evaluation.stored_features import StoredFeatures, rows_of_ids
from perturbations.manifest import layout, sets
from perturbations.manifest.kinds import TEXTS, VIDEOS, ClipRow, TextRow
from perturbations.plan import listed, sharding
from perturbations.plan.paths import COMPOSED_SHARD
from perturbations.retrieval.composed import NOT_RETRIEVED, TWO_STAGE

_log = logging.getLogger("perturbations")

_Results = tuple[list[ResultRow], list[RankRow]]


@dataclass(frozen=True)
class ComposedQueries:
    """What a scenario's queries are.

    Attributes:
        clips: features of the perturbed query clips; None: of the clean ones.
        instructions: the accepted perturbed instructions by the queries' ids; None: the clean ones.
        rows: the rows of the perturbed clips or instructions, for the backends that results name.
    """

    clips: StoredFeatures | None = None
    instructions: Mapping[str, str] | None = None
    rows: Sequence[ClipRow | TextRow] = ()

    def ids(self, split: Split) -> frozenset[str]:
        """The ids of the queries whose perturbed clip or instruction is there."""
        held = None if self.clips is None else frozenset(self.clips.ids)
        ids = frozenset(query.query_id for query in split.queries if held is None or query.clip in held)
        return ids if self.instructions is None else ids.intersection(self.instructions)


@dataclass(frozen=True)
class ComposedEvaluation:
    """What the runs of a job share: the model, the split, the features of clean clips, and the ways to use queries.

    `settings` are what else results depend on, for their column `settings`.
    """

    backbone: LoadedBackbone
    split: Split
    clips: StoredFeatures
    ways: Ways
    settings: Mapping[str, Any]
    reader: Any = "pyav"

    def evaluate(self, runs: Sequence[Run]) -> _Results:
        """The rows of results and ranks of scenarios.

        Clips without features count as missing: they are in no gallery, and queries that lack their clip or all targets
        are left out. Only what a perturbation changes is evaluated: not "text" where clips are perturbed, nor "visual"
        where instructions are. Raises `ManifestError` where no query is left.
        """
        rows: list[ResultRow] = []
        ranks: list[RankRow] = []
        for run in runs:
            own_rows, own_ranks = self.scored(run, self.queries(run))
            rows += own_rows
            ranks += own_ranks
        return rows, ranks

    def queries(self, run: Run) -> ComposedQueries:
        """The perturbed queries of a run, from the parts of its perturbations."""
        clips, texts = composed_plan.halves(run)
        features, instructions = None, None
        rows: list[ClipRow | TextRow] = []
        if clips is not None:
            suite, name, severity = clips
            names = {"dataset": run.dataset, "suite": suite, "perturbation": name, "severity": severity}
            shards = listed.shards(Path(layout.folder("shard_list", dataset=run.dataset)))
            parts = [Path(layout.at("video_part", **names, shard=shard)) for shard in shards]
            asking = {query.clip for query in self.split.queries}
            videos = [row for part in parts for row in sets.read_part(part, VIDEOS) if row.item_id in asking]
            held = sorted((row for row in videos if row.status == "complete"), key=lambda row: row.item_id)
            features = self._features(held, run)
        if texts is not None:
            suite, name, severity = texts
            names = {"dataset": sharding.composed(run.dataset), "suite": suite, "shard": COMPOSED_SHARD}
            part = Path(layout.at("text_part", **names, perturbation=name, severity=severity))
            rows = [*sets.read_part(part, TEXTS)]
            instructions = {row.caption_id: row.text for row in rows if isinstance(row, TextRow) and row.accepted}
        return ComposedQueries(features, instructions, rows)

    def _features(self, clips: Sequence[ClipRow], run: Run) -> StoredFeatures:
        if not clips:
            return StoredFeatures(Path(), (), np.empty((0, 1), np.float32))
        num_frames = 1 if '"middle"' in (run.parameters or "") else run.num_frames
        assert num_frames is not None
        features = encoding.encoded(self.backbone, clips, num_frames, self.reader)
        return StoredFeatures(Path(), tuple(row.item_id for row in clips), encoding.vectors(features))

    def scored(self, run: Run, queries: ComposedQueries) -> _Results:
        """The rows of results and ranks of one scenario."""
        part = restricted(self.split, frozenset(self.clips.ids), queries.ids(self.split))
        name = f"{scenario_name(run)}, perturbed: {composed_plan.perturbed(run)}"
        _log.info("%s: %d of %d queries", name, len(part.queries), len(self.split.queries))
        if not part.queries:
            raise ManifestError(f"{name}: no query is left: clips are quarantined, or words not accepted")
        texts = {}
        for words in self.ways.words if queries.instructions is None else ("instruction",):
            lines = strategies.words_of(part, words)
            if queries.instructions is not None:
                lines = [queries.instructions[query.query_id] for query in part.queries]
            if all(lines):
                texts[words] = encoding.text_vectors(self.backbone, lines)
        model = ScoredModel(
            name=run.model,
            clips=rows_of_ids(self.clips, [clip.clip_id for clip in part.pool]),
            texts=texts,
            queries=None
            if queries.clips is None
            else rows_of_ids(queries.clips, [query.clip for query in part.queries]),
        )
        own = replace(run, listed_sha256=listed_sha256(self.split), checkpoint_sha256=self.backbone.sha256)
        return scenario_rows(
            part,
            [model],
            own,
            replace(self.ways, galleries=names_of(self.split, self.ways.galleries)),
            listed=len(self.split.queries),
            settings=self.settings,
            backend=backend_cell(results.backends(run.pretrained, queries.rows)),
            architecture=self.backbone.architecture,
            tools=canonical(results.tools()),
        )


def scenario_rows(
    split: Split,
    models: Sequence[ScoredModel],
    run: Run,
    ways: Ways,
    *,
    listed: int,
    settings: Mapping[str, Any],
    **columns: Any,
) -> _Results:
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
            ids = [query.query_id for query in split.queries]
            of_queries = zip(ids, places, score.first or [None] * len(ids), score.counted, strict=True)
            ranks += [
                RankRow(**own.columns(), query_id=query, rank=int(place), retrieved=first)
                for query, place, first, counted in of_queries
                if counted
            ]
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
        updates=0,
        empty=0,
        non_finite=0,
        queries_sha256="",
        manifest_sha256="",
    )


def clip_features(backbone: LoadedBackbone, path: Path, clean: scenarios.Clean) -> StoredFeatures:
    """One vector per clean clip, by its name, from the features that the rule `gallery` wrote."""
    ids = tuple(map(scenarios.id_of, scenarios.usable(clean.sources, clean, "clips")))
    return StoredFeatures(path, ids, encoding.vectors(encoding.read(path, backbone, "clips")))
