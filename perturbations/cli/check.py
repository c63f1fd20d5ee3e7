"""Before a run: whether it can succeed, by config.yaml, clips, models and disk space."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.base import shown
from perturbations.cli.arguments import Parser, add_directory, enter


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_argument("targets", nargs="*", default=["all"], help="targets of snakemake; the default is the demo")
    add_directory(parser)
    text = "a further file over config.yaml, as for snakemake; may be given several times"
    parser.add_argument("--configfile", action="append", type=Path, default=[], help=text)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from perturbations.base import limits
    from perturbations.config import file as config_file
    from perturbations.corpus import check_before_a_run
    from perturbations.corpus.plan import folders, targets

    further = [path.absolute() for path in options.configfile]  # as Snakemake takes them: from where it was started
    enter(options.directory)
    config = config_file.read_config([Path("config.yaml"), *further], options.targets)
    folders.check_folders(Path())
    limits.use(config.limits.model_dump())
    works = targets.named(config, options.targets)
    report = check_before_a_run.check(config, works)
    for line in (*targets.together(works).sizes, *report.text()):
        print(shown.line(line))
    report.raise_errors()
    return 0
