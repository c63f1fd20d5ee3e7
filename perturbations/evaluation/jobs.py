"""The jobs of rules about evaluations: of their models, of scenarios, and of results.

`device` and `reader` say where and with what a job runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perturbations.base.errors import ManifestError
from perturbations.base.project import need_models
from perturbations.base.readers import Reader
from perturbations.base.records import canonical
from perturbations.cli.common import provenance
from perturbations.evaluation.layout import ranks_of
from perturbations.manifest import layout

if TYPE_CHECKING:
    from perturbations.evaluation.backbone import LoadedBackbone
    from perturbations.evaluation.planning import EvaluationSettings, Modality, ModelSettings, ScenarioSettings
    from perturbations.evaluation.scenarios import CandidateRow, Clean


def gallery(
    *,
    settings: ModelSettings,
    pretrained: str,
    device: str,
    reader: Reader,
    sources: Path,
    output: Path,
    checkpoint: str | None = None,
    captions: Path | None = None,
) -> None:
    """Encode the clean clips of a dataset, or its `captions`."""
    need_models()
    from perturbations.evaluation import galleries

    loaded = _loaded(settings, pretrained, checkpoint, device)
    modality: Modality = "clips" if captions is None else "captions"
    galleries.write(output, loaded, _clean(sources, captions), modality, settings["num_frames"], reader)


def _loaded(settings: ModelSettings, pretrained: str, checkpoint: str | None, device: str) -> LoadedBackbone:
    """The model of a job."""
    from perturbations.evaluation import backbone

    return backbone.load(settings, pretrained, None if checkpoint is None else Path(checkpoint), device)


def _clean(sources: Path, captions: Path | None, rejected: int = 0) -> Clean:
    """The rows of a dataset as it is."""
    from perturbations.evaluation.scenarios import Clean
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import CAPTIONS, SOURCES

    rows = sets.read_part(sources, SOURCES)
    if not any(row.status == "complete" for row in rows):
        raise ManifestError(f"{sources} has no complete clip: all {len(rows)} are quarantined or missing")
    return Clean(rows, [] if captions is None else sets.read_part(captions, CAPTIONS), rejected)


def check_model(
    *,
    settings: ModelSettings,
    pretrained: str,
    device: str,
    reader: Reader,
    output: Path,
    checkpoint: str | None = None,
) -> None:
    """Check that the parts of a model fit each other."""
    need_models()
    from perturbations.base import storage
    from perturbations.evaluation import backbone

    checked = backbone.check(_loaded(settings, pretrained, checkpoint, device))
    storage.write_text(output, json.dumps(checked, indent=2) + "\n")


def evaluate(
    *,
    settings: EvaluationSettings,
    pretrained: str,
    rejected: int,
    device: str,
    reader: Reader,
    places: Mapping[str, str],
    sources: Path,
    captions: Path,
    results: Path,
    ranks: Path,
    checkpoint: str | None = None,
) -> None:
    """Run some scenarios of an evaluation.

    `places` are those of `parts` and `text_parts` (the folders of the parts that hold perturbed clips and captions),
    `shards` and `text_shards` (of their shards' lists), `mixes` (of the mixed manifests), `encoded_clips` and
    `encoded_captions` (the clean ones, encoded); and of methods with a bank, `bank` and `gallery_bank`: encoded clips
    or captions.
    """
    need_models()
    from perturbations.base import storage
    from perturbations.base.records import digest
    from perturbations.evaluation import galleries, planning, runner, scenarios
    from perturbations.evaluation.keys import LISTED, order_of
    from perturbations.evaluation.results import other_journals
    from perturbations.evaluation.rows import RANKS, RESULTS
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import VIDEOS
    from perturbations.plan import listed, mixes

    at = {name: Path(place) for name, place in places.items()}
    folders = {"clips": at.get("parts"), "captions": at.get("text_parts")}
    lists = {"clips": at.get("shards"), "captions": at.get("text_shards")}
    shards = {name: [] if folder is None else listed.shards(folder) for name, folder in lists.items()}

    def perturbed(scenario: ScenarioSettings, modality: Modality) -> tuple[list[CandidateRow], str]:
        if scenario["mix"] is not None and planning.is_drawn(scenario["mix"], seed):
            videos = at["mixes"] / layout.name("videos")
            batches = scenarios.batches_of_clips(clean, seed, settings["batch_size"])
            draw_of = "" if order_of(seed) == LISTED else order_of(seed)
            own_mix = mixes.drawn(scenario["mix"], read_videos(videos), clean.sources, draw_of, batches)
            return [*own_mix], storage.sha256(videos)
        if scenario["mix"] is not None:
            parts = [at["mixes"] / layout.name(scenario["mix"])]
        else:
            name, severity = scenario["perturbation"], scenario["severity"]
            if modality == "captions" and scenario["text_perturbation"] is not None:
                name, severity = scenario["text_perturbation"], scenario["text_severity"]
            folder = folders[modality]
            assert folder is not None
            folder = folder / name / str(severity)
            parts = [folder / layout.name("video_part", shard=shard) for shard in shards[modality]]
        rows = [row for part in parts for row in sets.read_part(part, files.kind_of(part))]
        return rows, digest(list(map(storage.sha256, parts)))

    (seed,) = settings["seeds"]
    read_videos = cache(partial(sets.read_part, kind=VIDEOS))  # once for all mixed scenarios of the job
    journal = layout.journal_of(results)
    clean = _clean(sources, captions, rejected)
    loaded = _loaded(settings, pretrained, checkpoint, device)
    encoded: dict[Modality, Path | None] = {
        "clips": at.get("encoded_clips"),
        "captions": at.get("encoded_captions"),
    }
    features = {name: galleries.read(path, loaded, name) for name, path in encoded.items() if path is not None}
    asks: Modality = "clips" if settings["scenarios"][0]["direction"] == "v2t" else "captions"
    answers: Modality = "captions" if asks == "clips" else "clips"
    job = runner.EvaluationJob(
        settings,
        loaded,
        clean,
        features,
        galleries.read(at["bank"], loaded, asks) if "bank" in at else None,
        galleries.read(at["gallery_bank"], loaded, answers) if "gallery_bank" in at else None,
        reader,
    )
    rows, of_ranks = runner.evaluate(job, perturbed, journal, other_journals(journal))
    files.write(results, RESULTS, rows)
    files.write(ranks, RANKS, of_ranks)


def results(
    *,
    parts: list[Path],
    results: Path,
    ranks: Path,
    skipped: list[Any] | None = None,
    protocol: str | None = None,
) -> None:
    """Merge the scenarios of an evaluation.

    `skipped` are the perturbations of captions that cannot be made, `protocol` is the published one that the
    configuration follows.
    """
    from perturbations.evaluation import result_sets
    from perturbations.evaluation.rows import RANKS, RESULTS
    from perturbations.manifest import files, sets
    from perturbations.manifest.skipped import columns, parse

    about: dict[str, object] = {sets.SET: columns(parse(canonical(skipped or [])))}
    about = {**provenance(results), **about}
    of_ranks = [ranks_of(path) for path in parts]
    rows = [row for part in parts for row in sets.read_part(part, RESULTS)]
    rows = [replace(row, protocol=protocol) for row in rows]
    result_sets.check(rows)
    rows = result_sets.with_clean(rows, (row for path in of_ranks for row in sets.read_part(path, RANKS)))
    files.write(results, RESULTS, rows, about)
    sets.check_parts(of_ranks, RANKS)
    files.concatenate(of_ranks, ranks, RANKS, about)
