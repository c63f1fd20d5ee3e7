"""The commands about the state of a run: status and retry."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base import shown
from perturbations.cli.arguments import Commands, add_command, add_directory, add_json, enter


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    text = "during or after a run: how far it is, and what failed"
    parser = add_command(commands, "status", _status, text)
    add_json(parser)
    add_directory(parser)

    text = "after failures: let the next run process quarantined items again"
    parser = add_command(commands, "retry", _retry, text)
    parser.add_argument("--dataset", nargs="+", default=[], help="only items of these datasets")
    parser.add_argument(
        "--suite", nargs="+", default=[], help="only items of these suites, and their sources and analyses"
    )
    text = "only these items (for whole videos: the videos' ids)"
    parser.add_argument("--item", action="extend", nargs="+", default=[], metavar="ID", help=text)
    parser.add_argument(
        "--stage",
        nargs="+",
        default=[],
        choices=("source", "analysis", "video"),
        help="only items that failed at these stages",
    )
    text = "only print the items that would be processed again"
    parser.add_argument("-n", "--dry-run", action="store_true", help=text)


def _status(options: argparse.Namespace) -> int:
    from perturbations.report import status

    enter(options.directory)
    current = status.collect(Path())
    if options.json:
        import json

        print(json.dumps(current, indent=2))
    else:
        print(status.text(current))
    return 0


def _retry(options: argparse.Namespace) -> int:
    from perturbations.report import retry

    names = {"datasets": options.dataset, "suites": options.suite, "stages": options.stage, "items": options.item}
    rows = retry.find(Path(), **names)
    for line, _, _ in rows:
        print(f"  {shown.line(line)}")
    if not options.dry_run:
        retry.forget(Path(), rows)
    parts = len({part for _, part, _ in rows})
    would = "would be" if options.dry_run else "will be"
    print(f"{shown.plural(len(rows), 'quarantined row')} in {shown.plural(parts, 'part')} {would} processed again")
    if rows and not options.dry_run:
        print("Now run snakemake: finished items are kept.")
    return 0
