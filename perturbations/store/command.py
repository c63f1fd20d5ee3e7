"""The command that brings the results of a run in an object store: fetch."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base import shown
from perturbations.cli.arguments import Commands, add_command

_MOST_SHOWN = 10


def add(commands: Commands) -> None:
    """Declare the command of this file."""
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
