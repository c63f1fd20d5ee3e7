"""The runs of a job: every scenario with every method and seed.

A scenario's queries, its gallery or both are perturbed. Methods adapt the encoder of the queries; a perturbed gallery
is encoded once, by the model as it is. Finished runs are kept in a journal, so that an interrupted job resumes.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from perturbations.base import storage
from perturbations.base.progress import logged
from perturbations.base.readers import Reader
from perturbations.base.records import canonical, digest
from perturbations.evaluation import galleries, queries, result_sets, results, scenarios
from perturbations.evaluation.backbone import LoadedBackbone
from perturbations.evaluation.keys import banks_key, order_of, places_of
from perturbations.evaluation.method_settings import parameters_of
from perturbations.evaluation.planning import EvaluationSettings, Modality, ScenarioSettings
from perturbations.evaluation.results import FinishedRun
from perturbations.evaluation.rows import RankRow, ResultRow, ScenarioColumns
from perturbations.evaluation.scenarios import Clean, Perturbed, Retrieval
from perturbations.tta import adapt
from perturbations.tta.gallery import Gallery
from perturbations.tta.inputs import Batch
from perturbations.tta.methods import registry as methods
from perturbations.tta.recording import Counts, Timings, Unadapted

_log = logging.getLogger("perturbations")


@dataclass(frozen=True)
class EvaluationJob:
    """What the runs of a job share: the settings, the model, the dataset as it is, banks of queries and gallery items.

    `encoded` holds the features of clean clips and captions, as far as the job needs them.
    """

    settings: EvaluationSettings
    backbone: LoadedBackbone
    clean: Clean
    encoded: Mapping[Modality, Gallery]
    bank: Gallery | None = None
    gallery_bank: Gallery | None = None
    reader: Reader = "pyav"

    @cached_property
    def bank_hashes(self) -> dict[str, str]:
        """A hash of the features of each bank."""
        banks = {"bank": self.bank, "gallery_bank": self.gallery_bank}
        return {
            name: storage.sha256_of(bank.features.cpu().numpy().tobytes())
            for name, bank in banks.items()
            if bank is not None
        }

    def gallery(self, task: Retrieval) -> Gallery:
        """The clean gallery of a retrieval: every usable item of the dataset."""
        return self.encoded["captions" if task.direction == "v2t" else "clips"]

    def queries(self, task: Retrieval) -> Gallery | None:
        """The features of a retrieval's clean queries; None where they are perturbed or were not encoded."""
        modality: Modality = "clips" if task.direction == "v2t" else "captions"
        if task.is_perturbed("query") or modality not in self.encoded:
            return None
        places = {scenarios.id_of(row): place for place, row in enumerate(galleries.usable(self.clean, modality))}
        held = self.encoded[modality]
        return Gallery(held.direction, held.features[[places[query] for query in task.query_ids]])


def evaluate(
    job: EvaluationJob, perturbed: Perturbed, journal: Path, journals: Sequence[Path] = ()
) -> tuple[list[ResultRow], list[RankRow]]:
    """Run a job's scenarios; returns the rows of results and the rows of ranks.

    Runs in `journal`, and in `journals` of other jobs on the same scenarios, are not repeated. Raises `ManifestError`
    where no query is left.
    """
    rows: list[ResultRow] = []
    ranks: list[RankRow] = []
    done = results.read_journal(journal)
    for other in journals:
        done = {**results.runs_of(other), **done}
    for own in map(methods.method, dict.fromkeys(method["name"] for method in job.settings["methods"])):
        if own.takes_gallery_bank and job.gallery_bank is None:
            text = (
                "without `evaluation.gallerybank`, the gallery is its own bank: with few items clean results may drop"
            )
            _log.warning("%s: %s", own.title, text)
    retrieval_of = partial(scenarios.of_scenario, perturbed=perturbed, clean=job.clean)
    described: dict[str, Any] = {
        "settings": canonical(results.shared_settings(job.settings)),
        "tools": canonical(results.tools()),
        "architecture": job.backbone.architecture,
    }
    with ExitStack() as stack:
        inputs = _QueryInputs(stack)
        for scenario in job.settings["scenarios"]:
            task, manifest_sha256 = retrieval_of(scenario)
            _log.info("%s", result_sets.scenario_name(scenario))
            for label, run in _runs(job, scenario, task, inputs, journal, done):
                row = replace(run.row, label=label, manifest_sha256=manifest_sha256, **described)
                columns = {column.name: getattr(row, column.name) for column in fields(ScenarioColumns)}
                rows.append(row)
                lists = run.retrieved or [None] * len(run.ranks)
                ranks += [
                    RankRow(**columns, query_id=query_id, rank=rank, retrieved=retrieved)
                    for query_id, rank, retrieved in zip(run.query_ids, run.ranks, lists, strict=True)
                ]
    return rows, ranks


@dataclass
class _QueryInputs:
    """The queries of the last scenario as the model's input; the next scenario may have the same ones."""

    stack: ExitStack
    sha256: str = ""
    last: queries.QueryItems = field(default_factory=list)

    def batches(self, job: EvaluationJob, task: Retrieval, places: Sequence[int]) -> Iterator[Batch]:
        """The queries of a scenario at some places, in that order."""
        sha256 = _sha256_of(task.queries)
        if sha256 != self.sha256:
            self.stack.close()  # the frames of the last scenario
            folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="perturb-")))
            num_frames = job.settings["num_frames"]
            self.last = queries.of_rows(task.queries, num_frames, job.backbone, folder, job.reader)
            self.sha256 = sha256
        return queries.batches(self.last, places, job.settings["batch_size"], job.backbone)


class _Run(NamedTuple):
    """A method with every parameter as canonical JSON, what tables call it, and a seed."""

    method: str
    parameters: str
    label: str
    seed: int


@dataclass(frozen=True)
class _State:
    ask: Callable[[Iterator[Batch]], Iterator[Tensor]]
    counts: Counts
    timings: Timings


def _keys(job: EvaluationJob, scenario: ScenarioSettings, task: Retrieval) -> dict[_Run, str]:
    """The key of each run of a scenario: a hash of all that determines its result."""
    determined_by = {
        **results.shared_settings(job.settings),
        "scenario": scenario,
        "queries": _sha256_of(task.queries),
        "ids": task.query_ids,
        "relevant": task.relevant,
        "gallery": [tuple(map(scenarios.id_of, task.gallery)), _sha256_of(task.gallery)],
        "checkpoint": job.backbone.sha256,
        "tools": results.tools(),
    }
    keys = {}
    for method in job.settings["methods"]:
        name = method["name"]
        parameters = parameters_of(name, method["parameters"], task.direction)
        banks = _banks_sha256(job, name)
        for seed in job.settings["seeds"]:
            of_run: dict[str, object] = {**determined_by, "method": name, "parameters": parameters, "seed": seed}
            of_run |= {"banks": banks, "order": order_of(seed)}
            keys[_Run(name, parameters, method["label"], seed)] = digest(of_run)
    return keys


def _banks(job: EvaluationJob, method: str) -> dict[str, Any]:
    """The banks that a method uses, as `adapt` names them."""
    own = methods.method(method)
    return {
        "bank": job.bank if own.needs_bank else None,
        "gallery_bank": job.gallery_bank if own.takes_gallery_bank else None,
    }


def _banks_sha256(job: EvaluationJob, method: str) -> str | None:
    """A hash of the features of the banks that a method uses; None without one."""
    return banks_key({name: job.bank_hashes[name] for name, bank in _banks(job, method).items() if bank is not None})


def _sha256_of(rows: Sequence[scenarios.ScenarioRow]) -> str:
    return digest([queries.identity(row) for row in rows])


def _runs(
    job: EvaluationJob,
    scenario: ScenarioSettings,
    task: Retrieval,
    inputs: _QueryInputs,
    journal: Path,
    done: dict[str, FinishedRun],
) -> Iterator[tuple[str, FinishedRun]]:
    """The runs of a scenario and their labels; runs of the journal are not repeated."""
    shared: dict[str, object] = {"listed_sha256": job.clean.listed_sha256, "queries_sha256": _sha256_of(task.queries)}
    shared["checkpoint_sha256"] = job.backbone.sha256
    size = job.settings["batch_size"]
    gallery: Gallery | None = None
    # Clean queries that ask a perturbed gallery were encoded with the clean side, in float32.
    known_queries = task.is_perturbed("gallery") and job.settings["precision"] == "float32"
    encoded = job.queries(task) if known_queries else None
    # As if each batch had been encoded by the model as it is.
    unadapted = Unadapted()
    for run, key in _keys(job, scenario, task).items():
        if key not in done:
            if "clean_input_queries" not in shared:
                shared["clean_input_queries"] = queries.read_as_clean(task.queries, job.backbone.texts)
            if gallery is None and task.is_perturbed("gallery"):
                gallery = galleries.encoded(job.backbone, task.gallery, job.settings["num_frames"], job.reader)
            gallery = gallery or job.gallery(task)
            places = places_of(task.query_ids, run.seed)
            if encoded is not None:
                parts = enumerate(encoded.features[places].split(size))
                unadapted.kept.update({(run.seed, number): (part, []) for number, part in parts})
            # What only compares known features needs no pixels and no tokens.
            known = encoded is not None and not methods.method(run.method).adapts
            batches = iter([()] * -(-len(places) // size)) if known else inputs.batches(job, task, places)
            state = _state(job, run, gallery, unadapted)
            similarities = _similarities(job, batches, places, run.label, state)
            timings = state.timings.summary()
            done[key] = results.finished(
                job.settings,
                scenario,
                task,
                similarities,
                {**run._asdict(), **shared, "banks_sha256": _banks_sha256(job, run.method), "recipe_id": key},
                counts=state.counts,
                # Of features that were encoded before, the time is not known here.
                timings={} if known else timings,
            )
            results.append(journal, done[key])
            _log.info("%s: R@1 %.1f %%", run.label, done[key].row.recall_at_1)
        yield run.label, done[key]


def _state(job: EvaluationJob, run: _Run, gallery: Gallery, unadapted: Unadapted) -> _State:
    """The state of a run before its scenario."""
    counts, timings = Counts(), Timings()
    adapted: Callable[[Iterable[Batch]], Iterator[Tensor]] = partial(
        adapt,
        job.backbone.model,
        run.method,
        gallery=gallery,
        direction=gallery.direction,
        steps=job.settings["steps"],
        parameters={name: value for name, value in json.loads(run.parameters).items() if value is not None},
        seed=run.seed,
        precision=job.settings["precision"],
        **_banks(job, run.method),
        counts=counts,
        timings=timings,
        unadapted=unadapted,
    )
    return _State(adapted, counts, timings)


def _similarities(
    job: EvaluationJob, batches: Iterator[Batch], places: Sequence[int], label: str, state: _State
) -> NDArray[np.float32]:
    """The similarities of all queries of a scenario with the gallery, queries x gallery, in the order of their ids."""
    shown = logged(state.ask(batches), -(-len(places) // job.settings["batch_size"]), f"batches of {label}")
    similarities = np.concatenate([part.float().cpu().numpy() for part in shown])
    return similarities[np.argsort(places)]
