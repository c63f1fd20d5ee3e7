"""The runs of a job: every scenario with every method and seed.

A scenario sends perturbed queries, videos (v2t) or captions (t2v), to a clean gallery. Finished runs are kept in a
journal, so that an interrupted job resumes where it stopped.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perturbations.evaluation import galleries, queries, results, scenarios
from perturbations.evaluation.backbone import Backbone
from perturbations.evaluation.results import FinishedRun
from perturbations.evaluation.scenarios import Asking, Retrieval
from perturbations.manifest.kinds import CaptionRow, RankRow, ResultRow, ScenarioColumns, SourceRow
from perturbations.manifest.pictures import Picture
from perturbations.plan.evaluation import ScenarioSettings, Settings
from perturbations.progress import logged
from perturbations.system import storage
from perturbations.system.records import canonical, digest
from perturbations.system.settings import Reader
from perturbations.tta import adapt
from perturbations.tta.gallery import Gallery
from perturbations.tta.methods import registry as methods
from perturbations.tta.recording import Counts, Timings, Unadapted

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
        settings: of `perturbations.plan.evaluation.settings`.
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
    for scenario in settings["scenarios"]:
        candidates, manifest_sha256 = asking(scenario)
        asked = scenarios.of_scenario(scenario, candidates, captions, sources)
        log.info("%s", scenarios.name_of(scenario))
        for run in _runs(job, scenario, asked, journal, done):
            row = replace(run.row, manifest_sha256=manifest_sha256, tools=canonical(results.tools()))
            columns = {field.name: getattr(row, field.name) for field in fields(ScenarioColumns)}
            rows.append(row)
            pairs = zip(run.query_ids, run.ranks, strict=True)
            ranks += [RankRow(**columns, query_id=query_id, rank=rank) for query_id, rank in pairs]
            pictures.append(Picture(**columns, occurrence=run.occurrence, heatmap=run.heatmap))
    return rows, ranks, pictures


def _runs(
    job: Job, scenario: ScenarioSettings, asked: Retrieval, journal: Path, done: dict[str, FinishedRun]
) -> Iterator[FinishedRun]:
    """The runs of a scenario; runs of the journal are not repeated."""
    queries_sha256 = digest([queries.identity(row) for row in asked.rows])
    determined_by = {
        **results.shared_settings(job.settings),
        "scenario": scenario,
        "queries": queries_sha256,
        "ids": asked.query_ids,
        "relevant": asked.relevant,
        "gallery": [asked.gallery_ids, _sum(job.gallery)],
        "checkpoint": job.backbone.sha256,
        "tools": results.tools(),
    }
    with tempfile.TemporaryDirectory(prefix="perturb-") as folder:
        asking: queries.Clips | list[str] | None = None
        unadapted = Unadapted()
        for method in job.settings["methods"]:
            for seed in job.settings["seeds"]:
                bank = job.bank if methods.method(method).needs_bank else None
                key = digest({**determined_by, "method": method, "seed": seed, "bank": _sum(bank)})
                if key not in done:
                    if asking is None:
                        num_frames = job.settings["num_frames"]
                        asking = queries.of_rows(asked.rows, num_frames, job.backbone, Path(folder), job.reader)
                    counts, timings = Counts(), Timings()
                    done[key] = results.finished(
                        job.settings,
                        scenario,
                        asked,
                        _similarities(job, scenario, asking, method, seed, bank, counts, timings, unadapted),
                        method=method,
                        seed=seed,
                        key=key,
                        queries_sha256=queries_sha256,
                        checkpoint_sha256=job.backbone.sha256,
                        counts=counts,
                        timings=timings,
                    )
                    results.append(journal, done[key])
                    log.info("%s: R@1 %.1f %%", method, done[key].row.r1)
                yield done[key]


def _sum(gallery: Gallery | None) -> str | None:
    return None if gallery is None else storage.sha256_of(gallery.features.cpu().numpy().tobytes())


def _similarities(
    job: Job,
    scenario: ScenarioSettings,
    asking: queries.Clips | list[str],
    method: str,
    seed: int,
    bank: Gallery | None,
    counts: Counts,
    timings: Timings,
    unadapted: Unadapted,
) -> NDArray[np.float32]:
    """The similarities of all queries of a scenario with the gallery, queries x gallery."""
    settings = job.settings
    size = settings["batch_size"]
    parts = adapt(
        job.backbone.model,
        method,
        queries.batches(asking, size, job.backbone),
        job.gallery,
        direction=scenario["direction"],
        steps=settings["steps"],
        seed=seed,
        precision=settings["precision"],
        bank=bank,
        counts=counts,
        timings=timings,
        unadapted=unadapted,
    )
    shown = logged(parts, -(-len(asking) // size), f"batches of {method}")
    return np.concatenate([part.float().cpu().numpy() for part in shown])
