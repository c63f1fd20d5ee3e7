"""The runs of a job: every scenario with every method and seed.

A scenario sends perturbed queries, videos (v2t) or captions (t2v), to a clean gallery. Finished runs are kept in a
journal, so that an interrupted job resumes where it stopped.
"""

from __future__ import annotations

import logging
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from perturbations.base import storage
from perturbations.base.progress import logged
from perturbations.base.readers import Reader
from perturbations.base.records import canonical, digest
from perturbations.evaluation import galleries, queries, results, scenarios
from perturbations.evaluation.backbone import Backbone
from perturbations.evaluation.pictures import Picture
from perturbations.evaluation.planning import CONTINUAL, ScenarioSettings, Settings
from perturbations.evaluation.results import FinishedRun
from perturbations.evaluation.rows import RankRow, ResultRow, ScenarioColumns
from perturbations.evaluation.scenarios import Asking, Retrieval
from perturbations.manifest.kinds import CaptionRow, SourceRow
from perturbations.tta import adapt
from perturbations.tta.gallery import Gallery
from perturbations.tta.inputs import Batch
from perturbations.tta.methods import registry as methods
from perturbations.tta.recording import Counts, Timings, Unadapted
from perturbations.tta.stream import Stream

log = logging.getLogger("perturbations")


@dataclass(frozen=True)
class Job:
    """What the runs of a job share: the settings, the model, the clean gallery and the bank of training queries."""

    settings: Settings
    backbone: Backbone
    gallery: Gallery
    bank: Gallery | None
    reader: Reader = "pyav"


def evaluate(
    settings: Settings,
    backbone: Backbone,
    *,
    sources: Sequence[SourceRow],
    captions: Sequence[CaptionRow],
    asking: Asking,
    gallery: Path | None,
    bank_captions: Sequence[CaptionRow] = (),
    bank_gallery: Path | None = None,
    journal: Path,
    journals: Sequence[Path] = (),
    reader: Reader = "pyav",
) -> tuple[list[ResultRow], list[RankRow], list[Picture]]:
    """Run a job's scenarios; returns the rows of results, the rows of ranks, and the data of the report's pictures.

    Args:
        settings: of `perturbations.evaluation.planning.settings`.
        backbone: the model.
        sources, captions: the rows of the dataset's clean clips and captions.
        asking: returns a scenario's rows, from a `videos`, `mixes`, `sources` or (perturbed) captions manifest.
        gallery: t2v: a file that `galleries.write` wrote.
        bank_captions, bank_gallery: the bank of training queries: captions (t2v) or clips (v2t).
        journal: the file of finished runs.
        journals: of other jobs on the same scenarios, whose runs are not repeated.
        reader: of `open_clip`; it changes no result.

    Raises:
        ManifestError: no query is left.
    """
    direction = settings["scenarios"][0]["direction"]
    job = Job(
        settings,
        backbone,
        galleries.clean(direction, backbone, captions, sources, gallery),
        galleries.bank(direction, backbone, bank_captions, bank_gallery),
        reader,
    )
    rows: list[ResultRow] = []
    ranks: list[RankRow] = []
    pictures: list[Picture] = []
    done = results.read_journal(journal)
    for other in journals:
        done = {**results.runs_of(other), **done}

    def retrieval_of(scenario: ScenarioSettings) -> tuple[Retrieval, str]:
        candidates, manifest_sha256 = asking(scenario)
        return scenarios.of_scenario(scenario, candidates, captions, sources), manifest_sha256

    if _is_continual(settings):
        _forget_beginnings(job, (retrieval_of(scenario)[0] for scenario in settings["scenarios"]), done)
    chain = _Chain()
    for scenario in settings["scenarios"]:
        retrieval, manifest_sha256 = retrieval_of(scenario)
        log.info("%s", scenarios.name_of(scenario))
        for run in _runs(job, scenario, retrieval, journal, done, chain):
            row = replace(run.row, manifest_sha256=manifest_sha256, tools=canonical(results.tools()))
            columns = {column.name: getattr(row, column.name) for column in fields(ScenarioColumns)}
            rows.append(row)
            pairs = zip(run.query_ids, run.ranks, strict=True)
            ranks += [RankRow(**columns, query_id=query_id, rank=rank) for query_id, rank in pairs]
            pictures.append(Picture(**columns, occurrence=run.occurrence, heatmap=run.heatmap))
    return rows, ranks, pictures


Run = tuple[str, int]
"""A method and a seed."""


@dataclass
class _Chain:
    """What a continual job carries from scenario to scenario: the key of each run's last scenario, and its state."""

    keys: dict[Run, str] = field(default_factory=dict)
    states: dict[Run, _State] = field(default_factory=dict)


@dataclass(frozen=True)
class _State:
    ask: Callable[[Iterator[Batch]], Iterator[Tensor]]
    counts: Counts
    timings: Timings


def _is_continual(settings: Settings) -> bool:
    return settings["setting"].endswith(CONTINUAL)


def _continues(job: Job, method: str) -> bool:
    """Whether a run depends on the scenarios before; a method that learns nothing has no state."""
    return _is_continual(job.settings) and methods.method(method).adapts


def _forget_beginnings(job: Job, retrievals: Iterable[Retrieval], done: dict[str, FinishedRun]) -> None:
    """Take from `done` the continual runs whose last scenarios are missing: a journal does not hold their state."""
    keys: dict[Run, list[str]] = defaultdict(list)
    chain = _Chain()
    for scenario, retrieval in zip(job.settings["scenarios"], retrievals, strict=True):
        for run, key in _keys(job, scenario, retrieval, chain).items():
            keys[run].append(key)
    for (method, _), of_run in keys.items():
        present = [key for key in of_run if key in done]
        if _continues(job, method) and len(present) < len(of_run):
            if present:
                log.info("%s: continual, so it starts again with the job's first scenario", methods.title_of(method))
            for key in present:
                del done[key]


def _keys(job: Job, scenario: ScenarioSettings, retrieval: Retrieval, chain: _Chain) -> dict[Run, str]:
    """The key of each run of a scenario: a hash of all that determines its result."""
    determined_by = {
        **results.shared_settings(job.settings),
        "scenario": scenario,
        "queries": _queries_sha256(retrieval),
        "ids": retrieval.query_ids,
        "relevant": retrieval.relevant,
        "gallery": [retrieval.gallery_ids, _sum(job.gallery)],
        "checkpoint": job.backbone.sha256,
        "tools": results.tools(),
    }
    keys = {}
    for method in job.settings["methods"]:
        bank = _sum(job.bank) if methods.method(method).needs_bank else None
        for seed in job.settings["seeds"]:
            of_run: dict[str, object] = {**determined_by, "method": method, "seed": seed, "bank": bank}
            if _continues(job, method):
                of_run["after"] = chain.keys.get((method, seed))
            keys[method, seed] = digest(of_run)
    chain.keys.update(keys)
    return keys


def _queries_sha256(retrieval: Retrieval) -> str:
    return digest([queries.identity(row) for row in retrieval.rows])


def _runs(
    job: Job,
    scenario: ScenarioSettings,
    retrieval: Retrieval,
    journal: Path,
    done: dict[str, FinishedRun],
    chain: _Chain,
) -> Iterator[FinishedRun]:
    """The runs of a scenario; runs of the journal are not repeated."""
    queries_sha256 = _queries_sha256(retrieval)
    with tempfile.TemporaryDirectory(prefix="perturb-") as folder:
        asking: queries.Clips | list[str] | None = None
        unadapted = Unadapted()
        for (method, seed), key in _keys(job, scenario, retrieval, chain).items():
            if key not in done:
                if asking is None:
                    num_frames = job.settings["num_frames"]
                    asking = queries.of_rows(retrieval.rows, num_frames, job.backbone, Path(folder), job.reader)
                state = _state(job, (method, seed), unadapted, chain)
                done[key] = results.finished(
                    job.settings,
                    scenario,
                    retrieval,
                    _similarities(job, asking, method, state),
                    method=method,
                    seed=seed,
                    key=key,
                    queries_sha256=queries_sha256,
                    checkpoint_sha256=job.backbone.sha256,
                    counts=state.counts,
                    timings=state.timings,
                )
                results.append(journal, done[key])
                log.info("%s: R@1 %.1f %%", methods.title_of(method), done[key].row.r1)
            yield done[key]


def _sum(gallery: Gallery | None) -> str | None:
    return None if gallery is None else storage.sha256_of(gallery.features.cpu().numpy().tobytes())


def _state(job: Job, run: Run, unadapted: Unadapted, chain: _Chain) -> _State:
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
        gallery=job.gallery,
        direction=job.gallery.direction,
        steps=job.settings["steps"],
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


def _similarities(job: Job, asking: queries.Clips | list[str], method: str, state: _State) -> NDArray[np.float32]:
    """The similarities of all queries of a scenario with the gallery, queries x gallery."""
    size = job.settings["batch_size"]
    parts = state.ask(queries.batches(asking, size, job.backbone))
    shown = logged(parts, -(-len(asking) // size), f"batches of {methods.title_of(method)}")
    return np.concatenate([part.float().cpu().numpy() for part in shown])
