"""The command that draws contact sheets: preview."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.cli.arguments import Commands, add_command
from perturbations.cli.people_clips import add_realization, rows_from


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(
        commands, "preview", _preview, "draw a contact sheet of one clip under perturbations and severities"
    )
    parser.add_argument("input", type=Path, help="a video file, or a `videos` manifest")
    parser.add_argument(
        "-o", "--output", type=Path, help="a .jpg, .webp or .png; default: <name>.preview.jpg in this folder"
    )
    parser.add_argument(
        "-p",
        "--perturbations",
        nargs="+",
        metavar="SUITE[/NAME]",
        help="suites or single perturbations; default: mlvp of a video, and all of a manifest",
    )
    parser.add_argument(
        "-s",
        "--severities",
        nargs="+",
        type=int,
        help="default: of a video 1 3 5, or all that its perturbations share; all of a manifest",
    )
    parser.add_argument("--item", metavar="ID", help="which item of the manifest; default: the first complete one")
    add_realization(parser)


def _preview(options: argparse.Namespace) -> int:
    from perturbations.manifest import layout
    from perturbations.report import preview

    options.output = options.output or Path(f"{options.input.stem}.preview.jpg")
    if layout.is_manifest(options.input):
        preview.from_manifest(
            options.input,
            options.output,
            item=options.item,
            names=options.perturbations,
            severities=options.severities or range(1, 8),
        )
    else:
        left_out = preview.from_video(
            *rows_from(options),
            options.output,
            names=options.perturbations or ["mlvp"],
            severities=options.severities,
            seed=options.seed,
            variant=options.variant,
        )
        if left_out:
            why = "they need several frames, or frames of other videos (--donors)"
            print(f"left out, because {why}: {', '.join(left_out)}")
    print(options.output)
    return 0
