"""During or after a run: how far it is, and what failed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from perturbations.cli.arguments import Parser, add_directory, add_json, enter


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    add_json(parser)
    add_directory(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from perturbations.corpus import run_status

    enter(options.directory)
    current = run_status.collect(Path())
    print(json.dumps(current, indent=2) if options.json else run_status.text(current))
    return 0
