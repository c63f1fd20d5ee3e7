"""The runner of composed retrieval: a loaded model encodes the clips and instructions of each scenario."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.base.readers import Reader
from perturbations.base.records import canonical, digest
from perturbations.composed.manifests import names_of, restricted
from perturbations.composed.split import Split
from perturbations.corpus.plan import sharding
from perturbations.evaluation.composed.ways import ScoredModel, Ways, pre_caption, scenario_rows, words_of
from perturbations.evaluation.features.feature_reading import StoredFeatures, rows_of_ids
from perturbations.evaluation.models.encoder_loading import LoadedBackbone
from perturbations.evaluation.plan import composed_runs, planned_runs
from perturbations.evaluation.result_rows import Finished, RankRow, ResultRow, Run, rows_of
from perturbations.evaluation.result_sets import scenario_name
from perturbations.evaluation.run import query_encoding, retrieval_of_scenario, run_journal
from perturbations.manifest import files
from perturbations.manifest.rows import COMPLETE, TEXTS, VIDEOS, ClipRow, TextRow

_log = logging.getLogger("perturbations")


class ComposedJob:
    """What the runs of a job share: the model, the split, the features of clean clips, and the ways to use queries.

    `settings` are all other settings that results depend on, for their column `settings`; `split_sha256` is a hash of
    the split's manifests, whose words, distractors and galleries are in no column.
    """

    def __init__(
        self,
        backbone: LoadedBackbone,
        split: Split,
        clips: StoredFeatures,
        ways: Ways,
        settings: Mapping[str, Any],
        reader: Reader = "pyav",
        split_sha256: str = "",
    ) -> None:
        self.backbone, self.split, self.clips, self.settings, self.reader = backbone, split, clips, settings, reader
        self.ways = {**ways, "galleries": names_of(split, ways["galleries"], ways["source_in_gallery"])}
        self._about: dict[str, Any] = {"listed_sha256": split.listed_sha256, "checkpoint_sha256": backbone.sha256}
        features = storage.sha256_of(clips.rows.tobytes())
        self._shared = [features, split_sha256, clips.ids, dict(settings), self.ways, run_journal.tools()]

    def evaluate(self, runs: Sequence[Run], journal: Path) -> tuple[list[ResultRow], list[RankRow]]:
        """The rows of results and ranks of scenarios; rows in the journals of its folder are not made again.

        Clips without features count as missing: they are in no gallery, and queries that lack their clip or all targets
        are left out. Strategies that a perturbation cannot change are left out: "text" where clips are perturbed,
        "visual" where instructions are. Raises `ManifestError` where no query is left.
        """
        known, made = run_journal.Journal(journal), list[Finished]()
        for planned in runs:
            run = replace(planned, **self._about)
            clips, texts = _perturbed(run, self.split)
            identity = [[row.recipe_id, row.frames_sha256] for row in clips or ()]
            identity += [[row.recipe_id, row.text] for row in texts or ()]
            key = digest([run.columns(), self._shared, identity])
            made += known.once(key, partial(self._made, run, clips, texts))
        return rows_of(made)

    def _made(self, run: Run, clips: list[ClipRow] | None, texts: list[TextRow] | None) -> list[Finished]:
        features = None
        if clips is not None:
            num_frames = 1 if planned_runs.composed_clips(run) == "middle" else run.num_frames
            assert num_frames is not None
            rows = np.empty((0, 1), np.float32)
            if clips:
                rows = query_encoding.vectors(query_encoding.encoded(self.backbone, clips, num_frames, self.reader))
            features = StoredFeatures(Path(), tuple(row.item_id for row in clips), rows)
        instructions = None if texts is None else {row.caption_id: row.text for row in texts if row.accepted}
        return self.scored(run, features, instructions, [*(clips or ()), *(texts or ())])

    def scored(
        self,
        run: Run,
        clips: StoredFeatures | None = None,
        instructions: Mapping[str, str] | None = None,
        perturbed: Sequence[ClipRow | TextRow] = (),
    ) -> list[Finished]:
        """The results of one scenario.

        Args:
            run: the scenario.
            clips: features of the perturbed query clips; None: the clean clips are used.
            instructions: the accepted perturbed instructions by the queries' ids; None: the clean instructions are
                used.
            perturbed: the rows of the perturbed clips and instructions, for the backends that results name.
        """
        held = frozenset(() if clips is None else clips.ids)
        asking = frozenset(
            query.query_id
            for query in self.split.queries
            if (clips is None or query.clip_id in held) and (instructions is None or query.query_id in instructions)
        )
        part = restricted(self.split, frozenset(self.clips.ids), asking)
        name = f"{scenario_name(run)}, perturbed: {composed_runs.perturbed(run)}"
        _log.info("%s: %d of %d queries", name, len(part.queries), len(self.split.queries))
        if not part.queries:
            raise ManifestError(f"{name}: no query is left: clips are quarantined, or words not accepted")
        lines = {words: words_of(part, words) for words in self.ways["words"]}
        if instructions is not None:
            lines = {"instruction": [instructions[query.query_id] for query in part.queries]}
        if self.settings.get("pre_caption"):
            lines = {words: [*map(pre_caption, own)] for words, own in lines.items()}
        truncated = query_encoding.truncated(self.backbone, lines.get("instruction", []))
        model = ScoredModel(
            name=run.model,
            clips=rows_of_ids(self.clips, [clip.clip_id for clip in part.pool]),
            texts={words: query_encoding.text_vectors(self.backbone, own) for words, own in lines.items() if all(own)},
            queries=None if clips is None else rows_of_ids(clips, [query.clip_id for query in part.queries]),
        )
        return scenario_rows(
            part,
            [model],
            run,
            self.ways,
            listed=len(self.split.queries),
            settings=self.settings,
            backend=canonical(run_journal.backends(run.model, perturbed)),
            architecture=self.backbone.architecture,
            tools=canonical(run_journal.tools()),
            truncated_queries=truncated,
        )


def _perturbed(run: Run, split: Split) -> tuple[list[ClipRow] | None, list[TextRow] | None]:
    """The rows of perturbed query clips, by their ids, and of perturbed instructions; None where they are clean."""
    half, other = planned_runs.halves(run)
    clips: list[ClipRow] | None = None
    texts: list[TextRow] | None = None
    if half is not None:
        asking = {query.clip_id for query in split.queries}
        parts = retrieval_of_scenario.parts_of(run.dataset, "clips", *half)
        rows = [row for part in parts for row in files.read_part(part, VIDEOS) if row.item_id in asking]
        clips = sorted((row for row in rows if row.status == COMPLETE), key=lambda row: row.item_id)
    if other is not None:
        parts = retrieval_of_scenario.parts_of(sharding.composed(run.dataset), "captions", *other)
        texts = [row for part in parts for row in files.read_part(part, TEXTS) if isinstance(row, TextRow)]
    return clips, texts
