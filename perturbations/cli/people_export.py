"""The command that writes a corpus in another program's layout."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.cli.arguments import Commands, add_command, add_stall_limit, positive
from perturbations.cli.common import need_models
from perturbations.errors import ConfigError
from perturbations.system import shown


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "export", _export, "write a corpus in another program's layout")
    parser.add_argument("manifest", type=Path, help="a manifest of sources, videos or texts (perturbed captions)")
    parser.add_argument("--format", choices=["vtr_tta"], required=True, help="X-Pool's and HAT-VTR's released loaders")
    parser.add_argument("--order", type=Path, help="captions: the test split's own file, which says in which order")
    parser.add_argument("--num-frames", type=positive, default=12)
    parser.add_argument("--size", type=positive, default=224, help="side of the pictures, in pixels; default: 224")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder")
    add_stall_limit(parser)


def _export(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.exports import vtr_tta
    from perturbations.manifest import files
    from perturbations.manifest.kinds import TEXTS

    if files.kind_of(options.manifest) == TEXTS:
        if options.order is None:
            raise ConfigError("--order: captions are written in the order of the test split's file, which one?")
        made = vtr_tta.vtr_tta_captions(options.manifest, options.output, options.order)
        print(f"{options.output}: {made:,} lists of captions")
        return 0
    done = vtr_tta.vtr_tta_videos(
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
