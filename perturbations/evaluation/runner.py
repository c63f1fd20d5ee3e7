"""The runs of a job: every scenario with every method and seed.

A scenario's queries, its gallery or both are perturbed. Methods adapt the encoder of the queries; a perturbed gallery
is encoded once, by the model as it is. Finished runs are kept in a journal, so that an interrupted job resumes.
"""

from __future__ import annotations

import logging
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from perturbations.base import storage
from perturbations.base.progress import logged
from perturbations.base.readers import Reader
from perturbations.base.records import canonical, digest
from perturbations.evaluation import galleries, queries, result_sets, results, scenarios
from perturbations.evaluation.backbone import LoadedBackbone
from perturbations.evaluation.galleries import CleanSide
from perturbations.evaluation.pictures import Picture
from perturbations.evaluation.planning import CONTINUAL, EvaluationSettings, ScenarioSettings
from perturbations.evaluation.results import FinishedRun
from perturbations.evaluation.rows import RankRow, ResultRow, ScenarioColumns
from perturbations.evaluation.scenarios import Perturbed, Retrieval
from perturbations.tta import adapt
from perturbations.tta.gallery import Gallery
from perturbations.tta.inputs import Batch
from perturbations.tta.methods import registry as methods
from perturbations.tta.recording import Counts, Timings, Unadapted
from perturbations.tta.stream import Stream

_log = logging.getLogger("perturbations")


@dataclass(frozen=True)
class EvaluationJob:
    """What the runs of a job share: the settings, the model, the clean side and the bank of training queries."""

    settings: EvaluationSettings
    backbone: LoadedBackbone
    clean: CleanSide
    bank: Gallery | None
    reader: Reader = "pyav"


def evaluate(
    job: EvaluationJob, perturbed: Perturbed, journal: Path, journals: Sequence[Path] = ()
) -> tuple[list[ResultRow], list[RankRow], list[Picture]]:
    """Run a job's scenarios; returns the rows of results, the rows of ranks, and the data of the report's pictures.

    Runs in `journal`, and in `journals` of other jobs on the same scenarios, are not repeated. Raises `ManifestError`
    where no query is left.
    """
    rows: list[ResultRow] = []
    ranks: list[RankRow] = []
    pictures: list[Picture] = []
    done = results.read_journal(journal)
    for other in journals:
        done = {**results.runs_of(other), **done}
    retrieval_of = partial(scenarios.of_scenario, perturbed=perturbed, clean=job.clean.rows)
    if _is_continual(job.settings):
        _forget_beginnings(job, (retrieval_of(scenario)[0] for scenario in job.settings["scenarios"]), done)
    chain = _Chain()
    described: dict[str, Any] = {
        "settings": canonical(results.shared_settings(job.settings)),
        "tools": canonical(results.tools()),
    }
    with ExitStack() as stack:
        asked = _Asked(stack)
        for scenario in job.settings["scenarios"]:
            task, manifest_sha256 = retrieval_of(scenario)
            _log.info("%s", result_sets.scenario_name(scenario))
            for run in _runs(job, scenario, task, asked, journal, done, chain):
                row = replace(run.row, manifest_sha256=manifest_sha256, **described)
                columns = {column.name: getattr(row, column.name) for column in fields(ScenarioColumns)}
                rows.append(row)
                pairs = zip(run.query_ids, run.ranks, strict=True)
                ranks += [RankRow(**columns, query_id=query_id, rank=rank) for query_id, rank in pairs]
                pictures.append(Picture(**columns, occurrence=run.occurrence, heatmap=run.heatmap))
    return rows, ranks, pictures


@dataclass
class _Asked:
    """The queries of the last scenario as the model's input; the next scenario may have the same ones."""

    stack: ExitStack
    sha256: str = ""
    last: queries.Asked = field(default_factory=list)

    def batches(self, job: EvaluationJob, task: Retrieval, sha256: str) -> Iterator[Batch]:
        """The queries of a scenario, whose hash is `sha256`."""
        if sha256 != self.sha256:
            self.stack.close()  # the frames of the last scenario
            folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="perturb-")))
            num_frames = job.settings["num_frames"]
            self.last = queries.of_rows(task.queries, num_frames, job.backbone, folder, job.reader)
            self.sha256 = sha256
        return queries.batches(self.last, job.settings["batch_size"], job.backbone)


_Run = tuple[str, int]
"""A method and a seed."""


@dataclass
class _Chain:
    """What a continual job carries from scenario to scenario: the key of each run's last scenario, and its state."""

    keys: dict[_Run, str] = field(default_factory=dict)
    states: dict[_Run, _State] = field(default_factory=dict)


@dataclass(frozen=True)
class _State:
    ask: Callable[[Iterator[Batch]], Iterator[Tensor]]
    counts: Counts
    timings: Timings


def _is_continual(settings: EvaluationSettings) -> bool:
    return settings["setting"].endswith(CONTINUAL)


def _continues(job: EvaluationJob, method: str) -> bool:
    """Whether a run depends on the scenarios before; a method that learns nothing has no state."""
    return _is_continual(job.settings) and methods.method(method).adapts


def _forget_beginnings(job: EvaluationJob, retrievals: Iterable[Retrieval], done: dict[str, FinishedRun]) -> None:
    """Take from `done` the continual runs whose last scenarios are missing: a journal does not hold their state."""
    keys: dict[_Run, list[str]] = defaultdict(list)
    chain = _Chain()
    for scenario, retrieval in zip(job.settings["scenarios"], retrievals, strict=True):
        for run, key in _keys(job, scenario, retrieval, chain).items():
            keys[run].append(key)
    for (method, _), of_run in keys.items():
        present = [key for key in of_run if key in done]
        if _continues(job, method) and len(present) < len(of_run):
            if present:
                _log.info("%s: continual, so it starts again with the job's first scenario", methods.title_of(method))
            for key in present:
                del done[key]


def _keys(job: EvaluationJob, scenario: ScenarioSettings, task: Retrieval, chain: _Chain) -> dict[_Run, str]:
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
    del determined_by["parameters"]  # each method's own, below
    bank_sha256 = None if job.bank is None else storage.sha256_of(job.bank.features.cpu().numpy().tobytes())
    keys = {}
    for method in job.settings["methods"]:
        bank = bank_sha256 if methods.method(method).needs_bank else None
        for seed in job.settings["seeds"]:
            of_run: dict[str, object] = {**determined_by, "method": method, "seed": seed, "bank": bank}
            of_run |= {"parameters": own} if (own := job.settings["parameters"].get(method)) else {}
            if _continues(job, method):
                of_run["after"] = chain.keys.get((method, seed))
            keys[method, seed] = digest(of_run)
    chain.keys.update(keys)
    return keys


def _sha256_of(rows: Sequence[scenarios.ScenarioRow]) -> str:
    return digest([queries.identity(row) for row in rows])


def _runs(
    job: EvaluationJob,
    scenario: ScenarioSettings,
    task: Retrieval,
    asked: _Asked,
    journal: Path,
    done: dict[str, FinishedRun],
    chain: _Chain,
) -> Iterator[FinishedRun]:
    """The runs of a scenario; runs of the journal are not repeated."""
    queries_sha256 = _sha256_of(task.queries)
    size = job.settings["batch_size"]
    gallery: Gallery | None = None
    # Clean queries that ask a perturbed gallery were encoded with the clean side, in float32.
    known_queries = task.is_perturbed("gallery") and job.settings["precision"] == "float32"
    encoded = job.clean.queries(task) if known_queries else None
    parts = [] if encoded is None else encoded.features.split(size)
    # As if each batch had been encoded by the model as it is.
    unadapted = Unadapted(
        {(seed, place): (part, []) for seed in job.settings["seeds"] for place, part in enumerate(parts)}
    )
    for (method, seed), key in _keys(job, scenario, task, chain).items():
        if key not in done:
            if gallery is None and task.is_perturbed("gallery"):
                gallery = galleries.encoded(job.backbone, task.gallery, job.settings["num_frames"], job.reader)
            gallery = gallery or job.clean.gallery(task)
            # What only compares known features needs no pixels and no tokens.
            known = encoded is not None and not methods.method(method).adapts
            batches = iter([()] * -(-len(task.queries) // size)) if known else asked.batches(job, task, queries_sha256)
            state = _state(job, (method, seed), gallery, unadapted, chain)
            similarities = _similarities(job, batches, len(task.queries), method, state)
            timings = state.timings.summary()
            done[key] = results.finished(
                job.settings,
                scenario,
                task,
                similarities,
                method=method,
                seed=seed,
                key=key,
                queries_sha256=queries_sha256,
                checkpoint_sha256=job.backbone.sha256,
                counts=state.counts,
                # Of features that were encoded before, the time is not known here.
                timings={} if known else timings,
            )
            results.append(journal, done[key])
            _log.info("%s: R@1 %.1f %%", methods.title_of(method), done[key].row.recall_at_1)
        yield done[key]


def _state(job: EvaluationJob, run: _Run, gallery: Gallery, unadapted: Unadapted, chain: _Chain) -> _State:
    """The state of a run before a scenario: new, or, in the continual setting, as the scenario before left it."""
    if run in chain.states:
        state = chain.states[run]
        state.counts.restart()
        state.timings.restart()
        return state
    method, seed = run
    counts, timings = Counts(), Timings()
    adapted = partial(
        adapt,
        job.backbone.model,
        method,
        gallery=gallery,
        direction=gallery.direction,
        steps=job.settings["steps"],
        parameters=job.settings["parameters"].get(method),
        seed=seed,
        precision=job.settings["precision"],
        bank=job.bank if methods.method(method).needs_bank else None,
        counts=counts,
        timings=timings,
        unadapted=unadapted,
    )
    if not _continues(job, method):
        return _State(adapted, counts, timings)
    chain.states[run] = _State(Stream(adapted).ask, counts, timings)
    return chain.states[run]


def _similarities(
    job: EvaluationJob, batches: Iterator[Batch], queries: int, method: str, state: _State
) -> NDArray[np.float32]:
    """The similarities of all queries of a scenario with the gallery, queries x gallery."""
    shown = logged(
        state.ask(batches), -(-queries // job.settings["batch_size"]), f"batches of {methods.title_of(method)}"
    )
    return np.concatenate([part.float().cpu().numpy() for part in shown])
