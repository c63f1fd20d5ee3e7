"""The commands about the state of a run: status, retry, clean."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base import shown
from perturbations.cli.arguments import Commands, add_command, add_directory, add_json, enter


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    text = "during or after a run: how far it is, how much time is left, what failed"
    parser = add_command(commands, "status", _status, text)
    add_json(parser)
    add_directory(parser)
    parser.add_argument("--failures", action="store_true", help="print what failed only; nothing where nothing did")

    text = "after failures: let the next run process quarantined items again"
    parser = add_command(commands, "retry", _retry, text)
    parser.add_argument("--dataset", nargs="+", default=[], help="only items of these datasets")
    parser.add_argument(
        "--suite", nargs="+", default=[], help="only items of these suites, and their sources and analyses"
    )
    parser.add_argument("--item", nargs="+", default=[], help="only these items (for whole videos: the videos' ids)")
    parser.add_argument(
        "--stage",
        nargs="+",
        default=[],
        choices=("source", "analysis", "video"),
        help="only items that failed at these stages",
    )
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="only print the items that would be processed again"
    )

    text = "after changes: list the files that no configuration needs any more, and delete them"
    parser = add_command(commands, "clean", _clean, text)
    text = "the configurations that are in use in this folder; default: config.yaml"
    parser.add_argument("--configfile", nargs="+", type=Path, default=[Path("config.yaml")], help=text)
    parser.add_argument("--delete", action="store_true", help="delete what is listed; without it, nothing is changed")


def _status(options: argparse.Namespace) -> int:
    from perturbations.status import status
    from perturbations.status import text as status_text

    enter(options.directory)
    current = status.collect(Path())
    if options.json:
        import json
        from dataclasses import asdict

        print(json.dumps(asdict(current), indent=2))
    elif options.failures:
        if failures := status_text.failures(current):
            print(failures)
    else:
        print(status_text.text(current))
    return 0


def _retry(options: argparse.Namespace) -> int:
    from perturbations.status import retry

    names = {"datasets": options.dataset, "suites": options.suite, "stages": options.stage, "items": options.item}
    rows = retry.find(Path(), **names)
    for row in rows:
        print(f"  {shown.line(str(row))}")
    if not options.dry_run:
        retry.forget(Path(), rows)
    parts = len({row.part for row in rows})
    would = "would be" if options.dry_run else "will be"
    print(f"{len(rows)} quarantined rows in {parts} parts {would} processed again")
    if rows and not options.dry_run:
        print("Now run snakemake: finished items are kept.")
    return 0


def _clean(options: argparse.Namespace) -> int:
    from perturbations.config import file as config_file
    from perturbations.status import clean

    configs = [config_file.of_files([path]) for path in options.configfile]
    unneeded = clean.find(Path(), configs)
    for group in unneeded:
        print(f"  {shown.line(str(group.folder))}: {len(group.files):,} files, {shown.size(group.bytes)}")
    count, size = sum(len(group.files) for group in unneeded), sum(group.bytes for group in unneeded)
    if options.delete:
        clean.delete(Path(), unneeded)
    end = "were deleted" if options.delete else "are not needed; `perturb clean --delete` deletes them" if count else ""
    print(f"{count:,} files, {shown.size(size)}, {end}" if count else "Every file of this folder's runs is needed.")
    return 0
