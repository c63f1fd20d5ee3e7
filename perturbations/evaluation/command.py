"""The command that writes the page of results: report."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from perturbations.base.errors import ConfigError
from perturbations.cli.arguments import Commands, add_command
from perturbations.cli.common import need_models
from perturbations.manifest import layout

_log = logging.getLogger("perturbations")


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
        "--datasets", nargs="*", default=[], help="datasets whose corpora are described: what is complete and left out"
    )
    parser.add_argument("--figures", type=Path, help="write the papers' figures, .svg, and their data, .csv, here")
    parser.add_argument(
        "--features", nargs="*", default=[], type=Path, help="with --figures: t-SNE of these files of `perturb encode`"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="the page, .html")


def _report(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.evaluation.page import figure_files, page
    from perturbations.manifest import files

    if options.features:
        if options.figures is None:
            raise ConfigError("--features draws t-SNE into the folder of --figures: name one")
        figure_files.of_features(options.figures, options.features)

    def there(kind: str) -> list[Path]:
        return [path for name in options.datasets for path in sorted(Path().glob(layout.any_of(kind, dataset=name)))]

    former = [path for path in options.results if files.is_former(path)]
    for path in former:
        _log.warning("%s is of an earlier version, and left out: run snakemake again for results of today", path)
    page.write(
        options.output,
        results=[path for path in options.results if path not in former],
        ranks=options.ranks,
        pictures=options.pictures,
        statistics=there("text_statistics"),
        quarantine=[*there("captions_quarantine"), *there("quarantine")],
        figures=options.figures,
    )
    return 0
