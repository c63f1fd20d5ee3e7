"""Paired results of models' answers to questions about clips."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from perturbations.base import shown
from perturbations.base.errors import ConfigError, short
from perturbations.cli.arguments import Parser


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "logs",
        nargs="+",
        type=Path,
        help="lmms-eval's samples and VLMEvalKit's tables, or folders of them; CSV or JSON lines of question_id, "
        "suite, perturbation, severity (0: clean), model, response",
    )
    parser.add_argument("--questions", type=Path, required=True, help="the dataset's questions.parquet")
    for option, of in (("--cell", "the cell (fog_3, clean)"), ("--model", "the model")):
        parser.add_argument(
            option, action="append", default=[], metavar="NAME=PATH", help=f"{of} of a log that does not say it"
        )
    parser.add_argument(
        "--margin",
        type=_points,
        metavar="POINTS",
        help="name the drops that are significantly smaller than this, by two one-sided tests at 5 %%",
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("scored"), help="a folder; default: scored")


def _points(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 100:
        raise argparse.ArgumentTypeError(f"must be points of accuracy above 0, not {short(text)}")
    return value


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from perturbations.corpus.jobs.job_metadata import provenance
    from perturbations.manifest import files
    from perturbations.manifest.rows import QUESTIONS
    from perturbations.questions import answer_logs, pairs, questions_page
    from perturbations.questions.answer_rows import ANSWER_RESULTS, ANSWERS, cell_of
    from perturbations.questions.table import sha256_of

    table = files.read_rows(options.questions, QUESTIONS)
    described = files.read_metadata(options.questions)
    questions = answer_logs.Questions(table, sha256_of(table), options.questions)
    named = partial(cell_of, suites=_suites(options.questions.parent))
    cells = {path: named(name) for path, name in _by_path("--cell", options.cell, options.logs).items()}
    models = _by_path("--model", options.model, options.logs)
    rows = answer_logs.read(list(dict.fromkeys([*options.logs, *cells, *models])), questions, cells, models, named)
    results = pairs.results(rows, table, margin=options.margin)
    place = options.output / "results.parquet"
    about = {**provenance(place), "root": ".", "dataset": described.get("dataset"), "margin": options.margin}
    about |= {"questions": os.path.relpath(options.questions, options.output), "questions_sha256": questions.sha256}
    files.write(options.output / "answers.parquet", ANSWERS, rows, about)
    files.write(place, ANSWER_RESULTS, results, about)
    for row in results:
        print(shown.line(questions_page.sentence(row)))
    return 0


def _by_path(option: str, given: Sequence[str], logs: Sequence[Path]) -> Mapping[Path, str]:
    """The names of `NAME=PATH`, by path. Raises `ConfigError`."""
    names = {}
    for text in given:
        name, mark, path = text.partition("=")
        if not (name and mark and path):
            raise ConfigError(f"{option} is NAME=PATH, not {short(text)}")
        if not Path(path).exists():
            raise ConfigError(f"{option} {text}: no such file or folder: {path}")
        names[Path(path)] = name
    return names


def _suites(folder: Path) -> dict[str, set[tuple[str, int]]]:
    """The scenarios of suites: of those that have a corpus beside the table of questions, or of all."""
    from perturbations.suites import suite_registry

    own = {
        name: {(entry.name, severity) for entry in suite.perturbations for severity in entry.severities}
        for name, suite in suite_registry.suites().items()
    }
    there = {name: scenarios for name, scenarios in own.items() if (folder / name).is_dir()}
    return there or own
