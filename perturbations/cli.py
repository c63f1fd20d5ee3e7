"""The command `perturb`: what a person types, and one subcommand for each rule of the workflow."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# One thread a job; numpy's libraries read these when they load.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from perturbations import __version__, shown
from perturbations.errors import ConfigError, ManifestError, MediaError, PerturbationError

log = logging.getLogger("perturbations")

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; 0 when it did its work, 1 when it could not, 2 when it was called wrongly."""
    options = _parser().parse_args(arguments)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(shown.LogFormatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    command: Command = options.command
    try:
        return command(options)
    except PerturbationError as error:
        print(f"perturb: {shown.lines(str(error))}", file=sys.stderr)
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
    parser.add_argument("--repair", action="store_true", help="make missing and damaged files again")
    _add_stall_limit(parser)

    parser = _add(commands, "export", _export, "write a corpus in another program's layout")
    parser.add_argument("manifest", type=Path, help="a manifest of sources, videos or texts (perturbed captions)")
    parser.add_argument("--format", choices=["vtr_tta"], required=True, help="X-Pool's and HAT-VTR's released loaders")
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
    parser.add_argument("--captions", type=Path, required=True, help="folder of the shards' list files")
    parser.add_argument("--parts", type=Path, required=True, help="folder of the parts, one a shard")
    parser.add_argument("--scenarios", nargs="+", required=True, help="folders below it, PERTURBATION/SEVERITY")
    parser.add_argument("--config-digest", required=True, help="the configuration's hash")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--statistics", type=Path, required=True)
    parser.add_argument("--page", type=Path, required=True, help="Markdown: what became of them, with examples")

    parser = _add(commands, "combine", _combine, "(rule) join perturbed captions with perturbed videos")
    parser.add_argument("--videos", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)

    parser = _add(commands, "merge", _merge, "(rule) merge the parts of a manifest")
    parser.add_argument("kind", choices=("sources", "analyses", "videos"))
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--shards", type=Path, required=True, help="folder of the shards' list files")
    parser.add_argument("--parts", type=Path, required=True, help="folder of the parts, one a shard")
    parser.add_argument("--scenarios", nargs="*", default=["."], help="videos: folders below it, PERTURBATION/SEVERITY")
    parser.add_argument("--rejected", type=Path, help="sources: what was listed but cannot be used")
    parser.add_argument("--sources", type=Path, help="videos: the sources manifest")
    parser.add_argument("--quarantine", type=Path, help="videos: where to write the quarantine manifest")
    parser.add_argument("--card", type=Path, help="videos: where to write the dataset card")
    parser.add_argument("--config-digest", help="videos: the configuration's hash")
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
    parser.add_argument("--bank-captions", type=Path, help="qbnorm, t2v: the captions of its bank")
    parser.add_argument("--bank-gallery", type=Path, help="qbnorm, v2t: the encoded clips of its bank")
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
    from perturbations import registry

    entries = registry.perturbations(options.suite)
    keys = max(len(entry.key) for entry in entries)
    levels = max(len(entry.level) for entry in entries)
    for entry in entries:
        severities = f"1-{len(entry.severities)}" if len(entry.severities) > 1 else "1"
        print(f"{entry.key:{keys}}  {entry.kind:5}  {entry.level:{levels}}  {severities:3}  {entry.summary}")
    return 0


def _show(options: argparse.Namespace) -> int:
    from perturbations import registry
    from perturbations.models import text_roles

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
    from perturbations import pipeline, recipe, registry, shards

    if options.output.suffix != ".mp4":
        raise ConfigError(f"the output must be an .mp4, not {options.output.name}")
    if options.output.exists() and options.output.samefile(options.input):
        raise ConfigError(f"the output {options.output} is the input itself")
    entry = registry.get(options.perturbation)
    storage_tier = recipe.storage_settings({"tier": "video", "profile": options.profile})
    made = recipe.make(
        entry, options.severity, variant=options.variant, seed=options.seed, storage=storage_tier, donors="--donors"
    )
    source = shards.source_with_facts(made, *_rows_from(options))
    row = pipeline.produce(made, source, options.output)
    lossy = "exact" if row["storage_psnr_db"] == float("inf") else f"{row['storage_psnr_db']:.1f} dB"
    print(f"{options.output}: {row['stored_frames']} frames, {row['bytes'] / 1e6:.2f} MB, stored {lossy}")
    return 0


def _rows_from(options: argparse.Namespace) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The rows of the input and of the donors, as a sources manifest has them."""
    item_id = options.item_id if options.item_id is not None else options.input.stem
    return _row_of(options.dataset, options.input, item_id), [
        _row_of("donors", path, str(path)) for path in options.donors
    ]


def _row_of(dataset: str, path: Path, item_id: str) -> dict[str, Any]:
    from perturbations import shards

    listed = {"item_id": item_id, "path": str(path), "bytes": None, "start_s": None, "end_s": None}
    try:
        return shards.source_row(dataset, listed)
    except MediaError as error:
        raise MediaError(f"{path}: {error}") from error


def _verify(options: argparse.Namespace) -> int:
    from perturbations import verify

    bad = 0
    for path in verify.find_manifests(options.paths):
        good, quarantined, findings = verify.verify(
            path, jobs=options.jobs, stall_limit_s=options.stall_limit, repair=options.repair
        )
        for found in findings:
            print(f"  {shown.line(str(found))}")
        print(f"{path}: {good} rows check out, {len(findings)} do not, {quarantined} are quarantined")
        bad += len(findings)
    return 1 if bad else 0


def _preview(options: argparse.Namespace) -> int:
    from perturbations import manifest
    from perturbations.report import objects, preview

    is_manifest = options.input.suffix == ".parquet"
    if is_manifest and manifest.read_metadata(options.input)["kind"] == manifest.ANALYSES.name:
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
    from perturbations import storage
    from perturbations.report import text_catalogue

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
    from perturbations import config

    print(config.json_schema(), end="")
    return 0


# --- for rules -------------------------------------------------------------------------------------------------------


def _sources(options: argparse.Namespace) -> int:
    from perturbations import manifest, plan, shards
    from perturbations.progress import logged

    listed = plan.read_lines(options.listed)
    rows = shards.run_sources(
        options.dataset, listed, stall_limit_s=options.stall_limit, prepare=_draw_demo if options.demo else None
    )
    manifest.write(options.output, manifest.SOURCES, list(logged(rows, len(listed), "clips")))
    return 0


def _draw_demo(listed: dict[str, Any]) -> None:
    from fractions import Fraction

    from perturbations import demo, media, storage

    rate = Fraction(demo.FPS)
    pictures = demo.frames(int(listed["item_id"].rpartition("-")[2]))
    frames = (media.Frame(image, index, index) for index, image in enumerate(pictures))
    with storage.atomic_path(Path(listed["path"])) as temporary:
        media.encode(frames, temporary, storage.PROFILES["compatible"], media.Timing(1 / rate, rate))


def _videos(options: argparse.Namespace) -> int:
    from perturbations import guidance, manifest, shards
    from perturbations.progress import logged

    sources = _complete(options.sources, manifest.SOURCES)
    known = guidance.Known(_by_item(options.analysis), _complete(options.donors, manifest.ANALYSES))
    rows = shards.run_videos(
        json.loads(options.recipe),
        sources,
        known=known,
        videos=manifest.merge(options.whole, manifest.SOURCES),
        root=Path(),
        folder=options.corpus,
        journal=options.output.with_suffix(".jsonl"),
        stall_limit_s=options.stall_limit,
        check=not options.no_check,
    )
    manifest.write(options.output, manifest.VIDEOS, list(logged(rows, len(sources), "clips")))
    return 0


def _complete(path: Path | None, kind: Any) -> list[dict[str, Any]]:
    from perturbations import manifest

    rows = [] if path is None else manifest.read_rows(path, kind)
    return [row for row in rows if row["status"] == manifest.COMPLETE]


def _by_item(path: Path | None) -> dict[str, dict[str, Any]]:
    from perturbations import manifest

    return {} if path is None else {row["item_id"]: row for row in manifest.read_rows(path, manifest.ANALYSES)}


def _analyse(options: argparse.Namespace) -> int:
    from perturbations import manifest, shards
    from perturbations.progress import logged

    sources = _complete(options.sources, manifest.SOURCES)
    rows = shards.run_analysis(
        json.loads(options.recipe),
        sources,
        root=Path(),
        folder=options.folder,
        journal=options.output.with_suffix(".jsonl"),
        stall_limit_s=options.stall_limit,
        captions=_by_item(options.captions),
    )
    manifest.write(options.output, manifest.ANALYSES, list(logged(rows, len(sources), "clips")))
    return 0


def _captions(options: argparse.Namespace) -> int:
    from perturbations import manifest, plan

    captions = [{"dataset": options.dataset, **line} for line in plan.read_lines(options.captions)]
    sources = manifest.read_rows(options.sources, manifest.SOURCES)
    complete = {row["item_id"] for row in sources if row["status"] == manifest.COMPLETE}
    qrels = [
        {"query_id": caption["caption_id"], "corpus_id": caption["item_id"], "score": 1}
        for caption in captions
        if caption["item_id"] in complete
    ]
    manifest.write(options.output, manifest.CAPTIONS, captions, _about(options.output))
    manifest.write(options.qrels, manifest.QRELS, qrels, _about(options.qrels))
    return 0


def _texts(options: argparse.Namespace) -> int:
    from perturbations import captions, manifest, plan
    from perturbations.progress import logged

    listed = plan.read_lines(options.captions)
    rows = captions.run(json.loads(options.recipe), options.dataset, listed)
    manifest.write(options.output, manifest.TEXTS, list(logged(rows, len(listed), "captions")))
    return 0


def _merge_texts(options: argparse.Namespace) -> int:
    from perturbations import captions, manifest, storage
    from perturbations import parts as damaged
    from perturbations.progress import logged
    from perturbations.report import card, text_catalogue

    names = sorted(path.stem for path in options.captions.glob("*.jsonl"))
    parts = [options.parts / scenario / f"{shard}.parquet" for scenario in options.scenarios for shard in names]
    about = {**_about(options.output), "config_digest": options.config_digest}
    with damaged.mended(parts):
        rows = manifest.merge(parts, manifest.TEXTS)
    about["comparability"] = card.comparability([], rows)
    manifest.write(options.output, manifest.TEXTS, rows, about)
    counted = list(logged(captions.statistics(rows), len(options.scenarios), "perturbations counted"))
    manifest.write(options.statistics, manifest.TEXT_STATISTICS, counted, about)
    storage.write_text(options.page, text_catalogue.of_corpus(rows))
    return 0


def _combine(options: argparse.Namespace) -> int:
    from perturbations import manifest, mixes, registry
    from perturbations.report import card

    videos = manifest.read_rows(options.videos, manifest.VIDEOS)
    texts = manifest.read_rows(options.texts, manifest.TEXTS)
    combined = registry.suite(texts[0]["suite"]).combined if texts else None
    rows = [] if combined is None else list(mixes.multimodal(videos, texts, combined))
    about = {**_about(options.output), "comparability": card.comparability(videos, texts)}
    manifest.write(options.output, manifest.MULTIMODAL, rows, about)
    return 0


def _merge(options: argparse.Namespace) -> int:
    from perturbations import manifest, storage
    from perturbations import parts as damaged
    from perturbations.report import card

    names = sorted(path.stem for path in options.shards.glob("*.jsonl"))
    parts = [options.parts / scenario / f"{shard}.parquet" for scenario in options.scenarios for shard in names]
    about = _about(options.output)
    kind = manifest.KINDS[options.kind]
    with damaged.mended(parts):
        rows = manifest.merge(parts, kind)
    if options.kind == "sources":
        rows += _rejected_rows(options.dataset, options.rejected)
    if options.kind != "videos":
        manifest.write(options.output, kind, rows, about)
        return 0
    about["config_digest"] = options.config_digest
    about["comparability"] = card.comparability(rows)
    manifest.write(options.output, manifest.VIDEOS, rows, about)
    storage.write_text(options.card, card.card(rows, about))
    sources = manifest.read_rows(options.sources, manifest.SOURCES)
    failed = [row for row in (*sources, *rows) if row["status"] == manifest.QUARANTINED]
    columns = set(manifest.QUARANTINE.schema.names)
    quarantine = [{name: value for name, value in row.items() if name in columns} for row in failed]
    manifest.write(options.quarantine, manifest.QUARANTINE, quarantine, about)
    return 0


def _mix(options: argparse.Namespace) -> int:
    from perturbations import manifest, mixes
    from perturbations.report import card

    videos = manifest.read_rows(options.videos, manifest.VIDEOS)
    sources = manifest.read_rows(options.sources, manifest.SOURCES)
    for path, rows in (
        (options.severities, mixes.mixed_severity(videos)),
        (options.types, mixes.mixed_types(videos, sources)),
    ):
        manifest.write(path, manifest.MIXES, rows, {**_about(path), "comparability": card.comparability(videos)})
    return 0


def _rejected_rows(dataset: str, path: Path) -> list[dict[str, Any]]:
    from perturbations import plan, shards

    return [shards.quarantined_source_row(dataset, line, "annotation", line["error"]) for line in plan.read_lines(path)]


def _about(path: Path) -> dict[str, Any]:
    """What a manifest's file says of itself."""
    import av
    import cv2
    import numpy as np
    import pyarrow as pa

    return {
        "root": os.path.relpath(Path().resolve(), path.parent.resolve()),
        "package_version": __version__,
        "tools": {
            "numpy": np.__version__,
            "opencv": cv2.__version__,
            "pyav": av.__version__,
            "libavcodec": ".".join(map(str, av.library_versions["libavcodec"])),
            "pyarrow": pa.__version__,
        },
    }


def _calibrate(options: argparse.Namespace) -> int:
    from perturbations import calibration, calibration_report, calibration_table, manifest, registry, storage

    rows = _complete(options.sources, manifest.SOURCES)
    dataset = rows[0]["dataset"] if rows else ""
    entries = [registry.get(name) for name in options.perturbations or ()] or registry.perturbations(kind="video")
    texts = [entry.key for entry in entries if entry.kind != "video"]
    if texts:
        raise ConfigError(f"only visual perturbations can be calibrated, not {', '.join(texts)}")
    for name in options.paper:
        registry.suite(name)
    wanted = {entry.key: "paper" if entry.suite in options.paper else "released" for entry in entries}
    sources = calibration.sample(rows, options.seed, dataset, options.clips or calibration.CLIPS)
    table = calibration.calibrate(sources, wanted, dataset=dataset, seed=options.seed)
    calibration_table.write(options.output, table)
    if options.report:
        storage.write_text(options.report, calibration_report.text(table))
    if options.picture:
        calibration_report.draw(table, options.picture)
    return 0


def _need_models() -> None:
    """Raise `ConfigError` where what evaluations need is not installed."""
    missing = [name for name in ("torch", "transformers", "safetensors", "scipy") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"{', '.join(missing)} not installed; evaluations need them: sh envs/install.sh models")


def _train_encoder(options: argparse.Namespace) -> int:
    _need_models()
    from perturbations.tta import demo_encoder

    demo_encoder.train(options.output, seed=options.seed)
    return 0


def _export(options: argparse.Namespace) -> int:
    _need_models()
    from perturbations import export, manifest

    if manifest.read_metadata(options.manifest)["kind"] == manifest.TEXTS.name:
        if options.order is None:
            raise ConfigError("--order: captions are written in the order of the test split's file, which one?")
        made = export.vtr_tta_captions(options.manifest, options.output, options.order)
        print(f"{options.output}: {made:,} lists of captions")
        return 0
    done = export.vtr_tta_videos(
        options.manifest,
        options.output,
        num_frames=options.num_frames,
        size=options.size,
        stall_limit_s=options.stall_limit,
    )
    for found in (*done.quarantined, *done.failed):
        print(f"  {shown.line(str(found))}")
    print(
        f"{options.output}: {done.written} videos written, {done.kept} were there, {len(done.failed)} failed, "
        f"{len(done.quarantined)} are quarantined"
    )
    return 1 if done.failed else 0


def _encode_gallery(options: argparse.Namespace) -> int:
    _need_models()
    from perturbations import manifest
    from perturbations.tta import runner

    settings = json.loads(options.settings)
    backbone = runner.load(settings, options.pretrained, options.checkpoint, options.device)
    rows = manifest.read_rows(options.sources, manifest.SOURCES)
    runner.write_gallery(options.output, backbone, rows, settings["num_frames"])
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    _need_models()
    from perturbations import manifest, storage
    from perturbations.recipe import digest
    from perturbations.tta import runner

    shards = [] if options.shards is None else sorted(path.stem for path in options.shards.glob("*.jsonl"))

    def asking(scenario: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
        if scenario["mix"] is not None:
            files = [options.mixes / f"{scenario['mix']}.parquet"]
        elif options.parts is not None:
            folder = options.parts / scenario["perturbation"] / str(scenario["severity"])
            files = [folder / f"{shard}.parquet" for shard in shards]
        else:
            files = [options.sources if scenario["direction"] == "v2t" else options.captions]
        return [row for file in files for row in manifest.read_rows(file)], digest(list(map(storage.sha256, files)))

    settings = json.loads(options.settings)
    rows, ranks, pictures = runner.evaluate(
        settings,
        runner.load(settings, options.pretrained, options.checkpoint, options.device),
        sources=manifest.read_rows(options.sources, manifest.SOURCES),
        captions=manifest.read_rows(options.captions, manifest.CAPTIONS),
        asking=asking,
        gallery=options.gallery,
        bank_captions=manifest.read_rows(options.bank_captions, manifest.CAPTIONS) if options.bank_captions else (),
        bank_gallery=options.bank_gallery,
        journal=options.output.with_suffix(".jsonl"),
    )
    manifest.write(options.output, manifest.RESULTS, rows)
    manifest.write(options.ranks, manifest.RANKS, ranks)
    storage.write_text(options.pictures, json.dumps(pictures))
    return 0


def _merge_results(options: argparse.Namespace) -> int:
    from perturbations import manifest
    from perturbations import parts as damaged

    about = _about(options.output)
    with damaged.mended(options.parts):
        rows = manifest.merge(options.parts, manifest.RESULTS)
    manifest.write(options.output, manifest.RESULTS, rows, about)
    ranks = [path.with_suffix(".ranks.parquet") for path in options.parts]
    with damaged.mended(ranks):
        manifest.concatenate(ranks, options.ranks, manifest.RANKS, about)
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
    from perturbations import manifest, storage

    rows = manifest.read_rows(options.quarantine, manifest.QUARANTINE)
    items = sorted({row["item_id"] for row in rows})
    if len(items) > options.allowed:
        reasons = {row["item_id"]: f"{row['stage']}: {row['error']}" for row in reversed(rows)}
        lines = [f"  {item!r}: {reasons[item]}" for item in items[:20]]
        rest = [f"  and {len(items) - 20} more"] if len(items) > 20 else []
        raise ManifestError(
            f"{len(items)} items are quarantined, max_quarantine allows {options.allowed}. Mend them, leave them out "
            f"with `subset`, or raise max_quarantine in config.yaml. All of them: {options.quarantine}\n"
            + "\n".join(lines + rest)
        )
    storage.write_text(options.output, f"{len(items)} quarantined, {options.allowed} allowed\n")
    return 0
