"""The command `perturb`: what a person types, and one subcommand for each rule of the workflow."""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

# One thread a job; numpy's libraries read these when they load.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from perturbations import __version__
from perturbations.errors import ConfigError, ManifestError, MediaError, PerturbationError
from perturbations.exporting.records import Request
from perturbations.exports import registry as exports
from perturbations.system import limits, shown

if TYPE_CHECKING:
    from perturbations.manifest.kinds import AnalysisRow, CompleteSource
    from perturbations.plan.listed import ListedClip
    from perturbations.verify.run import Options

log = logging.getLogger("perturbations")

Command = Callable[[argparse.Namespace], int]

_MOST_SHOWN = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; 0 when it did its work, 1 when it could not, 2 when it was called wrongly."""
    options = _parser().parse_args(arguments)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(shown.LogFormatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    command: Command = options.command
    try:
        limits.use(limits.parse(options.limits))
        return command(options)
    except PerturbationError as error:
        print(f"perturb: {shown.lines(str(error))}", file=sys.stderr)
        return 1
    except MemoryError:
        print("perturb: memory ran out: give the job more (mem_mb); finished items are kept", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of a list went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"perturb: {shown.lines(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("perturb: interrupted; finished items are kept", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="perturb", description="Perturb videos the way the robustness benchmarks for video-text retrieval do."
    )
    parser.add_argument("--version", action="version", version=f"perturb {__version__}")
    given = os.environ.get(limits.ENVIRONMENT, "{}")
    parser.add_argument(
        "--limits", default=given, metavar="JSON", help="what one file may ask for: `limits` of config.yaml"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_people_commands(commands)
    _add_rule_commands(commands)
    return parser


def _add(commands: Any, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=command)
    return parser


def _add_people_commands(commands: Any) -> None:
    parser = _add(commands, "list", _list, "list the perturbations, one a line")
    parser.add_argument("suite", nargs="?", help="only this suite")

    parser = _add(commands, "show", _show, "show one perturbation: its numbers, its source, its kernel")
    parser.add_argument("perturbation", metavar="SUITE/NAME")

    parser = _add(commands, "video", _video, "perturb one video file")
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path, help="an .mp4")
    parser.add_argument("-p", "--perturbation", required=True, metavar="SUITE/NAME")
    parser.add_argument("-s", "--severity", required=True, type=int)
    _add_realization(parser)
    parser.add_argument("--profile", default="high", choices=("lossless", "high", "compatible"))

    parser = _add(commands, "verify", _verify, "check that every row of manifests is still true")
    parser.add_argument(
        "paths", nargs="*", type=Path, default=[Path("manifests")], help="manifests, or folders of them"
    )
    parser.add_argument("-j", "--jobs", type=_positive, default=1, help="how many rows at once")
    parser.add_argument("--fast", action="store_true", help="look at hashes and membership only; make nothing again")
    parser.add_argument("--repair", action="store_true", help="mend files and rows that can be made again")
    _add_stall_limit(parser)

    parser = _add(commands, "retry", _retry, "have the next run ask quarantined items again")
    parser.add_argument("--dataset", nargs="+", default=[], help="only of these datasets")
    parser.add_argument("--suite", nargs="+", default=[], help="only of these suites, and of what they are made from")
    parser.add_argument("--item", nargs="+", default=[], help="only these items (of whole videos: the videos' ids)")
    parser.add_argument("--stage", nargs="+", default=[], choices=("source", "analysis", "video"), help="only these")
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say what would be asked again")

    parser = _add(commands, "export", _export, "write a corpus in another program's layout")
    parser.add_argument("manifest", type=Path, help="a manifest of sources, videos or texts (perturbed captions)")
    formats = exports.exports()
    parser.epilog = " ".join(export.describe() for export in formats.values())
    parser.add_argument("--format", choices=formats, required=True, help="whose layout: see below")
    parser.add_argument("--order", type=Path, help="captions: the test split's own file, which says in which order")
    parser.add_argument("--num-frames", type=_positive, default=12)
    parser.add_argument("--size", type=_positive, default=224, help="side of the pictures, in pixels; default: 224")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder")
    _add_stall_limit(parser)

    parser = _add(commands, "preview", _preview, "draw a contact sheet of one clip under perturbations and severities")
    parser.add_argument("input", type=Path, help="a video file, a `videos` or a `main_object` manifest")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the PNG to write")
    parser.add_argument("-p", "--perturbations", nargs="+", metavar="SUITE/NAME", help="default: all")
    parser.add_argument("-s", "--severities", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--item", help="which item of the manifest; default: the first complete one")
    _add_realization(parser)

    parser = _add(
        commands, "catalogue-texts", _catalogue_texts, "print the catalogue of caption perturbations, Markdown"
    )
    parser.add_argument("-o", "--output", type=Path, help="write it there instead")

    parser = _add(commands, "catalogue", _catalogue, "bring docs/catalogue up to date with the declarations")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where something is not up to date")
    parser.add_argument("--output", type=Path, default=Path("docs", "catalogue"), help="folder of the catalogue")


def _add_realization(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dataset", default="", help="part of the realization's key, as in a corpus")
    parser.add_argument("--item-id", help="part of the realization's key; default: the file's name")
    parser.add_argument("--variant", default="released", choices=("released", "paper"))
    parser.add_argument(
        "--donors", nargs="+", type=Path, default=[], metavar="VIDEO", help="what event_insertion may take a segment of"
    )


def _add_stall_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stall-limit", type=float, default=120.0, metavar="SECONDS", help="give up on a clip that is silent so long"
    )


def _add_rule_commands(commands: Any) -> None:
    parser = _add(commands, "sources", _sources, "(rule) decode and describe the clips of a shard")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--listed", type=Path, required=True, help="the shard's list file")
    parser.add_argument("--demo", action="store_true", help="draw the demo's clips first")
    parser.add_argument("--output", type=Path, required=True)
    _add_stall_limit(parser)

    parser = _add(commands, "videos", _videos, "(rule) put the clips of a shard through one recipe")
    parser.add_argument("--recipe", required=True, help="the recipe's JSON")
    parser.add_argument("--sources", type=Path, required=True, help="the shard's part of the sources manifest")
    parser.add_argument("--analysis", type=Path, help="the shard's part of the analysis that the recipe needs")
    parser.add_argument("--donors", type=Path, help="the clips that segments may be taken from")
    parser.add_argument(
        "--whole", nargs="+", type=Path, default=[], help="parts about the videos that clips are cut from"
    )
    parser.add_argument("--corpus", type=Path, required=True, help="folder of the files to make")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--no-check", action="store_true", help="do not decode what was stored (for benchmarks)")
    _add_stall_limit(parser)

    parser = _add(commands, "analyse", _analyse, "(rule) analyse the clips of a shard")
    parser.add_argument("--recipe", required=True, help="the analysis's JSON")
    parser.add_argument("--sources", type=Path, required=True, help="the shard's part of the sources manifest")
    parser.add_argument("--captions", type=Path, help="the shard's main objects, whose captions are embedded")
    parser.add_argument("--folder", type=Path, required=True, help="of the files that the analysis keeps")
    parser.add_argument("--output", type=Path, required=True)
    _add_stall_limit(parser)

    parser = _add(commands, "captions", _captions, "(rule) write the captions and qrels manifests")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--qrels", type=Path, required=True)

    parser = _add(commands, "texts", _texts, "(rule) put the captions of a shard through one recipe")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--recipe", required=True, help="the recipe's JSON")
    parser.add_argument("--captions", type=Path, required=True, help="the shard's list file")
    parser.add_argument("--output", type=Path, required=True)

    parser = _add(
        commands, "merge-texts", _merge_texts, "(rule) merge perturbed captions, and count what became of them"
    )
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--captions", type=Path, required=True, help="folder of the shards' list files")
    parser.add_argument("--parts", type=Path, required=True, help="folder of the parts, PERTURBATION/SEVERITY/SHARD")
    parser.add_argument("--recipes", type=Path, required=True, help="the recipes of all scenarios, JSON")
    parser.add_argument("--config-digest", required=True, help="the configuration's hash")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--statistics", type=Path, required=True)
    parser.add_argument("--page", type=Path, required=True, help="Markdown: what became of them, with examples")

    parser = _add(commands, "combine", _combine, "(rule) join perturbed captions with perturbed videos")
    parser.add_argument("--videos", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)

    parser = _add(commands, "merge", _merge, "(rule) merge the parts of a manifest of sources or analyses")
    parser.add_argument("kind", choices=("sources", "analyses"))
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--shards", type=Path, required=True, help="folder of the shards' list files")
    parser.add_argument("--parts", type=Path, required=True, help="folder of the parts, one per shard")
    parser.add_argument("--rejected", type=Path, help="sources: what was listed but cannot be used")
    parser.add_argument("--sources", type=Path, help="analyses: folder of the parts of the sources, one per shard")
    parser.add_argument("--recipe", help="analyses: the analysis's JSON")
    parser.add_argument("--output", type=Path, required=True)

    parser = _add(commands, "merge-videos", _merge_videos, "(rule) merge the parts of a corpus, and write its card")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--shards", type=Path, required=True, help="folder of the shards' list files")
    parser.add_argument("--parts", type=Path, required=True, help="folder of the parts, PERTURBATION/SEVERITY/SHARD")
    parser.add_argument("--recipes", type=Path, required=True, help="the recipes of all scenarios, JSON")
    parser.add_argument("--sources", type=Path, required=True, help="the sources manifest")
    parser.add_argument("--quarantine", type=Path, required=True, help="where to write the quarantine manifest")
    parser.add_argument("--card", type=Path, required=True, help="where to write the dataset card")
    parser.add_argument("--config-digest", required=True, help="the configuration's hash")
    parser.add_argument("--output", type=Path, required=True)

    parser = _add(commands, "mix", _mix, "(rule) write the mixed manifests: views of a videos manifest")
    parser.add_argument("--videos", type=Path, required=True)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--severities", type=Path, required=True, help="mixed_severity to write")
    parser.add_argument("--types", type=Path, required=True, help="mixed_types to write")

    parser = _add(commands, "calibrate", _calibrate, "solve parameters for severities of even distortion")
    parser.add_argument("--sources", type=Path, required=True, help="the sources manifest of the dataset")
    parser.add_argument("-p", "--perturbations", nargs="+", metavar="SUITE/NAME", help="default: all visual ones")
    parser.add_argument(
        "--paper", nargs="*", default=[], metavar="SUITE", help="suites to take in the variant paper, not released"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clips", type=_positive, help="how many clips to measure; default: 8")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the table to write, .json")
    parser.add_argument("--picture", type=Path, help="the plot to write, .png")
    parser.add_argument("--report", type=Path, help="the report to write, .md")

    parser = _add(commands, "train-encoder", _train_encoder, "(rule) train the small dual encoder on the demo's scenes")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True, help="the model's folder")

    parser = _add(
        commands, "encode-gallery", _encode_gallery, "(rule) encode a dataset's clean clips, for captions to ask"
    )
    _add_model(parser)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="a .safetensors")

    parser = _add(commands, "evaluate", _evaluate, "(rule) run some scenarios of an evaluation")
    _add_model(parser)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument(
        "--parts", type=Path, help="the folder of the parts that hold what asks; default: clean queries"
    )
    parser.add_argument("--shards", type=Path, help="the folder of the shards' lists")
    parser.add_argument("--mixes", type=Path, help="the folder of the mixed manifests")
    parser.add_argument("--gallery", type=Path, help="t2v: the encoded clips")
    parser.add_argument("--bank-captions", type=Path, help="methods with a bank, t2v: its captions")
    parser.add_argument("--bank-gallery", type=Path, help="methods with a bank, v2t: its encoded clips")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ranks", type=Path, required=True)
    parser.add_argument("--pictures", type=Path, required=True, help="what a report draws, .json")

    parser = _add(commands, "merge-results", _merge_results, "(rule) merge the scenarios of an evaluation")
    parser.add_argument("--parts", nargs="+", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ranks", type=Path, required=True)

    parser = _add(commands, "report", _report, "write one HTML page of what was evaluated")
    parser.add_argument("--results", nargs="*", default=[], type=Path, help="manifests of results")
    parser.add_argument("--pictures", nargs="*", default=[], type=Path, help="what their jobs wrote to be drawn, .json")
    parser.add_argument("--datasets", nargs="*", default=[], help="whose contact sheets, statistics and quarantine")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the page, .html")

    parser = _add(commands, "check", _check, "(rule) fail when more items are quarantined than allowed")
    parser.add_argument("quarantine", type=Path)
    parser.add_argument("--allowed", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)

    _add(commands, "schema", _schema, "print the JSON schema of config.yaml")


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--settings", required=True, help="JSON: what the results depend on")
    parser.add_argument("--pretrained", required=True, help="a model of transformers: its folder or its name")
    parser.add_argument("--checkpoint", type=Path, help="fine-tuned weights")
    parser.add_argument("--device", default="cpu")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


# --- for people ------------------------------------------------------------------------------------------------------


def _list(options: argparse.Namespace) -> int:
    from perturbations.suites import registry

    entries = registry.perturbations(options.suite)
    keys = max(len(entry.key) for entry in entries)
    levels = max(len(entry.level) for entry in entries)
    for entry in entries:
        severities = f"1-{len(entry.severities)}" if len(entry.severities) > 1 else "1"
        print(f"{entry.key:{keys}}  {entry.kind:5}  {entry.level:{levels}}  {severities:3}  {entry.summary}")
    return 0


def _show(options: argparse.Namespace) -> int:
    from perturbations.models import text_roles
    from perturbations.suites import registry

    entry = registry.get(options.perturbation)
    rows = [
        ("what", entry.summary),
        ("level", entry.level),
        ("kernel", f"{entry.kernel} (version {entry.version})"),
        ("realization", _realization(entry)),
        ("source", entry.source),
    ]
    if entry.kind == "text":
        rows.append(("gate", "draws again until the meaning is kept" if entry.gated else "none"))
        for backend in text_roles.BACKENDS:
            rows.append((backend, text_roles.names([*entry.roles, *(["similarity"] if entry.gated else [])], backend)))
    if entry.differences:
        rows.append(("released", entry.differences))
    if not entry.monotonic:
        rows.append(("severity", "published table; distortion does not grow with every step"))
    print(entry.key)
    for name, text in rows:
        print(f"  {name:12} {text}")
    for variant in ("released", "paper"):
        if variant == "paper" and entry.paper is None:
            continue
        for severity in entry.severities:
            numbers = ", ".join(f"{name} {value}" for name, value in entry.parameters(severity, variant).items())
            print(f"  {variant} {severity:<3} {numbers}")
    return 0


def _realization(entry: Any) -> str:
    if entry.draw == "none":
        return "none: nothing is random"
    return f"{entry.realization or 'drawn by the kernel'}, one a {entry.draw}"


def _video(options: argparse.Namespace) -> int:
    from perturbations.engine import pipeline, shards
    from perturbations.plan import recipe
    from perturbations.suites import registry

    if options.output.suffix != ".mp4":
        raise ConfigError(f"the output must be an .mp4, not {options.output.name}")
    if options.output.exists() and options.output.samefile(options.input):
        raise ConfigError(f"the output {options.output} is the input itself")
    entry = registry.get(options.perturbation)
    made = recipe.make(
        entry,
        options.severity,
        variant=options.variant,
        seed=options.seed,
        storage=recipe.stored_video(options.profile),
        donors="--donors",
    )
    source = shards.source_with_facts(made, *_rows_from(options))
    measured = pipeline.produce(made, source, options.output)
    decibel = measured.storage_psnr_db
    lossy = "exact" if decibel == float("inf") else f"{decibel:.1f} dB"
    print(f"{options.output}: {measured.stored_frames} frames, {(measured.bytes or 0) / 1e6:.2f} MB, stored {lossy}")
    return 0


def _rows_from(options: argparse.Namespace) -> tuple[CompleteSource, list[CompleteSource]]:
    """The rows of the input and of the donors, as a sources manifest has them."""
    item_id = options.item_id if options.item_id is not None else options.input.stem
    return _row_of(options.dataset, options.input, item_id), [
        _row_of("donors", path, str(path)) for path in options.donors
    ]


def _row_of(dataset: str, path: Path, item_id: str) -> CompleteSource:
    from perturbations.engine import shards
    from perturbations.plan.listed import ListedClip

    listed = ListedClip(item_id=item_id, source_video_id=item_id, path=str(path))
    try:
        return shards.source_row(dataset, listed)
    except MediaError as error:
        raise MediaError(f"{path}: {error}") from error


def _verify(options: argparse.Namespace) -> int:
    from perturbations.verify import run

    wanted = run.Options(jobs=options.jobs, stall_limit_s=options.stall_limit, fast=options.fast, repair=options.repair)
    problems = _print_findings(options.paths, wanted)
    if problems and options.repair:
        print("After the repair:")
        problems = _print_findings(options.paths, dataclasses.replace(wanted, fast=True, repair=False))
    return 1 if problems else 0


def _print_findings(paths: Sequence[Path], wanted: Options) -> int:
    """Verify, print what is found, and return how many problems there are."""
    from perturbations.verify import run

    problems = 0
    for summary in run.verify(paths, wanted):
        for finding in summary.findings[:_MOST_SHOWN]:
            print(f"  {shown.line(str(finding))}")
        if len(summary.findings) > _MOST_SHOWN:
            print(f"  and {len(summary.findings) - _MOST_SHOWN} more of {summary.path}")
        for remark, count in summary.remarks.items():
            print(f"  {summary.path}: {count} rows: {shown.line(remark)}")
        mended = f", {summary.mended} mended" if summary.mended else ""
        print(
            f"{summary.path}: {summary.rows} rows, {summary.incomplete} of them quarantined or missing; "
            f"{len(summary.findings)} problems{mended}"
        )
        problems += len(summary.findings)
    return problems


def _retry(options: argparse.Namespace) -> int:
    from perturbations.engine import retry

    wanted = retry.Wanted(options.dataset, options.suite, options.stage, options.item)
    asked = retry.find(Path(), wanted)
    for row in asked:
        print(f"  {row}")
    if not options.dry_run:
        retry.forget(Path(), asked)
    parts = len({row.part for row in asked})
    print(f"{len(asked)} quarantined rows in {parts} parts {'would be' if options.dry_run else 'are'} asked again")
    if asked and not options.dry_run:
        print("Now run snakemake: what was finished is kept.")
    return 0


def _preview(options: argparse.Namespace) -> int:
    from perturbations.manifest import files
    from perturbations.manifest.kinds import ANALYSES
    from perturbations.report import objects, preview

    is_manifest = options.input.suffix == ".parquet"
    if is_manifest and files.kind_of(options.input) == ANALYSES:
        objects.from_manifest(options.input, options.output, item=options.item)
    elif is_manifest:
        preview.from_manifest(
            options.input,
            options.output,
            item=options.item,
            names=options.perturbations,
            severities=options.severities,
        )
    else:
        preview.from_video(
            *_rows_from(options),
            options.output,
            names=options.perturbations,
            severities=options.severities,
            seed=options.seed,
            variant=options.variant,
        )
    print(options.output)
    return 0


def _catalogue_texts(options: argparse.Namespace) -> int:
    from perturbations.report import text_catalogue
    from perturbations.system import storage

    page = text_catalogue.of_examples()
    if options.output is None:
        print(page, end="")
    else:
        storage.write_text(options.output, page)
    return 0


def _catalogue(options: argparse.Namespace) -> int:
    from perturbations.report import catalogue

    if not options.check:
        for name in catalogue.write(options.output):
            print(options.output / name)
        return 0
    found = catalogue.stale(options.output)
    for line in found:
        print(f"  {line}")
    print(f"{options.output}: {f'{len(found)} not up to date; run: perturb catalogue' if found else 'up to date'}")
    return 1 if found else 0


def _schema(options: argparse.Namespace) -> int:
    from perturbations.plan import config

    print(config.json_schema(), end="")
    return 0


# --- for rules -------------------------------------------------------------------------------------------------------


def _sources(options: argparse.Namespace) -> int:
    from perturbations.engine import shards
    from perturbations.manifest import files
    from perturbations.manifest.kinds import SOURCES
    from perturbations.plan import listed
    from perturbations.progress import logged

    clips = listed.read(options.listed, listed.ListedClip)
    rows = shards.run_sources(
        options.dataset, clips, stall_limit_s=options.stall_limit, prepare=_draw_demo if options.demo else None
    )
    files.write_part(options.output, SOURCES, list(logged(rows, len(clips), "clips")))
    return 0


def _draw_demo(listed: ListedClip) -> None:
    from fractions import Fraction

    from perturbations.demo import film
    from perturbations.media import encoding
    from perturbations.media.clip import Frame, Timing
    from perturbations.system import storage

    rate = Fraction(film.FPS)
    pictures = film.frames(int(listed.item_id.rpartition("-")[2]))
    frames = (Frame(image, index, index) for index, image in enumerate(pictures))
    with storage.atomic_path(Path(listed.path)) as temporary:
        encoding.encode(frames, temporary, storage.PROFILES["compatible"], Timing(1 / rate, rate))


def _videos(options: argparse.Namespace) -> int:
    from perturbations.engine import shards
    from perturbations.guides.registry import Known
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import ANALYSES, COMPLETE, SOURCES, VIDEOS
    from perturbations.plan import recipe
    from perturbations.progress import logged

    sources = _complete_sources(options.sources)
    donors = [] if options.donors is None else sets.read_part(options.donors, ANALYSES)
    known = Known(_by_item(options.analysis), [row for row in donors if row.status == COMPLETE])
    rows = shards.run_videos(
        recipe.parse(options.recipe),
        sources,
        known=known,
        videos=[row for path in options.whole for row in sets.read_part(path, SOURCES)],
        root=Path(),
        folder=options.corpus,
        journal=options.output.with_suffix(".jsonl"),
        stall_limit_s=options.stall_limit,
        check=not options.no_check,
    )
    files.write_part(options.output, VIDEOS, list(logged(rows, len(sources), "clips")))
    return 0


def _complete_sources(path: Path) -> list[CompleteSource]:
    from perturbations.manifest import kinds, sets

    rows = sets.read_part(path, kinds.SOURCES)
    return [row for row in rows if isinstance(row, kinds.CompleteSource)]


def _by_item(path: Path | None) -> dict[str, AnalysisRow]:
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import ANALYSES

    return {} if path is None else {row.item_id: row for row in sets.read_part(path, ANALYSES)}


def _analyse(options: argparse.Namespace) -> int:
    from perturbations.engine import shards
    from perturbations.guides.registry import parse_analysis
    from perturbations.manifest import files
    from perturbations.manifest.kinds import ANALYSES
    from perturbations.progress import logged

    sources = _complete_sources(options.sources)
    rows = shards.run_analysis(
        parse_analysis(options.recipe),
        sources,
        root=Path(),
        folder=options.folder,
        journal=options.output.with_suffix(".jsonl"),
        stall_limit_s=options.stall_limit,
        before=_by_item(options.captions),
    )
    files.write_part(options.output, ANALYSES, list(logged(rows, len(sources), "clips")))
    return 0


def _captions(options: argparse.Namespace) -> int:
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import CAPTIONS, COMPLETE, QRELS, SOURCES, CaptionRow, QrelRow
    from perturbations.plan import listed

    captions = [
        CaptionRow(dataset=options.dataset, caption_id=line.caption_id, item_id=line.item_id, text=line.text)
        for line in listed.read(options.captions, listed.ListedCaption)
    ]
    sources = sets.read_part(options.sources, SOURCES)
    complete = {row.item_id for row in sources if row.status == COMPLETE}
    qrels = [
        QrelRow(query_id=caption.caption_id, corpus_id=caption.item_id, score=1)
        for caption in captions
        if caption.item_id in complete
    ]
    about = {"dataset": options.dataset, "set": sets.of_sources(sources).columns()}
    files.write(options.output, CAPTIONS, captions, {**_about(options.output), **about})
    files.write(options.qrels, QRELS, qrels, {**_about(options.qrels), **about})
    return 0


def _texts(options: argparse.Namespace) -> int:
    from perturbations.captions import corpus
    from perturbations.manifest import files
    from perturbations.manifest.kinds import TEXTS
    from perturbations.plan import listed, recipe
    from perturbations.progress import logged

    lines = listed.read(options.captions, listed.ListedCaption)
    rows = corpus.run(recipe.parse_text(options.recipe), options.dataset, lines)
    files.write_part(options.output, TEXTS, list(logged(rows, len(lines), "captions")))
    return 0


def _merge_texts(options: argparse.Namespace) -> int:
    from perturbations.captions import corpus
    from perturbations.engine import merging
    from perturbations.manifest import files
    from perturbations.manifest.kinds import TEXT_STATISTICS, TEXTS
    from perturbations.progress import logged
    from perturbations.report import card, text_catalogue
    from perturbations.system import storage

    rows, listed = merging.texts(options.dataset, options.captions, options.parts, options.recipes)
    about = {**_about(options.output), "dataset": options.dataset, "set": listed.columns()}
    about |= {"config_digest": options.config_digest, "comparability": card.comparability([], rows)}
    files.write(options.output, TEXTS, rows, about)
    scenarios = len({(row.perturbation, row.severity) for row in rows})
    counted = list(logged(corpus.statistics(rows), scenarios, "perturbations counted"))
    files.write(options.statistics, TEXT_STATISTICS, counted, about)
    storage.write_text(options.page, text_catalogue.of_corpus(rows))
    return 0


def _combine(options: argparse.Namespace) -> int:
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import MULTIMODAL, TEXTS, VIDEOS
    from perturbations.plan import mixes
    from perturbations.report import card
    from perturbations.suites import registry

    videos = sets.read_part(options.videos, VIDEOS)
    texts = sets.read_part(options.texts, TEXTS)
    combined = registry.suite(texts[0].suite).combined if texts else None
    rows = [] if combined is None else list(mixes.multimodal(videos, texts, combined))
    described = files.read_metadata(options.videos)
    about = {name: described[name] for name in ("dataset", "suite", "set")}
    about |= {**_about(options.output), "comparability": card.comparability(videos, texts)}
    files.write(options.output, MULTIMODAL, rows, about)
    return 0


def _merge(options: argparse.Namespace) -> int:
    from perturbations.engine import merging
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import ANALYSES, SOURCES

    about = {**_about(options.output), "dataset": options.dataset}
    if options.kind == "sources":
        sources = merging.sources(options.dataset, options.shards, options.parts, options.rejected)
        files.write(options.output, SOURCES, sources, {**about, "set": sets.of_sources(sources).columns()})
    else:
        rows = merging.analyses(options.sources, options.shards, options.parts, options.recipe)
        files.write(options.output, ANALYSES, rows, about)
    return 0


def _merge_videos(options: argparse.Namespace) -> int:
    from perturbations.engine import merging
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import QUARANTINE, SOURCES, VIDEOS
    from perturbations.plan import listed
    from perturbations.report import card
    from perturbations.suites import registry
    from perturbations.system import storage

    sources = sets.read_part(options.sources, SOURCES)
    recipes = listed.read_recipes(options.recipes)
    rows = merging.videos(sources, options.shards, options.parts, recipes)
    members = sets.of_corpus(sources, rows, len(recipes))
    about = {**_about(options.output), "dataset": options.dataset, "suite": options.suite, "set": members.columns()}
    about |= {"config_digest": options.config_digest, "comparability": card.comparability(rows)}
    files.write(options.output, VIDEOS, rows, about)
    storage.write_text(options.card, card.card(registry.suite(options.suite), rows, members, about))
    files.write(options.quarantine, QUARANTINE, sets.quarantine_of(sources, rows), about)
    return 0


def _mix(options: argparse.Namespace) -> int:
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import MIXES, SOURCES, VIDEOS
    from perturbations.plan import mixes
    from perturbations.report import card

    videos = sets.read_part(options.videos, VIDEOS)
    sources = sets.read_part(options.sources, SOURCES)
    described = files.read_metadata(options.videos)
    about = {name: described[name] for name in ("dataset", "suite", "set")}
    about["comparability"] = card.comparability(videos)
    files.write(options.severities, MIXES, mixes.mixed_severity(videos), {**_about(options.severities), **about})
    files.write(options.types, MIXES, mixes.mixed_types(videos, sources), {**_about(options.types), **about})
    return 0


def _about(path: Path) -> dict[str, Any]:
    """What a manifest's file says of itself."""
    from perturbations.manifest import machine
    from perturbations.system.tools import tool_versions

    return {
        "root": os.path.relpath(Path().resolve(), path.parent.resolve()),
        "package_version": __version__,
        "tools": tool_versions(),
        "cpu_features": machine.cpu_features(),
    }


def _calibrate(options: argparse.Namespace) -> int:
    from perturbations.calibration import pages, solver
    from perturbations.plan import calibration_table
    from perturbations.suites import registry
    from perturbations.system import storage

    rows = _complete_sources(options.sources)
    dataset = rows[0].dataset if rows else ""
    entries = [registry.get(name) for name in options.perturbations or ()] or registry.perturbations(kind="video")
    texts = [entry.key for entry in entries if entry.kind != "video"]
    if texts:
        raise ConfigError(f"only visual perturbations can be calibrated, not {', '.join(texts)}")
    for name in options.paper:
        registry.suite(name)
    wanted = {entry.key: "paper" if entry.suite in options.paper else "released" for entry in entries}
    sources = solver.sample(rows, options.seed, dataset, options.clips or solver.CLIPS)
    table = solver.calibrate(sources, wanted, dataset=dataset, seed=options.seed)
    calibration_table.write(options.output, table)
    if options.report:
        storage.write_text(options.report, pages.text(table))
    if options.picture:
        pages.draw(table, options.picture)
    return 0


def _need_models() -> None:
    """Raise `ConfigError` where what evaluations need is not installed."""
    missing = [name for name in ("torch", "transformers", "safetensors", "scipy") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"{', '.join(missing)} not installed; evaluations need them: sh envs/install.sh models")


def _train_encoder(options: argparse.Namespace) -> int:
    _need_models()
    from perturbations.evaluation import demo_encoder

    demo_encoder.train(options.output, seed=options.seed)
    return 0


def _export(options: argparse.Namespace) -> int:
    from perturbations.manifest import files
    from perturbations.manifest.kinds import TEXTS

    export = exports.get(options.format)
    if export.needs_models:
        _need_models()
    request = Request(
        manifest=options.manifest,
        output=options.output,
        num_frames=options.num_frames,
        size=options.size,
        order=options.order,
        stall_limit_s=options.stall_limit,
    )
    if files.kind_of(options.manifest) == TEXTS:
        print(f"{options.output}: {export.write_captions(request):,} lists of captions")
        return 0
    result = export.write_videos(request)
    for finding in (*result.quarantined, *result.failed):
        print(f"  {shown.line(str(finding))}")
    print(
        f"{options.output}: {result.written} videos written, {result.kept} were there, {len(result.failed)} failed, "
        f"{len(result.quarantined)} are quarantined"
    )
    return 1 if result.failed else 0


def _encode_gallery(options: argparse.Namespace) -> int:
    _need_models()
    from perturbations.evaluation import backbone, galleries
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import SOURCES

    settings = json.loads(options.settings)
    loaded = backbone.load(settings, options.pretrained, options.checkpoint, options.device)
    rows = sets.read_part(options.sources, SOURCES)
    galleries.write(options.output, loaded, rows, settings["num_frames"])
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    _need_models()
    from perturbations.evaluation import backbone, runner
    from perturbations.manifest import files, pictures, sets
    from perturbations.manifest.kinds import CAPTIONS, RANKS, RESULTS, SOURCES
    from perturbations.plan.evaluation import ScenarioSettings
    from perturbations.system import storage
    from perturbations.system.records import digest

    shards = [] if options.shards is None else sorted(path.stem for path in options.shards.glob("*.jsonl"))

    def asking(scenario: ScenarioSettings) -> tuple[list[Any], str]:
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
    rows, ranks, drawn = runner.evaluate(
        settings,
        backbone.load(settings, options.pretrained, options.checkpoint, options.device),
        sources=sets.read_part(options.sources, SOURCES),
        captions=sets.read_part(options.captions, CAPTIONS),
        asking=asking,
        gallery=options.gallery,
        bank_captions=sets.read_part(options.bank_captions, CAPTIONS) if options.bank_captions else (),
        bank_gallery=options.bank_gallery,
        journal=options.output.with_suffix(".jsonl"),
    )
    files.write(options.output, RESULTS, rows)
    files.write(options.ranks, RANKS, ranks)
    pictures.write(options.pictures, drawn)
    return 0


def _merge_results(options: argparse.Namespace) -> int:
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import RANKS, RESULTS

    about = _about(options.output)
    rows = [row for part in options.parts for row in sets.read_part(part, RESULTS)]
    files.write(options.output, RESULTS, rows, about)
    ranks = [path.with_suffix(".ranks.parquet") for path in options.parts]
    sets.check_parts(ranks, RANKS)
    files.concatenate(ranks, options.ranks, RANKS, about)
    return 0


def _report(options: argparse.Namespace) -> int:
    _need_models()
    from perturbations.report import page

    folders = [Path("manifests") / name for name in options.datasets]
    page.write(
        options.output,
        results=options.results,
        pictures=options.pictures,
        statistics=[path for folder in folders for path in sorted(folder.glob("*/caption_statistics.parquet"))],
        quarantine=[path for folder in folders for path in sorted(folder.glob("*/quarantine.parquet"))],
        sheets=[path for folder in folders for path in sorted(folder.glob("*/preview.png"))],
    )
    return 0


def _check(options: argparse.Namespace) -> int:
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import QUARANTINE
    from perturbations.system import storage

    rows = sets.read_part(options.quarantine, QUARANTINE)
    items = sorted({row.item_id for row in rows})
    if len(items) > options.allowed:
        reasons = {row.item_id: f"{row.stage}: {row.error}" for row in reversed(rows)}
        lines = [f"  {item!r}: {reasons[item]}" for item in items[:20]]
        rest = [f"  and {len(items) - 20} more"] if len(items) > 20 else []
        raise ManifestError(
            f"{len(items)} items are quarantined or missing, max_quarantine allows {options.allowed}. Mend them and "
            "run `perturb retry`, leave them out with `subset`, or raise max_quarantine in config.yaml. All of them: "
            f"{options.quarantine}\n" + "\n".join(lines + rest)
        )
    storage.write_text(options.output, f"{len(items)} quarantined, {options.allowed} allowed\n")
    return 0
