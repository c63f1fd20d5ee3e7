"""The runner of composed retrieval: the features of a scenario's clips and instructions, by a loaded model."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from perturbations.base.errors import ManifestError
from perturbations.base.readers import Reader
from perturbations.base.records import canonical
from perturbations.composed import strategies
from perturbations.composed.manifests import names_of, restricted
from perturbations.composed.modifications import Split
from perturbations.composed.strategies import ScoredModel, Ways
from perturbations.evaluation import composed_plan, encoding, results, scenarios
from perturbations.evaluation.backbone import LoadedBackbone
from perturbations.evaluation.composed_results import ResultsAndRanks, listed_sha256, scenario_rows
from perturbations.evaluation.result_sets import scenario_name
from perturbations.evaluation.rows import RankRow, ResultRow, Run, backend_cell
from perturbations.evaluation.stored_features import StoredFeatures, rows_of_ids
from perturbations.manifest import files, layout
from perturbations.manifest.kinds import TEXTS, VIDEOS, ClipRow, TextRow
from perturbations.plan import listed, sharding
from perturbations.plan.sharding import COMPOSED_SHARD

_log = logging.getLogger("perturbations")


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
    reader: Reader = "pyav"

    def evaluate(self, runs: Sequence[Run]) -> ResultsAndRanks:
        """The rows of results and ranks of scenarios.

        Clips without features count as missing: they are in no gallery, and queries that lack their clip or all targets
        are left out. Only what a perturbation changes is evaluated: not "text" where clips are perturbed, nor "visual"
        where instructions are. Raises `ManifestError` where no query is left.
        """
        rows: list[ResultRow] = []
        ranks: list[RankRow] = []
        for run in runs:
            own_rows, own_ranks = self.scored(run, *self._perturbed(run))
            rows += own_rows
            ranks += own_ranks
        return rows, ranks

    def _perturbed(
        self, run: Run
    ) -> tuple[StoredFeatures | None, Mapping[str, str] | None, Sequence[ClipRow | TextRow]]:
        """The arguments of `scored`, from the parts of a run's perturbations."""
        clips, texts = composed_plan.halves(run)
        features, instructions = None, None
        rows: list[ClipRow | TextRow] = []
        if clips is not None:
            suite, name, severity = clips
            names = {"dataset": run.dataset, "suite": suite, "perturbation": name, "severity": severity}
            shards = listed.shards(Path(layout.folder("shard_list", dataset=run.dataset)))
            parts = [Path(layout.at("video_part", **names, shard=shard)) for shard in shards]
            asking = {query.clip for query in self.split.queries}
            videos = [row for part in parts for row in files.read_part(part, VIDEOS) if row.item_id in asking]
            held = sorted((row for row in videos if row.status == "complete"), key=lambda row: row.item_id)
            features = self._features(held, run)
        if texts is not None:
            suite, name, severity = texts
            names = {"dataset": sharding.composed(run.dataset), "suite": suite, "shard": COMPOSED_SHARD}
            part = Path(layout.at("text_part", **names, perturbation=name, severity=severity))
            rows = [*files.read_part(part, TEXTS)]
            instructions = {row.caption_id: row.text for row in rows if isinstance(row, TextRow) and row.accepted}
        return features, instructions, rows

    def _features(self, clips: Sequence[ClipRow], run: Run) -> StoredFeatures:
        if not clips:
            return StoredFeatures(Path(), (), np.empty((0, 1), np.float32))
        num_frames = 1 if '"middle"' in (run.parameters or "") else run.num_frames
        assert num_frames is not None
        features = encoding.encoded(self.backbone, clips, num_frames, self.reader)
        return StoredFeatures(Path(), tuple(row.item_id for row in clips), encoding.vectors(features))

    def scored(
        self,
        run: Run,
        clips: StoredFeatures | None = None,
        instructions: Mapping[str, str] | None = None,
        perturbed: Sequence[ClipRow | TextRow] = (),
    ) -> ResultsAndRanks:
        """The rows of results and ranks of one scenario.

        Args:
            run: the scenario.
            clips: features of the perturbed query clips; None: of the clean ones.
            instructions: the accepted perturbed instructions by the queries' ids; None: the clean ones.
            perturbed: the rows of the perturbed clips or instructions, for the backends that results name.
        """
        held = frozenset(() if clips is None else clips.ids)
        asking = frozenset(
            query.query_id
            for query in self.split.queries
            if (clips is None or query.clip in held) and (instructions is None or query.query_id in instructions)
        )
        part = restricted(self.split, frozenset(self.clips.ids), asking)
        name = f"{scenario_name(run)}, perturbed: {composed_plan.perturbed(run)}"
        _log.info("%s: %d of %d queries", name, len(part.queries), len(self.split.queries))
        if not part.queries:
            raise ManifestError(f"{name}: no query is left: clips are quarantined, or words not accepted")
        texts = {}
        for words in self.ways.words if instructions is None else ("instruction",):
            lines = strategies.words_of(part, words)
            if instructions is not None:
                lines = [instructions[query.query_id] for query in part.queries]
            if all(lines):
                texts[words] = encoding.text_vectors(self.backbone, lines)
        model = ScoredModel(
            name=run.model,
            clips=rows_of_ids(self.clips, [clip.clip_id for clip in part.pool]),
            texts=texts,
            queries=None if clips is None else rows_of_ids(clips, [query.clip for query in part.queries]),
        )
        own = replace(run, listed_sha256=listed_sha256(self.split), checkpoint_sha256=self.backbone.sha256)
        return scenario_rows(
            part,
            [model],
            own,
            replace(self.ways, galleries=names_of(self.split, self.ways.galleries)),
            listed=len(self.split.queries),
            settings=self.settings,
            backend=backend_cell(results.backends(run.pretrained, perturbed)),
            architecture=self.backbone.architecture,
            tools=canonical(results.tools()),
        )


def clip_features(backbone: LoadedBackbone, path: Path, clean: scenarios.Clean) -> StoredFeatures:
    """One vector per clean clip, by its name, from the features that the rule `gallery` wrote."""
    ids = tuple(map(scenarios.id_of, scenarios.usable(clean.sources, clean, "clips")))
    return StoredFeatures(path, ids, encoding.vectors(encoding.read(path, backbone, "clips")))
