"""Draw a contact sheet of one clip under perturbations and severities."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from perturbations.base.errors import ConfigError
from perturbations.cli.arguments import Parser
from perturbations.cli.video import add_realization, check_output, rows_from


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_argument("input", type=Path, help="a video or picture file")
    text = (
        "a .jpg, .webp or .png, of --animate a .webp or .mp4; default: <name>.preview.jpg, <name>.<perturbation>.webp"
    )
    parser.add_argument("-o", "--output", type=Path, help=text)
    text = "suites or single perturbations; default: mlvp"
    parser.add_argument("-p", "--perturbations", nargs="+", metavar="SUITE[/NAME]", help=text)
    text = "show one perturbation moving, clean and at each severity side by side; without a name, the one of -p"
    parser.add_argument("--animate", nargs="?", const="", metavar="SUITE/NAME", help=text)
    text = "default: 1 3 5, or all that the perturbations share; of --animate all"
    parser.add_argument("-s", "--severities", nargs="+", type=int, help=text)
    add_realization(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from perturbations.models.guides.backend_settings import STAND_IN
    from perturbations.pages import animation, preview_sheet

    realization = {"severities": options.severities, "seed": options.seed, "variant": options.variant}
    left_out: list[str] = []
    if options.animate is None:
        output = options.output or Path(f"{options.input.stem}.preview.jpg")
        names = options.perturbations or ["mlvp"]
        check_output(output, options)
        stand_ins, left_out = preview_sheet.from_video(*rows_from(options), output, names=names, **realization)
    else:
        names = [*filter(None, [options.animate]), *(options.perturbations or ())]
        if len(names) != 1:
            example = f"perturb preview {shlex.quote(str(options.input))} --animate mlvp/fog"
            raise ConfigError(f"--animate shows one perturbation, not {len(names)}: {example}")
        output = options.output or Path(f"{options.input.stem}.{names[0].rpartition('/')[2]}.webp")
        check_output(output, options)
        stand_in = animation.animate(*rows_from(options), output, name=names[0], **realization)
        stand_ins = [stand_in] if stand_in else []
    if stand_ins:
        print(f"made by {STAND_IN}s of models, not comparable with published results: {', '.join(stand_ins)}")
    if left_out:
        why = "they need several frames, or frames of other videos (--donors)"
        print(f"left out, because {why}: {', '.join(left_out)}")
    print(output)
    return 0
