"""The runs of a job: every scenario with every method.

A scenario's queries, its gallery or both are perturbed. Methods adapt the encoder of the queries; a perturbed gallery
is encoded once, by the model as it is.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from perturbations import retrieval
from perturbations.base import storage
from perturbations.base.progress import logged
from perturbations.base.readers import Reader
from perturbations.base.records import canonical, digest
from perturbations.evaluation import encoding, planning, results, scenarios
from perturbations.evaluation.backbone import LoadedBackbone
from perturbations.evaluation.planning import Modality
from perturbations.evaluation.result_sets import finished
from perturbations.evaluation.results import Making
from perturbations.evaluation.rows import Finished, RankRow, ResultRow, Run, banks_key, hub_columns, places_of
from perturbations.evaluation.scenarios import Clean, Perturbed, Retrieval
from perturbations.manifest.kinds import CaptionRow, TextRow
from perturbations.retrieval.metrics import retrieved_first
from perturbations.tta import adapt
from perturbations.tta.gallery import Gallery
from perturbations.tta.inputs import Batch
from perturbations.tta.methods import registry as methods
from perturbations.tta.recording import Counts, Timings, Unadapted

_log = logging.getLogger("perturbations")


@dataclass(frozen=True)
class EvaluationJob:
    """The runs of a job, and what they share.

    Attributes:
        runs: those of a scenario stand together.
        backbone: the model.
        clean: the dataset as it is.
        encoded: the features of clean clips and captions, as far as the job needs them.
        banks: the features of the banks, by the names that `adapt` gives them.
        settings: what else results depend on, for their column `settings`.
        top_k: how many items that a query retrieved first are kept.
    """

    runs: Sequence[Run]
    backbone: LoadedBackbone
    clean: Clean
    encoded: Mapping[Modality, Gallery]
    banks: Mapping[str, Gallery] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    top_k: int | None = None
    reader: Reader = "pyav"

    @cached_property
    def bank_hashes(self) -> dict[str, str]:
        """A hash of the features of each bank."""
        return {name: storage.sha256_of(bank.features.cpu().numpy().tobytes()) for name, bank in self.banks.items()}

    def banks_of(self, method: str) -> dict[str, Gallery]:
        """The banks that a method uses."""
        own = methods.method(method)
        used = {"bank": own.needs_bank, "gallery_bank": own.takes_gallery_bank}
        return {name: bank for name, bank in self.banks.items() if used[name]}


def evaluate(
    job: EvaluationJob, perturbed: Perturbed, journal: Path, journals: Sequence[Path] = ()
) -> tuple[list[ResultRow], list[RankRow]]:
    """Run a job's runs; returns the rows of results and the rows of ranks.

    Runs in `journal`, and in `journals` of other jobs on the same scenarios, are not repeated. Raises `ManifestError`
    where no query is left.
    """
    for own in map(methods.method, dict.fromkeys(run.method for run in job.runs)):
        if own.takes_gallery_bank and "gallery_bank" not in job.banks:
            text = (
                "without `evaluation.gallerybank`, the gallery is its own bank: with few items clean results may drop"
            )
            _log.warning("%s: %s", own.title, text)
    with ExitStack() as stack:
        inputs = _QueryInputs(job, stack)

        def scenario_of(first: Run) -> Any:
            return _Asked(job, first, *scenarios.of_run(first, perturbed, job.clean), inputs).making

        return results.of_runs(job.runs, results.ResultJournal(journal, journals), scenario_of)


class _QueryInputs:
    """The queries of the last scenario as the model's input; the next scenario may have the same ones."""

    def __init__(self, job: EvaluationJob, stack: ExitStack) -> None:
        self._job, self._stack = job, stack
        self._sha256 = ""
        self._last: encoding.QueryItems = []

    def batches(self, task: Retrieval, places: Sequence[int], size: int) -> Iterator[Batch]:
        """The queries of a scenario at some places, in that order."""
        sha256 = _sha256_of(task.queries)
        if sha256 != self._sha256:
            self._stack.close()  # the frames of the last scenario
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="perturb-")))
            num_frames = self._job.runs[0].num_frames
            assert num_frames is not None
            self._last = encoding.query_items(task.queries, num_frames, self._job.backbone, folder, self._job.reader)
            self._sha256 = sha256
        return encoding.batches(self._last, places, size, self._job.backbone)


class _Asked:
    """A scenario's retrieval, and what its runs share: the gallery, and the queries by the model as it is."""

    def __init__(
        self, job: EvaluationJob, run: Run, task: Retrieval, manifest_sha256: str, inputs: _QueryInputs
    ) -> None:
        self.job, self.run, self.task, self.inputs = job, run, task, inputs
        self.unadapted: Unadapted = {}  # as if each batch had been encoded by the model as it is
        self.queries_sha256 = _sha256_of(task.queries)
        self.about: dict[str, Any] = {
            "settings": results.settings_cell(run, job.settings),
            "manifest_sha256": manifest_sha256,
            "architecture": job.backbone.architecture,
        }

    def making(self, planned: Run) -> Making:
        """The run of one method and seed."""
        job = self.job
        banks = {name: job.bank_hashes[name] for name in job.banks_of(planned.method)}
        run = replace(
            planned,
            listed_sha256=job.clean.listed_sha256,
            checkpoint_sha256=job.backbone.sha256,
            banks_sha256=banks_key(banks),
        )
        gallery = [tuple(map(scenarios.id_of, self.task.gallery)), _sha256_of(self.task.gallery)]
        identity = [self.queries_sha256, self.task.query_ids, self.task.relevant, gallery]
        key = digest([{**run.columns(), "label": None}, self.about["settings"], results.tools(), identity])
        about = {**self.about, "label": run.label}
        return key, about, partial(_finished, self, run, recipe_id=key, **self.about)

    @cached_property
    def gallery(self) -> Gallery:
        """The features of the gallery: a clean one has every usable item of the dataset."""
        if not self.task.is_perturbed("gallery"):
            return self.job.encoded[planning.answers(self.task.direction)]
        assert self.run.num_frames is not None
        return encoding.encoded(self.job.backbone, self.task.gallery, self.run.num_frames, self.job.reader)

    @cached_property
    def known_queries(self) -> Gallery | None:
        """The features of clean queries that ask a perturbed gallery: encoded with the clean side, in float32."""
        modality = planning.asks(self.task.direction)
        if self.task.side != "gallery" or self.run.precision != "float32" or modality not in self.job.encoded:
            return None
        clean = self.job.clean
        rows = scenarios.usable(clean.captions if modality == "captions" else clean.sources, clean, modality)
        places = {scenarios.id_of(row): place for place, row in enumerate(rows)}
        held = self.job.encoded[modality]
        return Gallery(held.direction, held.features[[places[query] for query in self.task.query_ids]])

    @cached_property
    def clean_input_queries(self) -> int | None:
        """How many perturbed captions the model reads as the clean ones; None where no caption is perturbed."""
        pairs = [(row.source_text, row.text) for row in self.task.queries if isinstance(row, TextRow)]
        return self.job.backbone.texts.same_inputs(pairs) if pairs else None


def _sha256_of(rows: Sequence[scenarios.ScenarioRow]) -> str:
    """A hash of queries or items: of their frames, and of their texts."""

    def identity(row: scenarios.ScenarioRow) -> list[str | None]:
        if isinstance(row, CaptionRow):
            return [None, row.text]
        return [row.recipe_id, row.text] if isinstance(row, TextRow) else [row.frames_sha256, None]

    return digest([identity(row) for row in rows])


def _finished(asked: _Asked, run: Run, **columns: Any) -> list[Finished]:
    """Run one method on a scenario's queries."""
    job, task, size = asked.job, asked.task, run.batch_size
    assert size is not None
    places = places_of(task.query_ids, run.seed)
    if asked.known_queries is not None:
        parts = enumerate(asked.known_queries.features[places].split(size))
        asked.unadapted.update({(run.seed, number): (part, []) for number, part in parts})
    # What only compares known features needs no pixels and no tokens.
    known = asked.known_queries is not None and not methods.method(run.method).adapts
    batches = iter([()] * -(-len(places) // size)) if known else asked.inputs.batches(task, places, size)
    counts, timings = Counts(), Timings()
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
        counts=counts,
        timings=timings,
        unadapted=asked.unadapted,
    )
    shown = logged(similarities, -(-len(places) // size), f"batches of {run.label}")
    in_order = np.concatenate([part.float().cpu().numpy() for part in shown])
    scores = in_order[np.argsort(places)]
    first = None
    if job.top_k is not None:
        first = retrieved_first(scores, list(map(scenarios.id_of, task.gallery)), job.top_k)
    row, queries = finished(
        run,
        task.query_ids,
        retrieval.ranks(scores, task.relevant),
        first,
        **columns,
        **hub_columns(retrieval.hubness(scores)),
        **asdict(counts),
        # Of features that were encoded before, the time is not known here.
        **({} if known else timings.summary()),
        missing_queries=task.missing,
        gallery=len(task.gallery),
        backend=canonical(results.backends(run.pretrained, (*task.queries, *task.gallery))),
        tools=canonical(results.tools()),
        queries_sha256=asked.queries_sha256,
        clean_input_queries=asked.clean_input_queries,
    )
    _log.info("%s: R@1 %.1f %%", run.label, row.recall_at_1)
    return [(row, queries)]
