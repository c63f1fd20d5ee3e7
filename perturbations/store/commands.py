"""The commands of runs in an object store: fetch, for people, and pack-clips, of a rule."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base import shown
from perturbations.cli.arguments import Commands, add_command, add_job

_MOST_SHOWN = 10


def add_fetch(commands: Commands) -> None:
    """Declare `perturb fetch`."""
    parser = add_command(commands, "fetch", _fetch, "bring the results of a run in an object store here")
    parser.add_argument(
        "store", help="what the run was given as --default-storage-prefix, e.g. s3://bucket/folder; or a folder"
    )


def _fetch(options: argparse.Namespace) -> int:
    from perturbations.store import fetching

    fetched = fetching.fetch(options.store, Path())
    print(f"{fetched.manifests} manifests, cards and pages; {fetched.parts} parts and lists; {fetched.files} clips")
    for path in sorted(fetched.missing)[:_MOST_SHOWN]:
        print(f"  not in the store: {shown.line(path)}")
    if len(fetched.missing) > _MOST_SHOWN:
        print(f"  and {len(fetched.missing) - _MOST_SHOWN} more")
    return 1 if fetched.missing else 0


def add_pack_clips(commands: Commands) -> None:
    """Declare `perturb rule pack-clips`."""
    add_job(commands, _pack_clips)


def _pack_clips(listed: Path, output: Path) -> None:
    """Pack the user's videos of a shard for an object store."""
    from perturbations.plan.listed import ListedClip, read
    from perturbations.store import packs

    packs.write_originals(output, read(listed, ListedClip))
