"""The command that looks at a run before it starts: check."""

from __future__ import annotations

import argparse
from pathlib import Path

from perturbations.cli.arguments import Commands, add_command, add_directory, enter


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    text = "before a run: whether it can succeed, by config.yaml, clips, models and disk space"
    parser = add_command(commands, "check", _check, text)
    parser.add_argument("targets", nargs="*", default=["all"], help="targets of snakemake; the default is the demo")
    add_directory(parser)
    text = "a further file over config.yaml, as for snakemake; may be given several times"
    parser.add_argument("--configfile", action="append", type=Path, default=[], help=text)


def _check(options: argparse.Namespace) -> int:
    from perturbations.base import limits, shown
    from perturbations.config import file as config_file
    from perturbations.corpus import paths
    from perturbations.report import check, work

    further = [path.absolute() for path in options.configfile]  # as Snakemake takes them: from where it was started
    enter(options.directory)
    config = config_file.of_files([Path("config.yaml"), *further])
    paths.check_folders(Path())
    limits.use(config.limits.model_dump())
    wanted = work.of_targets(config, options.targets)
    report = check.check(config, wanted)
    for line in (*wanted.sizes, *report.text()):
        print(shown.line(line))
    report.raise_errors()
    return 0
