"""The command that says how far a run is: status."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from perturbations.cli.arguments import Commands, add_command, add_directory, add_json, enter


def add(commands: Commands) -> None:
    """Declare the command of this file."""
    parser = add_command(commands, "status", _status, "during or after a run: how far it is, and what failed")
    add_json(parser)
    add_directory(parser)


def _status(options: argparse.Namespace) -> int:
    from perturbations.corpus import run_status

    enter(options.directory)
    current = run_status.collect(Path())
    print(json.dumps(current, indent=2) if options.json else run_status.text(current))
    return 0
