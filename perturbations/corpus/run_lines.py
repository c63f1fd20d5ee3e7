"""What a run of Snakemake prints under the quiet profiles: its jobs, how far it is, and each job that fails.

Snakemake sends all its output as records of one logger; the `event` of a record says what it is about.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from perturbations.base import progress, shown
from perturbations.corpus import slurm_jobs

_EVERY_S = 60.0
"""Seconds after which a line says how far the run is."""

_PER_JOB = ("Select jobs to execute", "Execute ", "RuleException:\nCalledProcessError")
"""The beginnings of lines that Snakemake prints for every few jobs and for each failed job, however quiet it is."""

_OF_DRY_RUNS = ("Some jobs were triggered by provenance", "Rules with provenance triggered jobs")
"""The beginnings of texts that end a dry run after a list of reasons. They refer to displays of jobs, which a quiet run
lacks, and advise to wipe metadata, which would keep files of a changed parameter."""


_LogState = tuple[str, int, int, int]
_SUBMITTED = re.compile(r"Job (\S+) has been submitted with SLURM jobid (\S+) ")
_RUN = "SLURM run ID: "
"""What the Slurm plugin prints; such a record has no `event`."""


def add_to(logger: logging.Logger, stop: Callable[[str], None]) -> None:
    """Let Snakemake's logger print these lines, and not a line per job. A second call for a logger does nothing.

    `stop` ends a run with an error.
    """
    if any(isinstance(handler, RunLines) for handler in logger.handlers):
        return
    for handler in logger.handlers:
        handler.addFilter(lambda record: not record.getMessage().startswith((*_PER_JOB, *_OF_DRY_RUNS)))
    logger.addHandler(RunLines(stop))


class RunLines(logging.Handler):
    """Prints the jobs of a run or a dry run once, a line per minute, and a line per failed job.

    On Slurm, it also says why jobs wait.
    """

    def __init__(self, stop: Callable[[str], None]) -> None:
        super().__init__()
        self._stop = stop
        self._logs: dict[str, tuple[str, Sequence[str]]] = {}  # the rule and the logs of each job
        self._before: dict[str, list[_LogState | None]] = {}
        self._watch: slurm_jobs.Watch | None = None
        self._jobs = ""
        self._begun = self._total = 0
        self._last_s = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Print the line for a record about jobs; ignore other records."""
        event, fields = getattr(record, "event", None), vars(record)
        if event == "run_info" and not self._jobs:
            counts = {name: count for name, count in fields["stats"].items() if name != "total"}
            self._jobs = ", ".join(f"{name} {count:,}" for name, count in counts.items())
            self._total = sum(counts.values())
            self._print(f"{shown.plural(self._total, 'job')}: {self._jobs}")
        elif event == "job_started":  # under quiet profiles, Snakemake says nothing of finished ones
            self._begun += len(fields["jobs"])
            if self._watch:
                self._watch.begin()
            if time.monotonic() - self._last_s > _EVERY_S:
                self._print(f"started {self._begun:,} of {shown.plural(self._total, 'job')}")
        elif event == "job_info":
            job_id = str(fields["jobid"])
            self._logs[job_id] = fields["rule_name"], fields["log"]
            self._before[job_id] = [_state(log) for log in fields["log"]]
        elif event == "job_error":
            # A job that never ran has left the log of an earlier one.
            before: Sequence[_LogState | None] = self._before.get(str(fields.get("jobid")), ())
            written = [log for log in fields["log"] if (_state(log) or log) not in before]
            reason = _reason(fields["rule_name"], fields["log"], written, fields["rule_msg"] or "")
            self._print(f"a job of {fields['rule_name']} failed: {shown.line(reason)} ({', '.join(fields['log'])})")
        elif event == "group_error":
            self._print(_failed_group(fields))
        elif event is None:
            self._follow_slurm(record.getMessage())

    def _follow_slurm(self, message: str) -> None:
        """Watch the run's jobs, as the plugin names them."""
        if message.startswith(_RUN):
            self._watch = slurm_jobs.Watch(message.removeprefix(_RUN), self._print, self._stop)
            self._watch.start()
        elif self._watch and (submitted := _SUBMITTED.match(message)) and submitted[1] in self._logs:
            self._watch.submitted(submitted[2], *self._logs[submitted[1]])

    def _print(self, line: str) -> None:
        self._last_s = time.monotonic()
        print(line, file=sys.stderr, flush=True)


def _state(log: str) -> _LogState | None:
    """What changes when a job writes its log; None where there is none."""
    try:
        status = os.stat(log)
    except OSError:
        return None
    return log, status.st_ino, status.st_mtime_ns, status.st_size


def _reason(rule: str, logs: Sequence[str], written: Sequence[str], message: str) -> str:
    """Why a job failed: its own error, Slurm's, or what the executor says, or the last line of the logs that it wrote.

    On Slurm, a job's last log is Slurm's own log. Slurm's error is written into the job's log, too.
    """
    errors = filter(None, (progress.error_of(Path(log)) for log in written))
    if error := next(errors, None):
        return error
    if "SLURM" in message and (of_slurm := slurm_jobs.reason_of_end(rule, Path(logs[-1]) if logs else None, message)):
        slurm_jobs.note(logs, of_slurm)
        return of_slurm
    ended = " ".join(takewhile(lambda line: not line.startswith(" "), message.splitlines()))  # then, the whole call
    last = next(filter(None, (progress.last_line(Path(log)) for log in written)), _silent(logs))
    return ended or last


def _failed_group(fields: Mapping[str, Any]) -> str:
    """The line for a failed group of jobs; Slurm's error is written into the logs of its unfinished jobs."""
    jobs, logs = fields["job_error_info"], [log for log in fields.get("aux_logs", ()) if log]
    rules = ", ".join(sorted({job["rule_name"] for job in jobs}))
    reason = slurm_jobs.reason_of_end(jobs[0]["rule_name"], Path(logs[-1]), "") if logs else None
    for job in jobs if reason else ():
        if not all(Path(output).exists() for output in job["output"]):
            slurm_jobs.note(job["log"], str(reason))
    return f"a group of jobs failed: {rules}: {shown.line(reason or str(fields['msg']))}"


def _silent(logs: Sequence[str]) -> str:
    """Why a job's log may hold nothing."""
    if any(Path(log).parent.is_dir() and not shutil.disk_usage(Path(log).parent).free for log in logs):
        return "no space is left on the disk: its log could not be written"
    return "it was killed before it wrote a line"
