"""The commands of rules about evaluations: of their models, of jobs, and of results."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base import job_environment
from perturbations.base.errors import ManifestError
from perturbations.cli.arguments import Commands, add_command, add_model
from perturbations.cli.common import need_models, provenance
from perturbations.evaluation.layout import ranks_of
from perturbations.manifest import layout

if TYPE_CHECKING:
    from perturbations.evaluation.backbone import LoadedBackbone
    from perturbations.evaluation.planning import Modality, ScenarioSettings
    from perturbations.evaluation.scenarios import CandidateRow, Clean


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "encode-gallery", _encode_gallery, "encode a dataset's clean clips or captions")
    add_model(parser)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--captions", type=Path, help="encode these captions; default: the clips")
    parser.add_argument("--output", type=Path, required=True, help="a .safetensors")

    parser = add_command(commands, "check-model", _check_model, "check that a model's parts fit each other")
    add_model(parser)
    parser.add_argument("--output", type=Path, required=True, help="what was checked, .json")

    parser = add_command(commands, "evaluate", _evaluate, "run some scenarios of an evaluation")
    add_model(parser)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--rejected", type=int, default=0, help="how many listed captions are not usable")
    parser.add_argument("--parts", type=Path, help="the folder of the parts that hold perturbed clips")
    parser.add_argument("--shards", type=Path, help="the folder of their shards' lists")
    parser.add_argument("--text-parts", type=Path, help="the folder of the parts that hold perturbed captions")
    parser.add_argument("--text-shards", type=Path, help="the folder of their shards' lists")
    parser.add_argument("--mixes", type=Path, help="the folder of the mixed manifests")
    parser.add_argument("--encoded-clips", type=Path, help="the clean clips, encoded")
    parser.add_argument("--encoded-captions", type=Path, help="the clean captions, encoded")
    parser.add_argument("--bank", type=Path, help="methods with a bank: its encoded clips (v2t) or captions (t2v)")
    parser.add_argument(
        "--gallery-bank", type=Path, help="methods with one of gallery items: its encoded captions (v2t) or clips (t2v)"
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ranks", type=Path, required=True)

    parser = add_command(commands, "merge-results", _merge_results, "merge the scenarios of an evaluation")
    parser.add_argument("--skipped", default="[]", help="the perturbations of captions that cannot be made, JSON")
    parser.add_argument("--protocol", help="the published protocol that the configuration follows")
    parser.add_argument("--parts", nargs="+", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ranks", type=Path, required=True)


def _encode_gallery(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.evaluation import galleries

    settings = json.loads(options.settings)
    loaded = _loaded(options)
    clean = _clean(options.sources, options.captions)
    modality: Modality = "clips" if options.captions is None else "captions"
    galleries.write(options.output, loaded, clean, modality, settings["num_frames"], job_environment.current().reader)
    return 0


def _loaded(options: argparse.Namespace) -> LoadedBackbone:
    """The model of a job, on the device that the run's environment names for it."""
    from perturbations.evaluation import backbone

    device = job_environment.current().device(options.model)
    return backbone.load(json.loads(options.settings), options.pretrained, options.checkpoint, device)


def _clean(sources: Path, captions: Path | None, rejected: int = 0) -> Clean:
    """The rows of a dataset as it is."""
    from perturbations.evaluation.scenarios import Clean
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import CAPTIONS, SOURCES

    rows = sets.read_part(sources, SOURCES)
    if not any(row.status == "complete" for row in rows):
        raise ManifestError(f"{sources} has no complete clip: all {len(rows)} are quarantined or missing")
    return Clean(rows, [] if captions is None else sets.read_part(captions, CAPTIONS), rejected)


def _check_model(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.base import storage
    from perturbations.evaluation import backbone

    storage.write_text(options.output, json.dumps(backbone.check(_loaded(options)), indent=2) + "\n")
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.base import storage
    from perturbations.base.records import digest
    from perturbations.evaluation import galleries, planning, results, runner, scenarios
    from perturbations.evaluation.keys import LISTED, order_of
    from perturbations.evaluation.rows import RANKS, RESULTS
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import VIDEOS
    from perturbations.plan import listed, mixes

    folders = {"clips": options.parts, "captions": options.text_parts}
    lists = {"clips": options.shards, "captions": options.text_shards}
    shards = {name: [] if folder is None else listed.shards(folder) for name, folder in lists.items()}

    def perturbed(scenario: ScenarioSettings, modality: Modality) -> tuple[list[CandidateRow], str]:
        if scenario["mix"] is not None and planning.is_drawn(scenario["mix"], seed):
            videos = options.mixes / layout.name("videos")
            batches = scenarios.batches_of_clips(clean, seed, settings["batch_size"])
            draw_of = "" if order_of(seed) == LISTED else order_of(seed)
            own_mix = mixes.drawn(scenario["mix"], read_videos(videos), clean.sources, draw_of, batches)
            return [*own_mix], storage.sha256(videos)
        if scenario["mix"] is not None:
            parts = [options.mixes / layout.name(scenario["mix"])]
        else:
            name, severity = scenario["perturbation"], scenario["severity"]
            if modality == "captions" and scenario["text_perturbation"] is not None:
                name, severity = scenario["text_perturbation"], scenario["text_severity"]
            folder = folders[modality] / name / str(severity)
            parts = [folder / layout.name("video_part", shard=shard) for shard in shards[modality]]
        rows = [row for part in parts for row in sets.read_part(part, files.kind_of(part))]
        return rows, digest(list(map(storage.sha256, parts)))

    settings = json.loads(options.settings)
    (seed,) = settings["seeds"]
    read_videos = cache(partial(sets.read_part, kind=VIDEOS))  # once for all mixed scenarios of the job
    journal = layout.journal_of(options.output)
    clean = _clean(options.sources, options.captions, options.rejected)
    loaded = _loaded(options)
    encoded: dict[Modality, Path | None] = {"clips": options.encoded_clips, "captions": options.encoded_captions}
    features = {name: galleries.read(path, loaded, name) for name, path in encoded.items() if path is not None}
    asks: Modality = "clips" if settings["scenarios"][0]["direction"] == "v2t" else "captions"
    answers: Modality = "captions" if asks == "clips" else "clips"
    job = runner.EvaluationJob(
        settings,
        loaded,
        clean,
        features,
        None if options.bank is None else galleries.read(options.bank, loaded, asks),
        None if options.gallery_bank is None else galleries.read(options.gallery_bank, loaded, answers),
        job_environment.current().reader,
    )
    rows, ranks = runner.evaluate(job, perturbed, journal, results.other_journals(journal))
    files.write(options.output, RESULTS, rows)
    files.write(options.ranks, RANKS, ranks)
    return 0


def _merge_results(options: argparse.Namespace) -> int:
    from perturbations.evaluation import result_sets as results
    from perturbations.evaluation.rows import RANKS, RESULTS
    from perturbations.manifest import files, sets, skipped

    about: dict[str, object] = {sets.SET: skipped.columns(skipped.parse(options.skipped))}
    about = {**provenance(options.output), **about}
    ranks = [ranks_of(path) for path in options.parts]
    rows = [row for part in options.parts for row in sets.read_part(part, RESULTS)]
    rows = [replace(row, protocol=options.protocol) for row in rows]
    results.check(rows)
    rows = results.with_clean(rows, (row for path in ranks for row in sets.read_part(path, RANKS)))
    files.write(options.output, RESULTS, rows, about)
    sets.check_parts(ranks, RANKS)
    files.concatenate(ranks, options.ranks, RANKS, about)
    return 0
