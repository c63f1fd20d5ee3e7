"""The runs of a job: every scenario with every method.

A scenario's queries, its gallery or both are perturbed. Methods adapt the encoder of the queries; a perturbed gallery
is encoded once, without adaptation.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from perturbations.base import storage
from perturbations.base.progress import logged
from perturbations.base.readers import Reader
from perturbations.base.records import canonical, digest
from perturbations.evaluation.models.encoder_loading import LoadedBackbone
from perturbations.evaluation.plan import planned_runs
from perturbations.evaluation.plan.planned_runs import Modality
from perturbations.evaluation.result_rows import (
    Finished,
    RankRow,
    ResultRow,
    Run,
    banks_key,
    places_of,
    rows_of,
)
from perturbations.evaluation.result_sets import result_of_scores, scenario_name
from perturbations.evaluation.run import query_encoding, retrieval_of_scenario, run_journal
from perturbations.evaluation.run.retrieval_of_scenario import Clean, Perturbed, ScenarioRow
from perturbations.manifest.rows import CaptionRow, TextRow
from perturbations.tta import adapt
from perturbations.tta.gallery import Gallery
from perturbations.tta.inputs import Batch
from perturbations.tta.methods import method_registry as methods
from perturbations.tta.recording import Recording, Unadapted

_log = logging.getLogger("perturbations")


class EvaluationJob:
    """What the runs of a job share: the model, the clean dataset, and the source of perturbed rows.

    Args:
        backbone: the model.
        clean: the clean dataset.
        encoded: the features of clean clips and captions that the job needs.
        perturbed: gives the rows of a run's perturbed clips or captions.
        banks: the features of the banks, by the names that `adapt` gives them.
        settings: all other settings that results depend on, for their column `settings`.
        top_k: how many items that a query retrieved first are kept.
        reader: what decodes clips.
    """

    def __init__(
        self,
        backbone: LoadedBackbone,
        clean: Clean,
        encoded: Mapping[Modality, Gallery],
        perturbed: Perturbed,
        *,
        banks: Mapping[str, Gallery] | None = None,
        settings: Mapping[str, Any] | None = None,
        top_k: int | None = None,
        reader: Reader = "pyav",
    ) -> None:
        self.backbone, self.clean, self.encoded, self.perturbed = backbone, clean, encoded, perturbed
        self.banks, self.settings, self.top_k, self.reader = banks or {}, settings or {}, top_k, reader
        features = {name: bank.features.cpu().numpy() for name, bank in self.banks.items()}
        self.bank_hashes = {name: storage.sha256_of(rows.tobytes()) for name, rows in features.items()}
        self.listed_sha256 = clean.listed_sha256
        self._stack = ExitStack()
        self._queries: tuple[str, query_encoding.QueryItems] = "", []

    def evaluate(self, runs: Sequence[Run], journal: Path) -> tuple[list[ResultRow], list[RankRow]]:
        """The rows of results and ranks of runs.

        Runs in `journal`, and in the journals of other jobs on the same scenarios beside it, are not repeated. Raises
        `ManifestError` where no query is left.
        """
        for own in map(methods.method, dict.fromkeys(run.method for run in runs)):
            if own.takes_gallery_bank and "gallery_bank" not in self.banks:
                text = "without `evaluation.gallerybank`, the gallery itself is the gallery bank"
                _log.warning("%s: %s: with few items clean results may drop", own.title, text)
        known, results = run_journal.Journal(journal), list[Finished]()
        with self._stack:
            drawn: dict[object, list[Run]] = {}  # each seed draws a mixture of its own
            for run in runs:
                drawn.setdefault((run.scenario, run.mix and run.seed), []).append(run)
            for planned in drawn.values():
                _log.info("%s", scenario_name(planned[0]))
                asked = _Scenario(self, planned[0])
                results += [own for run in planned for own in asked.results(run, known)]
        return rows_of(results)

    def banks_of(self, method: str) -> dict[str, Gallery]:
        """The banks that a method uses."""
        own = methods.method(method)
        used = {"bank": own.needs_bank, "gallery_bank": own.takes_gallery_bank}
        return {name: bank for name, bank in self.banks.items() if used[name]}

    def batches(self, queries: Sequence[ScenarioRow], places: Sequence[int], run: Run) -> Iterator[Batch]:
        """A scenario's queries at some places, in that order; kept, as the next scenario may have the same queries."""
        sha256 = _sha256_of(queries)
        assert run.num_frames is not None
        assert run.batch_size is not None
        if sha256 != self._queries[0]:
            self._stack.close()  # the frames of the last scenario
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="perturb-")))
            items = query_encoding.query_items(queries, run.num_frames, self.backbone, folder, self.reader)
            self._queries = sha256, items
        return query_encoding.batches(self._queries[1], places, run.batch_size, self.backbone)


class _Scenario:
    """A scenario's retrieval, and what its runs share: the gallery's features, and the queries' without adaptation."""

    def __init__(self, job: EvaluationJob, run: Run) -> None:
        self.job, self.run = job, run
        self.unadapted: Unadapted = {}  # as if each batch had been encoded without adaptation
        self.asks, self.answers = planned_runs.asks(run.direction), planned_runs.answers(run.direction)
        self.retrieval, manifest_sha256 = retrieval_of_scenario.of_run(run, job.perturbed, job.clean)
        queries, items, relevant, _ = self.retrieval
        self.query_ids, self.item_ids = (tuple(map(retrieval_of_scenario.id_of, rows)) for rows in (queries, items))
        self.queries_sha256 = _sha256_of(queries)
        gallery = [self.item_ids, _sha256_of(items)]
        self.identity = digest([self.queries_sha256, self.query_ids, relevant, gallery])
        self.about: dict[str, Any] = {
            "settings": run_journal.settings_cell(run, job.settings),
            "manifest_sha256": manifest_sha256,
            "architecture": job.backbone.architecture,
        }

    def results(self, planned: Run, journal: run_journal.Journal) -> list[Finished]:
        """The results of a method and seed, made now or earlier."""
        job = self.job
        run = replace(
            planned,
            listed_sha256=job.listed_sha256,
            checkpoint_sha256=job.backbone.sha256,
            banks_sha256=banks_key({name: job.bank_hashes[name] for name in job.banks_of(planned.method)}),
        )
        key = digest([{**run.columns(), "label": None}, self.about["settings"], run_journal.tools(), self.identity])
        results = journal.once(key, lambda: [_result_of_method(self, run, key)])
        return [(replace(row, **self.about, label=run.label), queries) for row, queries in results]

    @cached_property
    def gallery(self) -> Gallery:
        """The features of the gallery: a clean gallery has every usable item of the dataset."""
        if not planned_runs.perturbs(self.answers, self.run.direction, self.run.side):
            return self.job.encoded[self.answers]
        assert self.run.num_frames is not None
        return query_encoding.encoded(self.job.backbone, self.retrieval.items, self.run.num_frames, self.job.reader)

    @cached_property
    def known_queries(self) -> Gallery | None:
        """The features of clean queries that ask a perturbed gallery: encoded with the clean side, in float32."""
        if self.run.side != "gallery" or self.run.precision != "float32" or self.asks not in self.job.encoded:
            return None
        clean = self.job.clean
        rows = retrieval_of_scenario.usable(
            clean.captions if self.asks == "captions" else clean.sources, clean, self.asks
        )
        places = {retrieval_of_scenario.id_of(row): place for place, row in enumerate(rows)}
        held = self.job.encoded[self.asks]
        return Gallery(held.direction, held.features[[places[query] for query in self.query_ids]])

    @cached_property
    def backend(self) -> str:
        """The column `backend`."""
        return canonical(run_journal.backends(self.run.model, (*self.retrieval.queries, *self.retrieval.items)))

    @cached_property
    def truncated_queries(self) -> int | None:
        """How many captions the model does not read to their end; None where clips are the queries."""
        texts = [row.text for row in self.retrieval.queries if isinstance(row, CaptionRow | TextRow)]
        return query_encoding.truncated(self.job.backbone, texts)

    @cached_property
    def clean_input_queries(self) -> int | None:
        """How many perturbed captions the model reads as clean captions; None where no caption is perturbed."""
        pairs = [(row.source_text, row.text) for row in self.retrieval.queries if isinstance(row, TextRow)]
        return self.job.backbone.texts.same_inputs(pairs) if pairs else None


def _sha256_of(rows: Sequence[ScenarioRow]) -> str:
    """A hash of queries or items: of their frames and texts."""

    def identity(row: ScenarioRow) -> list[str | None]:
        if isinstance(row, CaptionRow):
            return [None, row.text]
        return [row.recipe_id, row.text] if isinstance(row, TextRow) else [row.frames_sha256, None]

    return digest([identity(row) for row in rows])


def _result_of_method(asked: _Scenario, run: Run, key: str) -> Finished:
    """The result of a run: its method scores the scenario's queries, in batches, in the seed's order."""
    job, size = asked.job, run.batch_size
    assert size is not None
    truncated = asked.truncated_queries
    places = places_of(asked.query_ids, run.seed)
    # A method that only compares known features needs no pixels and no tokens.
    known = None if methods.method(run.method).adapts else asked.known_queries
    if known is None:
        batches: Iterable[Batch | Gallery] = job.batches(asked.retrieval.queries, places, run)
    else:
        batches = Gallery(known.direction, known.features[places]).split(size)
    recording = Recording()
    parameters = json.loads(run.parameters or "{}")
    similarities = adapt(
        job.backbone.model,
        run.method,
        batches,
        asked.gallery,
        direction=asked.gallery.direction,
        steps=run.steps or 1,
        parameters={name: value for name, value in parameters.items() if value is not None},
        seed=run.seed,
        precision=run.precision or "float32",
        **job.banks_of(run.method),
        recording=recording,
        unadapted=asked.unadapted,
    )
    shown = logged(similarities, -(-len(places) // size), f"batches of {run.label}")
    in_order = np.concatenate([part.float().cpu().numpy() for part in shown])
    scores = in_order[np.argsort(places)]
    # The time of encoding is not known for features that were encoded earlier.
    spent: dict[str, Any] = {**recording.counts, **({} if known is not None else recording.summary())}
    row, queries = result_of_scores(
        run,
        asked.query_ids,
        asked.item_ids,
        [(slice(None), scores)],
        asked.retrieval.relevant,
        job.top_k,
        recipe_id=key,
        **asked.about,
        **spent,
        missing_queries=asked.retrieval.missing,
        backend=asked.backend,
        tools=canonical(run_journal.tools()),
        queries_sha256=asked.queries_sha256,
        clean_input_queries=asked.clean_input_queries,
        truncated_queries=truncated,
    )
    _log.info("%s: R@1 %.1f %%", run.label, row.recall_at_1)
    return row, queries
