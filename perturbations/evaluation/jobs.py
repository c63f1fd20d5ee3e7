"""The commands of rules about evaluations: of their models, of jobs, and of results."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base.errors import ManifestError
from perturbations.cli.arguments import Commands, add_command, add_model
from perturbations.cli.common import need_models, provenance

if TYPE_CHECKING:
    from perturbations.evaluation.scenarios import Query
    from perturbations.manifest.kinds import SourceRow


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "train-encoder", _train_encoder, "train the small dual encoder on the demo's scenes")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True, help="the model's folder")

    parser = add_command(
        commands,
        "encode-gallery",
        _encode_gallery,
        "encode a dataset's clean clips, the gallery for caption queries",
    )
    add_model(parser)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="a .safetensors")

    parser = add_command(commands, "check-model", _check_model, "check that a model's parts fit each other")
    add_model(parser)
    parser.add_argument("--output", type=Path, required=True, help="what was checked, .json")

    parser = add_command(commands, "evaluate", _evaluate, "run some scenarios of an evaluation")
    add_model(parser)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument(
        "--parts", type=Path, help="the folder of the parts that hold the perturbed queries; default: clean queries"
    )
    parser.add_argument("--shards", type=Path, help="the folder of the shards' lists")
    parser.add_argument("--mixes", type=Path, help="the folder of the mixed manifests")
    parser.add_argument("--gallery", type=Path, help="t2v: the encoded clips")
    parser.add_argument("--bank-captions", type=Path, help="methods with a bank, t2v: its captions")
    parser.add_argument("--bank-gallery", type=Path, help="methods with a bank, v2t: its encoded clips")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ranks", type=Path, required=True)
    parser.add_argument("--pictures", type=Path, required=True, help="the data of the report's pictures, .json")

    parser = add_command(commands, "merge-results", _merge_results, "merge the scenarios of an evaluation")
    parser.add_argument("--skipped", default="[]", help="the perturbations of captions that cannot be made, JSON")
    parser.add_argument("--parts", nargs="+", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ranks", type=Path, required=True)


def _train_encoder(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.evaluation import demo_encoder

    demo_encoder.train(options.output, seed=options.seed)
    return 0


def _encode_gallery(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.evaluation import backbone, galleries
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import SOURCES

    settings = json.loads(options.settings)
    loaded = backbone.load(settings, options.pretrained, options.checkpoint, options.device)
    rows = sets.read_part(options.sources, SOURCES)
    _check_any_complete(options.sources, rows)
    galleries.write(options.output, loaded, rows, settings["num_frames"], options.reader)
    return 0


def _check_any_complete(path: Path, rows: Sequence[SourceRow]) -> None:
    """Raise `ManifestError` where there is no clip to retrieve."""
    if not any(row.status == "complete" for row in rows):
        raise ManifestError(f"{path} has no complete clip: all {len(rows)} are quarantined or missing, nothing to ask")


def _check_model(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.base import storage
    from perturbations.evaluation import backbone

    loaded = backbone.load(json.loads(options.settings), options.pretrained, options.checkpoint, options.device)
    storage.write_text(options.output, json.dumps(backbone.check(loaded), indent=2) + "\n")
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.base import storage
    from perturbations.base.records import digest
    from perturbations.evaluation import backbone, pictures, results, runner
    from perturbations.evaluation.planning import ScenarioSettings
    from perturbations.evaluation.rows import RANKS, RESULTS
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import CAPTIONS, SOURCES
    from perturbations.plan import listed

    shards = [] if options.shards is None else listed.shards(options.shards)

    def asking(scenario: ScenarioSettings) -> tuple[list[Query], str]:
        if scenario["mix"] is not None:
            parts = [options.mixes / f"{scenario['mix']}.parquet"]
        elif options.parts is not None:
            folder = options.parts / scenario["perturbation"] / str(scenario["severity"])
            parts = [folder / f"{shard}.parquet" for shard in shards]
        else:
            parts = [options.sources if scenario["direction"] == "v2t" else options.captions]
        rows = [row for part in parts for row in sets.read_part(part, files.kind_of(part))]
        return rows, digest(list(map(storage.sha256, parts)))

    settings = json.loads(options.settings)
    journal = options.output.with_suffix(".jsonl")
    sources = sets.read_part(options.sources, SOURCES)
    _check_any_complete(options.sources, sources)
    rows, ranks, drawn = runner.evaluate(
        settings,
        backbone.load(settings, options.pretrained, options.checkpoint, options.device),
        sources=sources,
        captions=sets.read_part(options.captions, CAPTIONS),
        asking=asking,
        gallery=options.gallery,
        bank_captions=sets.read_part(options.bank_captions, CAPTIONS) if options.bank_captions else (),
        bank_gallery=options.bank_gallery,
        journal=journal,
        journals=results.other_journals(journal),
        reader=options.reader,
    )
    files.write(options.output, RESULTS, rows)
    files.write(options.ranks, RANKS, ranks)
    pictures.write(options.pictures, drawn)
    return 0


def _merge_results(options: argparse.Namespace) -> int:
    from perturbations.evaluation import result_sets as results
    from perturbations.evaluation.rows import RANKS, RESULTS
    from perturbations.manifest import files, sets, skipped

    about = {**provenance(options.output), "set": {"skipped": skipped.columns(skipped.parse(options.skipped))}}
    rows = [row for part in options.parts for row in sets.read_part(part, RESULTS)]
    results.check(rows)
    files.write(options.output, RESULTS, rows, about)
    ranks = [path.with_suffix(".ranks.parquet") for path in options.parts]
    sets.check_parts(ranks, RANKS)
    files.concatenate(ranks, options.ranks, RANKS, about)
    return 0
