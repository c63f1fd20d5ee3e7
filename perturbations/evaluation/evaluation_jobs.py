"""The jobs of rules about evaluations: of their models, of runs, and of results.

`device` and `reader` say where a job runs and what decodes its clips.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.base.project import need_models
from perturbations.base.readers import Reader
from perturbations.base.records import digest
from perturbations.corpus.jobs.job_metadata import provenance
from perturbations.evaluation.result_rows import ranks_of
from perturbations.manifest import manifest_paths

if TYPE_CHECKING:
    from perturbations.evaluation.models.encoder_loading import LoadedBackbone
    from perturbations.evaluation.page.page_tables import Section
    from perturbations.evaluation.plan.planned_runs import Modality
    from perturbations.evaluation.result_rows import Run
    from perturbations.evaluation.run.retrieval_of_scenario import CandidateRow, Clean


def gallery(
    *,
    model: Mapping[str, Any],
    device: str,
    reader: Reader,
    sources: Path,
    output: Path,
    captions: Path | None = None,
) -> None:
    """Encode the clean clips of a dataset, their middle frames, or its `captions`; the name of `output` says which."""
    need_models()
    from perturbations.evaluation.run import query_encoding

    loaded = load_model(model, device)
    num_frames = 1 if output.stem == "middle" else model["num_frames"]
    modality: Modality = "clips" if captions is None else "captions"
    query_encoding.write(output, loaded, clean_rows(sources, captions), modality, num_frames, reader)


def load_model(model: Mapping[str, Any], device: str) -> LoadedBackbone:
    """The model of a job, from its settings (`evaluation_rules.loaded_model`)."""
    from perturbations.evaluation.models import encoder_loading

    return encoder_loading.load(**{name: value for name, value in model.items() if name != "files"}, device=device)


def clean_rows(sources: Path, captions: Path | None, rejected: int = 0) -> Clean:
    """The clean rows of a dataset."""
    from perturbations.evaluation.run.retrieval_of_scenario import Clean
    from perturbations.manifest import files
    from perturbations.manifest.rows import CAPTIONS, SOURCES

    rows = files.read_part(sources, SOURCES)
    if not any(row.status == "complete" for row in rows):
        raise ManifestError(f"{sources} has no complete clip: all {len(rows)} are quarantined or missing")
    return Clean(rows, [] if captions is None else files.read_part(captions, CAPTIONS), rejected)


def check_model(*, model: Mapping[str, Any], device: str, reader: Reader, output: Path) -> None:
    """Check that the parts of a model fit each other."""
    need_models()
    from perturbations.evaluation.models import encoder_loading

    checked = {**encoder_loading.check(load_model(model, device)), "files": model.get("files")}
    storage.write_text(output, json.dumps(checked, indent=2) + "\n")


def evaluate(
    *,
    runs: Mapping[str, Any],
    model: Mapping[str, Any],
    device: str,
    reader: Reader,
    sources: Path,
    results: Path,
    ranks: Path,
    captions: Path | None = None,
    banks: Mapping[str, str] | None = None,
    rejected: int = 0,
    top_k: int | None = None,
    ways: Mapping[str, Any] | None = None,
) -> None:
    """Make some runs of an evaluation: those that `result_rows.as_settings` described.

    `banks` are the datasets of banks, by name; `ways` are the ways to use the queries of composed retrieval.
    """
    need_models()
    from perturbations.composed import manifests
    from perturbations.evaluation.composed import composed_jobs
    from perturbations.evaluation.features.feature_reading import StoredFeatures
    from perturbations.evaluation.plan import composed_runs, planned_runs
    from perturbations.evaluation.result_rows import RANKS, RESULTS, from_settings
    from perturbations.evaluation.run import query_encoding, retrieval_of_scenario, runner
    from perturbations.manifest import files

    planned = from_settings(runs)
    clean = clean_rows(sources, captions, rejected)
    loaded = load_model(model, device)
    settings = {name: model[name] for name in ("revision", "files") if name in model}
    first = planned[0]
    held = {
        name: query_encoding.read(
            Path(manifest_paths.at("encoded", dataset=dataset, model=first.model_key, modality=modality)),
            loaded,
            modality,
        )
        for name, (dataset, modality) in planned_runs.features_of(planned, banks or {}).items()
    }
    job: runner.EvaluationJob | composed_jobs.ComposedJob
    if ways is None:
        job = runner.EvaluationJob(
            loaded,
            clean,
            {name: held[name] for name in planned_runs.MODALITIES if name in held},
            _perturbed_rows(clean),
            banks={name: held[name] for name in banks or {}},
            settings=settings if top_k is None else {**settings, "top_k": top_k},
            top_k=top_k,
            reader=reader,
        )
    else:
        (of_clips,) = held.values()
        ids = tuple(map(retrieval_of_scenario.id_of, retrieval_of_scenario.usable(clean.sources, clean, "clips")))
        job = composed_jobs.ComposedJob(
            loaded,
            manifests.read(Path(manifest_paths.folder("composed_queries", dataset=first.dataset))),
            StoredFeatures(Path(), ids, query_encoding.vectors(of_clips)),
            ways,
            {
                **settings,
                **json.loads(first.parameters or "{}"),
                "model": first.model,
                "num_frames": first.num_frames,
            },
            reader,
            digest([storage.sha256(Path(path)) for path in composed_runs.split_files(first.dataset)]),
        )
    rows, of_ranks = job.evaluate(planned, manifest_paths.journal_of(results))
    files.write(results, RESULTS, rows)
    files.write(ranks, RANKS, of_ranks)


def _perturbed_rows(clean: Clean) -> Callable[[Run, Modality], tuple[list[CandidateRow], str]]:
    """A function that reads the perturbed rows of a run: from the parts of its scenario, or from a mix."""
    from perturbations.corpus.captions import mixes
    from perturbations.evaluation.plan import planned_runs
    from perturbations.evaluation.result_rows import LISTED, order_of
    from perturbations.evaluation.run import retrieval_of_scenario
    from perturbations.manifest import files
    from perturbations.manifest.rows import VIDEOS

    read_videos = cache(partial(files.read_part, kind=VIDEOS))  # once for all mixed scenarios of a suite

    def perturbed(run: Run, modality: Modality) -> tuple[list[CandidateRow], str]:
        names = {"dataset": run.dataset, "suite": run.suite}
        if run.mix is not None and planned_runs.is_drawn(run.mix, run.seed):
            videos = Path(manifest_paths.at("videos", **names))
            batches = retrieval_of_scenario.batches_of_clips(clean, run.seed, run.batch_size or 1)
            draw_of = "" if order_of(run.seed) == LISTED else order_of(run.seed)
            drawn = mixes.drawn(run.mix, read_videos(videos), clean.sources, draw_of, batches)
            return [*drawn], storage.sha256(videos)
        if run.mix is not None:
            parts = [Path(manifest_paths.at(run.mix, **names))]
        else:
            half = planned_runs.halves(run)[planned_runs.MODALITIES.index(modality)]
            assert half is not None
            parts = retrieval_of_scenario.parts_of(run.dataset, modality, *half)
        rows = [row for part in parts for row in files.read_part(part, files.kind_of(part))]
        return rows, digest(list(map(storage.sha256, parts)))

    return perturbed


def results(
    *,
    parts: list[Path],
    results: Path,
    ranks: Path,
    skipped: list[Any] | None = None,
    protocol: str | None = None,
) -> None:
    """Merge the runs of an evaluation.

    `skipped` are the perturbations of captions that cannot be made, `protocol` is the published one that the
    configuration follows.
    """
    from perturbations.evaluation import result_sets
    from perturbations.evaluation.result_rows import RANKS, RESULTS
    from perturbations.manifest import files, sets
    from perturbations.manifest.skipped import SKIPPED

    about: dict[str, object] = {**provenance(results), sets.SET: {SKIPPED: skipped or []}}
    of_ranks = [ranks_of(path) for path in parts]
    rows = [replace(row, protocol=protocol) for part in parts for row in files.read_part(part, RESULTS)]
    result_sets.check(rows)
    rows = result_sets.with_clean(rows, (row for path in of_ranks for row in files.read_part(path, RANKS)))
    content = sorted([row.recipe_id, row.queries, row.recall_at_1, row.recall_at_10] for row in rows)
    about |= sets.together([results.name, ranks.name], content)
    files.write(results, RESULTS, rows, about)
    files.concatenate(of_ranks, ranks, RANKS, about)


def results_page(
    *,
    datasets: Sequence[str],
    results: Sequence[Path],
    ranks: Sequence[Path],
    page: Path,
    answers: Sequence[Section] = (),
) -> None:
    """Write the page of results, with what the corpora of `datasets` left out; its tables are written beside it.

    `answers` are the sections of answers to questions.
    """
    from perturbations.evaluation.page import evaluation_page as pages

    def of(kind: str) -> list[Path]:
        return [path for name in datasets for path in sorted(Path().glob(manifest_paths.any_of(kind, dataset=name)))]

    pages.write(
        page,
        results=results,
        ranks=ranks,
        statistics=of("text_statistics"),
        quarantine=[*of("captions_quarantine"), *of("quarantine")],
        queries=of("composed_queries"),
        answers=answers,
    )
