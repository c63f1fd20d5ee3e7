"""The state of a run: the process that it notes at its start, and what Snakemake's own files say. No NumPy.

A run may be writing these files, or may have been killed while it wrote: what cannot be read is left out.
"""

from __future__ import annotations

import csv
import math
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from perturbations.base import processes, progress, storage
from perturbations.base.layout import INDEX
from perturbations.manifest import layout

_NOTE = Path(layout.at("run"))
_JOBS = "Job stats:"
_STEPS = re.compile(r"(\d+) of (\d+) steps \(")
_ERROR = re.compile(r"^Error in rule (\w+):\n((?:    .*\n)+)", re.MULTILINE)
_NEWEST = 20
_SECONDS = "s"
"""The column of a benchmark with the job's wall-clock time."""


@dataclass(frozen=True)
class FailedJob:
    """A job that failed: its rule, its log, relative to the workflow's folder, and the log's last line."""

    rule: str
    log: str
    reason: str


@dataclass(frozen=True)
class RecordedRun:
    """What is known of the newest run."""

    running: bool  # its lock is there: it runs, unless it was killed on another machine
    killed: bool  # its lock is there, and the process that it noted is not
    log: str  # relative to the workflow's folder
    began: float  # seconds since 1970; 0 where it is over
    age_s: float  # since the log's last line
    steps_done: int
    steps: int  # 0 before the first has ended
    failed: tuple[FailedJob, ...]  # whose results are not there


def note(place: Path) -> None:
    """Note the process that runs Snakemake in `place`, so that `newest` sees when it has died."""
    storage.write_text(place / _NOTE, processes.identity())


def was_cut_off(place: Path) -> bool:
    """Whether the newest run in `place` was killed: each writes the page of pages at its end, also a failed one."""
    return changed(place / _NOTE) > changed(place / INDEX)


def settle_times(place: Path, inputs: Iterable[Path]) -> None:
    """Give the files of runs in `place` that were changed in the future, by a wrong clock, the time of now.

    Snakemake would take what a job makes of them for older than they are, and stop. Raises `OutputError`.
    """
    now = time.time()
    for path in {path for path in inputs if path.is_relative_to(place) and changed(path) > now}:
        if path.relative_to(place).parts[0] in layout.TOP:
            with storage.output_errors(path):
                os.utime(path)


def locks(root: Path) -> list[Path]:
    """The locks of Snakemake in a folder: it runs there, or was killed."""
    return list((root / ".snakemake" / "locks").glob("*.lock"))


def newest(root: Path) -> RecordedRun | None:
    """The newest run of the workflow in a folder; None where there was none."""
    # `snakemake --report` and others write logs too; that of a run has its jobs.
    logs = sorted((root / ".snakemake" / "log").glob("*.snakemake.log"))[-_NEWEST:]
    texts = ((path, _text(path)) for path in reversed(logs))
    log, text = next(((path, text) for path, text in texts if _JOBS in text), (None, ""))
    if log is None:
        return None
    began = min(map(changed, locks(root)), default=0.0)
    # The note is of an earlier run where this one was started with --no-hooks.
    is_noted = bool(began) and changed(root / _NOTE) >= began
    killed = is_noted and processes.lives(_text(root / _NOTE)) is False
    *_, (done, steps) = [("0", "0"), *_STEPS.findall(text)]
    return RecordedRun(
        running=bool(began) and not killed,
        killed=killed,
        log=str(log.relative_to(root)),
        began=began,
        age_s=max(0.0, time.time() - changed(log)),
        steps_done=int(done),
        steps=int(steps),
        failed=tuple(_failed_jobs(root, text)),
    )


def _failed_jobs(root: Path, text: str) -> Iterator[FailedJob]:
    """The jobs that a run's log calls failed, each once, without those that another try has done."""
    jobs = {}
    for rule, lines in _ERROR.findall(text):
        named = dict(line.strip().partition(": ")[::2] for line in lines.splitlines())
        output = named.get("output", "").split(", ")[0].removesuffix(" (send to storage)")
        log = named.get("log", "").removesuffix(" (check log file(s) for error details)").split(", ")[0]
        if not output or not (root / output).exists():
            jobs[rule, output] = log
    for (rule, _), log in jobs.items():
        yield FailedJob(rule, log, progress.read(root / log).reason if log else "no log")


def benchmark_seconds(path: Path) -> float | None:
    """The wall-clock time of a finished job, from its benchmark; None where there is none."""
    for row in csv.DictReader(_text(path).splitlines(), delimiter="\t"):
        try:
            seconds = float(row[_SECONDS])
        except (KeyError, TypeError, ValueError):
            return None
        return seconds if 0 <= seconds < math.inf else None
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def changed(path: Path) -> float:
    """When a file was changed, in seconds since 1970; 0 where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
