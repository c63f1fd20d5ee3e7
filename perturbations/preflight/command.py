"""The command that looks at a run before it starts: check."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base import console, project
from perturbations.base.errors import ConfigError, did_you_mean
from perturbations.cli.arguments import Commands, add_command, add_directory, enter

if TYPE_CHECKING:
    from perturbations.config.sections import Config


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
    from perturbations.preflight import check as preflight
    from perturbations.preflight import wanted as planning

    further = [path.absolute() for path in options.configfile]  # as Snakemake takes them: from where it was started
    enter(options.directory)
    config = config_file.of_files([Path("config.yaml"), *further])
    limits.use(limits.parse(config.limits.model_dump_json()))
    lines, jobs = _planned(config, options.targets, further)
    for line in lines:
        print(shown.line(line))
    report = preflight.check(config, planning.of_jobs(jobs))
    for line in report.text():
        print(shown.line(line))
    report.raise_errors()
    return 0


def _mistake(config: Config, wanted: Sequence[str], printed: str) -> str:
    """The user's mistake: a target that there is not, or what Snakemake prints of it, without the traceback."""
    from perturbations.plan import paths, targets

    menu = targets.menu(config, partial(paths.plan, config), partial(paths.caption_shards, config))
    known = ["all", *(target.name for target in menu)]
    if unknown := [name for name in wanted if name not in known]:
        hint = did_you_mean(unknown[0], known) or "."
        return f"no target {unknown[0]!r}{hint} `snakemake --list-target-rules` lists them"
    mistake = re.search(r"WorkflowError:\n(.*?)(?:\nWildcards:|\nTraceback|\Z)", printed, re.DOTALL)
    return textwrap.dedent(mistake[1]).strip() if mistake else f"Snakemake cannot plan this run:\n{printed.strip()}"


def _planned(
    config: Config, targets: Sequence[str], configfiles: Sequence[Path]
) -> tuple[list[str], list[tuple[str, dict[str, str]]]]:
    """The real plan of a run: the lines of planning, and the rule and wildcards of each job.

    Raises `ConfigError` where Snakemake cannot plan.
    """
    here = any(Path(name).is_file() for name in ("Snakefile", "workflow/Snakefile"))
    words = [] if here else ["--snakefile", project.snakefile()]
    for path in configfiles:
        words += ["--configfile", str(path)]
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "plan.jsonl")
        command = [sys.executable, "-P", "-m", "snakemake", "--dry-run", "--nolock", "--cores", "1", *words]
        environment = {**os.environ, console.PLAN_VARIABLE: str(record)}
        done = subprocess.run([*command, "--", *targets], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise ConfigError(_mistake(config, targets, done.stdout + done.stderr))
        return console.read_plan(record)
