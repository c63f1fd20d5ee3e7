"""The command of the rule that packs the user's clips: pack-clips."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.cli.arguments import Commands, add_command


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "pack-clips", _pack_clips, "pack the user's videos of a shard for an object store")
    parser.add_argument("--listed", type=Path, required=True, help="the shard's list file")
    parser.add_argument("--output", type=Path, required=True)


def _pack_clips(options: argparse.Namespace) -> int:
    from perturbations.plan import listed
    from perturbations.store import packs

    packs.write_originals(options.output, listed.read(options.listed, listed.ListedClip))
    return 0
