"""After failures: let the next run process quarantined items again."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base import shown
from perturbations.cli.arguments import Parser


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--dataset", nargs="+", default=[], help="only items of these datasets")
    text = "only items of these suites, and their sources and analyses"
    parser.add_argument("--suite", nargs="+", default=[], help=text)
    text = "only these items (for whole videos: the videos' ids)"
    parser.add_argument("--item", action="extend", nargs="+", default=[], metavar="ID", help=text)
    text, stages = "only items that failed at these stages", ("source", "analysis", "video")
    parser.add_argument("--stage", nargs="+", default=[], choices=stages, help=text)
    text = "only print the items that would be processed again"
    parser.add_argument("-n", "--dry-run", action="store_true", help=text)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from perturbations.corpus import retried_items

    names = {"datasets": options.dataset, "suites": options.suite, "stages": options.stage, "items": options.item}
    rows = retried_items.quarantined_rows(Path(), **names)
    for line, _, _ in rows:
        print(f"  {shown.line(line)}")
    if not options.dry_run:
        retried_items.delete_parts(Path(), rows)
    parts = len({part for _, part, _ in rows})
    would = "would be" if options.dry_run else "will be"
    print(f"{shown.plural(len(rows), 'quarantined row')} in {shown.plural(parts, 'part')} {would} processed again")
    if rows and not options.dry_run:
        print("Now run snakemake: finished items are kept.")
    return 0
