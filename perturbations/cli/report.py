"""Write one HTML page of the results."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base import shown
from perturbations.base.errors import ConfigError
from perturbations.cli.arguments import Parser
from perturbations.manifest import manifest_paths


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--results",
        nargs="*",
        default=[],
        type=Path,
        help="manifests of results, folders that hold them, as of `score` and `answers`, and mteb's .json",
    )
    parser.add_argument(
        "--ranks", nargs="*", default=[], type=Path, help="manifests of their ranks; results without have no intervals"
    )
    parser.add_argument(
        "--datasets", nargs="*", default=[], help="datasets whose corpora are described: what is complete and left out"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="the page, .html")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from perturbations.evaluation import evaluation_jobs
    from perturbations.manifest import files
    from perturbations.questions import questions_page

    if not options.results and not options.datasets:
        raise ConfigError("give --results, or --datasets, or both: perturb report --datasets NAME -o report.html")
    folders = [path for path in options.results if path.is_dir()]
    results = [path / manifest_paths.name("results") if path in folders else path for path in options.results]
    answers = [path for path in results if path.suffix == ".parquet" and files.kind_of(path).name == "answer_results"]
    folders = [folder for folder in folders if folder / manifest_paths.name("results") not in answers]
    ranks = [*options.ranks, *(folder / manifest_paths.name("ranks") for folder in folders)]
    results = [path for path in results if path not in answers]
    sections = questions_page.sections(answers) if answers else []
    evaluation_jobs.results_page(
        datasets=options.datasets, results=results, ranks=ranks, page=options.output, answers=sections
    )
    print(shown.line(f"page: {options.output}"))
    return 0
