"""What a run of Snakemake prints under the quiet profiles: its jobs, how far it is, and each job that fails.

Snakemake sends all its output as records of one logger; the `event` of a record says what it is about.
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from perturbations.base import progress, shown

_EVERY_S = 60.0
"""Seconds after which a line says how far the run is."""

_PER_JOB = ("Select jobs to execute", "Execute ", "RuleException:\nCalledProcessError")
"""How the lines begin that Snakemake prints for every few jobs, and for each that fails, under all kinds of quiet."""


def add_to(logger: logging.Logger) -> None:
    """Let Snakemake's logger print these lines, and not a line per job; once, also where modules share the logger."""
    if any(isinstance(handler, RunLines) for handler in logger.handlers):
        return
    for handler in logger.handlers:
        handler.addFilter(lambda record: not record.getMessage().startswith(_PER_JOB))
    logger.addHandler(RunLines())


class RunLines(logging.Handler):
    """Prints the jobs of a run or a dry run once, a line per minute, and a line per failed job."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs = ""
        self._begun = self._total = 0
        self._last_s = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Print what a record says, if it is one of these."""
        event, fields = getattr(record, "event", None), vars(record)
        if event == "run_info" and not self._jobs:
            counts = {name: count for name, count in fields["stats"].items() if name != "total"}
            self._jobs = ", ".join(f"{name} {count:,}" for name, count in counts.items())
            self._total = sum(counts.values())
            self._print(f"{shown.plural(self._total, 'job')}: {self._jobs}")
        elif event == "job_started":  # under quiet profiles, Snakemake says nothing of finished ones
            self._begun += len(fields["jobs"])
            if time.monotonic() - self._last_s > _EVERY_S:
                self._print(f"started {self._begun:,} of {shown.plural(self._total, 'job')}")
        elif event == "job_error":
            reason = _reason(fields["log"], fields["rule_msg"] or "")
            self._print(f"a job of {fields['rule_name']} failed: {shown.line(reason)} ({', '.join(fields['log'])})")
        elif event == "group_error":
            rules = ", ".join(job["rule_name"] for job in fields["job_error_info"])
            self._print(f"a group of jobs failed: {rules}: {shown.line(str(fields['msg']))}")

    def _print(self, line: str) -> None:
        self._last_s = time.monotonic()
        print(line, file=sys.stderr, flush=True)


def _reason(logs: Sequence[str], message: str) -> str:
    """Why a job failed: its own error, or what the executor says, such as `sbatch`, or the last line of its log."""
    errors = filter(None, (progress.error_of(Path(log)) for log in logs))
    ended = " ".join(takewhile(lambda line: not line.startswith(" "), message.splitlines()))  # then, the whole call
    last = next(filter(None, (progress.last_line(Path(log)) for log in logs)), _silent(logs))
    return next(errors, ended or last)


def _silent(logs: Sequence[str]) -> str:
    """Why a job's log may hold nothing."""
    if any(Path(log).parent.is_dir() and not shutil.disk_usage(Path(log).parent).free for log in logs):
        return "no space is left on the disk: its log could not be written"
    return "it was killed before it wrote a line"
