"""The command that writes the page of results: report."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.cli.arguments import Commands, add_command
from perturbations.cli.common import need_models
from perturbations.manifest import layout


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "report", _report, "write one HTML page of the results")
    parser.add_argument("--results", nargs="*", default=[], type=Path, help="manifests of results")
    parser.add_argument(
        "--ranks", nargs="*", default=[], type=Path, help="manifests of their ranks; results without have no intervals"
    )
    parser.add_argument(
        "--pictures", nargs="*", default=[], type=Path, help="the data of the pictures, .json, from the jobs"
    )
    parser.add_argument(
        "--datasets", nargs="*", default=[], help="datasets whose contact sheets, statistics and quarantine are shown"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="the page, .html")


def _report(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.evaluation.page import page

    def there(kind: str) -> list[Path]:
        return [path for name in options.datasets for path in sorted(Path().glob(layout.any_of(kind, dataset=name)))]

    page.write(
        options.output,
        results=options.results,
        ranks=options.ranks,
        pictures=options.pictures,
        statistics=there("text_statistics"),
        quarantine=[*there("captions_quarantine"), *there("quarantine")],
        sheets=there("preview") if "preview" in layout.patterns() else [],
    )
    return 0
