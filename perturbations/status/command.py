"""The commands that show how far a run is, what it did, and what it may try again: status, summary, retry."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base import shown
from perturbations.base.errors import ConfigError
from perturbations.cli.arguments import Commands, add_command


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "status", _status, "show how far the run in this folder is")
    parser.add_argument("--json", action="store_true", help="print a JSON document, for programs")

    parser = add_command(
        commands, "summary", _summary, "print what the run in this folder made, and write a page of it"
    )
    parser.add_argument("-o", "--output", type=Path, help="the page, .html; default: manifests/run.html")

    parser = add_command(
        commands, "retry", _retry, "let the next run process quarantined items, or deleted files, again"
    )
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
        "--files",
        action="store_true",
        help="instead of quarantined items: those whose file is missing or has another size",
    )
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="only print the items that would be processed again"
    )


def _status(options: argparse.Namespace) -> int:
    from perturbations.status import status
    from perturbations.status import text as status_text

    current = status.collect(Path())
    if options.json:
        import json
        from dataclasses import asdict

        print(json.dumps(asdict(current), indent=2))
    else:
        print(status_text.text(current))
        names = {stage.dataset.partition("/")[0] for stage in current.stages}
        if unknown := names - _configured(Path("config.yaml"), names):
            print(f"\nnot in config.yaml: {', '.join(sorted(unknown))}: renamed, taken out, or of another --configfile")
    return 0


def _configured(path: Path, otherwise: set[str]) -> set[str]:
    """The datasets of a configuration; `otherwise` where it cannot be read."""
    from perturbations.base.errors import ConfigError
    from perturbations.config import file as config_file

    try:
        datasets = config_file.load([path]).get("datasets") if path.exists() else None
    except ConfigError:
        return otherwise
    return {str(name) for name in datasets} if isinstance(datasets, dict) else otherwise


def _summary(options: argparse.Namespace) -> int:
    from perturbations.report import summary

    collected = summary.collect(Path())
    if collected.status.run is None and not collected.status.stages:
        raise ConfigError("nothing was planned here yet: run it in the folder in which the workflow runs")
    page = options.output or summary.PAGE
    summary.write(page, collected)
    print(summary.text(collected, page))
    return 0


def _retry(options: argparse.Namespace) -> int:
    from perturbations.status import retry

    selection = retry.Selection(options.dataset, options.suite, options.stage, options.item)
    rows = retry.find_files(Path(), selection) if options.files else retry.find(Path(), selection)
    for row in rows:
        print(f"  {shown.line(str(row))}")
    if not options.dry_run:
        retry.forget(Path(), rows)
    parts = len({row.part for row in rows})
    what = "files" if options.files else "quarantined rows"
    print(f"{len(rows)} {what} in {parts} parts {'would be' if options.dry_run else 'will be'} processed again")
    if rows and not options.dry_run:
        print("Now run snakemake: finished items are kept.")
    return 0
