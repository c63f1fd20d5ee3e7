"""The command that draws one clip under perturbations: preview."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.cli.arguments import Commands, add_command
from perturbations.cli.video import add_realization, rows_from


def add(commands: Commands) -> None:
    """Declare the command of this file."""
    text = "draw a contact sheet of one clip under perturbations and severities"
    parser = add_command(commands, "preview", _preview, text)
    parser.add_argument("input", type=Path, help="a video or picture file")
    text = "a .jpg, .webp or .png; default: <name>.preview.jpg in this folder"
    parser.add_argument("-o", "--output", type=Path, help=text)
    text = "suites or single perturbations; default: mlvp"
    parser.add_argument("-p", "--perturbations", nargs="+", metavar="SUITE[/NAME]", help=text)
    text = "default: 1 3 5, or all that the perturbations share"
    parser.add_argument("-s", "--severities", nargs="+", type=int, help=text)
    add_realization(parser)


def _preview(options: argparse.Namespace) -> int:
    from perturbations.models.guides.backends import STAND_IN
    from perturbations.pages import preview

    output = options.output or Path(f"{options.input.stem}.preview.jpg")
    stand_ins, left_out = preview.from_video(
        *rows_from(options),
        output,
        names=options.perturbations or ["mlvp"],
        severities=options.severities,
        seed=options.seed,
        variant=options.variant,
    )
    if stand_ins:
        print(f"made by {STAND_IN}s of models, not comparable with published results: {', '.join(stand_ins)}")
    if left_out:
        why = "they need several frames, or frames of other videos (--donors)"
        print(f"left out, because {why}: {', '.join(left_out)}")
    print(output)
    return 0
