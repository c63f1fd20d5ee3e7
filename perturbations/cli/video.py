"""Perturb one video file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations import __version__
from perturbations.base import shown
from perturbations.base.errors import ConfigError, MediaError
from perturbations.cli.arguments import Parser

if TYPE_CHECKING:
    from perturbations.manifest.rows import CompleteSource


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path, help="the perturbed video, an .mp4")
    parser.add_argument("-p", "--perturbation", required=True, metavar="SUITE/NAME")
    parser.add_argument("-s", "--severity", required=True, type=int)
    add_realization(parser)
    parser.add_argument("--profile", default="high", choices=("lossless", "high", "compatible", "released"))


def add_realization(parser: argparse.ArgumentParser) -> None:
    """Add the options that the realization of one clip depends on."""
    parser.add_argument("--seed", type=int, default=0)
    same = "goes into the random numbers: give the same as in a corpus to get its frames"
    parser.add_argument("--dataset", default="", help=same)
    text = f"{same}; default: the file's name without its ending"
    parser.add_argument("--item-id", metavar="ID", help=text)
    parser.add_argument("--variant", help="which of the suite's variants: released, paper, ...; default: its first")
    parser.add_argument(
        "--donors",
        nargs="+",
        type=Path,
        default=[],
        metavar="VIDEO",
        help="videos that event_insertion may take a segment from",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from perturbations.corpus.plan import recipe, tiers
    from perturbations.corpus.render import clean_clips
    from perturbations.corpus.store import stored_clip
    from perturbations.models.guides.backend_settings import STAND_IN, has_stand_in

    if options.output.suffix != ".mp4":
        raise ConfigError(f"the output must be an .mp4, not {options.output.name}")
    check_output(options.output, options)
    entry = recipe.entry_of("video", options.perturbation, options.variant)
    job_recipe = recipe.make(
        entry,
        options.severity,
        seed=options.seed,
        storage=tiers.stored_video(options.profile),
        donors="--donors",
    )
    source = clean_clips.source_with_facts(job_recipe, *rows_from(options))
    measured = stored_clip.make_clip(job_recipe, source, options.output)
    decibel = measured["storage_psnr_db"]
    lossy = "exact" if decibel == float("inf") else f"{decibel:.1f} dB"
    frames, megabytes = shown.plural(measured["stored_frames"], "frame"), measured["bytes"] / 1e6
    print(f"{options.output}: {frames}, {megabytes:.2f} MB, stored {lossy}")
    print(f"{entry.key} at severity {options.severity}, seed {options.seed}, perturbations {__version__}")
    if has_stand_in(entry.guide):
        print(f"made by the {STAND_IN} of a model, not comparable with published results: {entry.key}")
    return 0


def check_output(output: Path, options: argparse.Namespace) -> None:
    """Raise `ConfigError` where a file that is read would be overwritten."""
    for path in (options.input, *options.donors):
        if output.exists() and path.exists() and output.samefile(path):
            raise ConfigError(f"the output {output} is the input itself: name another file")


def rows_from(options: argparse.Namespace) -> tuple[CompleteSource, list[CompleteSource]]:
    """The rows of the input and of the donors, as in a sources manifest."""
    item_id = options.item_id if options.item_id is not None else options.input.stem
    return _row_of(options.dataset, options.input, item_id), [
        _row_of("donors", path, str(path)) for path in options.donors
    ]


def _row_of(dataset: str, path: Path, item_id: str) -> CompleteSource:
    from perturbations.corpus.plan.clip_lists import ListedClip
    from perturbations.corpus.store import clip_rows

    listed = ListedClip(item_id=item_id, source_video_id=item_id, path=str(path))
    try:
        return clip_rows.source_row(dataset, listed)
    except MediaError as error:
        raise MediaError(f"{path}: {error}") from error
