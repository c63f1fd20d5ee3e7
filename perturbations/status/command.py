"""The commands that show how far a run is, and what it did: status, summary, corpus-page."""

from __future__ import annotations

import argparse
from pathlib import Path

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
        commands, "corpus-page", _corpus_page, "write the page of a corpus: counts, failures, distortion, crops"
    )
    parser.add_argument(
        "videos", type=Path, metavar="MANIFEST", help="a manifest of videos; quarantine.parquet beside it"
    )
    parser.add_argument("-o", "--output", type=Path, help="the page, .html; default: corpus.html beside the manifest")


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


def _corpus_page(options: argparse.Namespace) -> int:
    from perturbations.report import corpus

    output = options.output or options.videos.with_name("corpus.html")
    corpus.write(options.videos, output)
    print(output)
    return 0
