"""What a run of Snakemake prints: a line per stage, a bar on a terminal, each failure once. Its log holds the rest."""

from __future__ import annotations

import logging
import re
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from snakemake_interface_logger_plugins.base import LogHandlerBase

from perturbations.base import progress, shown
from perturbations.base.console import TARGETS
from perturbations.base.errors import did_you_mean

if TYPE_CHECKING:
    from tqdm import tqdm

_NOISE = re.compile(
    r"Using (shell|profile|workflow specific profile)|Assuming unrestricted|host: |Building DAG|Provided |"
    r"Rules claiming|"
    r"(Conda environments|Singularity containers): ignored|Group jobs: |Select jobs|Execute \d|Finished job|"
    r"Complete log|Removing temporary|Elapsed time|Exiting because a job execution failed|"
    r"At least one job did not complete|$"
)
"""How records begin that say what Snakemake does next, or that jobs failed, which a line has said."""

_FRAME = re.compile(
    r"^(Traceback:|Wildcards:|InputFunctionException in .*|\s*(Error|WorkflowError):|\s*File \".*\", line \d+, in .*)$"
)
"""Lines of Snakemake around a message of ours: where it was raised, which no user can mend."""

_OURS = re.compile(r"^\s*WorkflowError in file .*, line \d+:$")

_NO_RULE = re.compile(r"No rule to produce (\S+)")

_ABOVE = "\n    (check individual jobs above for details)"
"""What a dry run says of the reasons, also where it lists no job."""

_QUIET_S = 60.0
"""Where no terminal shows a bar: seconds after which a line says how far the run is."""


@dataclass
class _Stage:
    """The jobs of one rule."""

    total: int
    done: int = 0
    works: bool = True
    start: float | None = None


class LogHandler(LogHandlerBase):
    """Prints a line for each rule whose jobs are done. A dry run, `-p` and `--verbose` keep Snakemake's own form."""

    writes_to_stream, writes_to_file, needs_rulegraph = True, False, False
    has_filter, has_formatter = False, False  # Snakemake's: they follow `--quiet`

    def __post_init__(self) -> None:
        """Before the first record."""
        settings = self.common_settings
        self._own = None
        if settings.dryrun or settings.verbose or settings.printshellcmds:
            from snakemake.logging import ColorizingTextHandler

            self._own = ColorizingTextHandler(settings.nocolor, sys.stdout if settings.stdout else sys.stderr)
        self._stages: dict[str, _Stage] = {}
        self._rules: dict[int, str] = {}
        self._bar: tqdm[int] | None = None
        self._start = self._last_line_s = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, or what it changes."""
        try:
            if self._own is not None:
                if isinstance(record.msg, str):
                    record.msg = record.msg.replace(_ABOVE, "")
                self._own.emit(record)
                return
            of_event = getattr(self, f"_{getattr(record, 'event', None)}", None)
            if of_event is not None:
                of_event(record)
            elif not hasattr(record, "event") and not _NOISE.match(record.getMessage()):
                self._say(record.getMessage())
        except Exception:  # a line that cannot be printed never stops a run
            self.handleError(record)

    def setFormatter(self, fmt: logging.Formatter | None) -> None:
        """Snakemake's formatter, which its own form needs too."""
        super().setFormatter(fmt)
        if self._own is not None:
            self._own.setFormatter(fmt)

    def close(self) -> None:
        """After the last record."""
        if self._bar is not None:
            self._bar.close()
        super().close()

    def _run_info(self, record: logging.LogRecord) -> None:
        counts = {name: count for name, count in vars(record)["stats"].items() if name != "total"}
        self._stages = {name: _Stage(count) for name, count in counts.items()}
        total = sum(counts.values())
        self._say(f"{total} job{'s' if total > 1 else ''}: {', '.join(f'{name} {n}' for name, n in counts.items())}")
        if sys.stderr.isatty() and not self.common_settings.nocolor and find_spec("tqdm"):
            from tqdm import tqdm

            form = "{desc} {percentage:3.0f} % |{bar:30}| {n_fmt} of {total_fmt} jobs, about {remaining} left"
            self._bar = tqdm(range(0), total=total, bar_format=form, leave=False, smoothing=0.1)

    def _job_info(self, record: logging.LogRecord) -> None:
        name, job = vars(record)["rule_name"], vars(record)["jobid"]
        self._rules[job] = name
        stage = self._stages.setdefault(name, _Stage(0))
        stage.start = stage.start or time.monotonic()
        stage.works = bool(vars(record)["shellcmd"])  # a target has no work of its own
        if self._bar is not None:
            self._bar.set_description_str(name)

    def _job_finished(self, record: logging.LogRecord) -> None:
        name = self._rules.get(vars(record)["job_id"], "")
        stage = self._stages.get(name)
        if stage is None:
            return
        stage.done += 1
        if self._bar is not None:
            self._bar.update()
        if stage.done == stage.total and stage.works:
            took = shown.duration(time.monotonic() - (stage.start or self._start))
            width = max(map(len, self._stages))
            self._say(f"{name:{width}}  {stage.done:,} of {stage.total:,}  {took}")
        elif self._bar is None and time.monotonic() - self._last_line_s > _QUIET_S:
            self._say(self._progress_line())

    def _progress_line(self) -> str:
        done, total = (sum(getattr(stage, key) for stage in self._stages.values()) for key in ("done", "total"))
        left = (time.monotonic() - self._start) * (total - done) / done
        return f"{done:,} of {total:,} jobs, about {shown.duration(left)} left"

    def _job_error(self, record: logging.LogRecord) -> None:
        job = vars(record)
        reason, where = _reason(job["log"], job["rule_msg"] or ""), f" ({', '.join(job['log'])})" if job["log"] else ""
        self._say(f"a job of {job['rule_name']} failed{f': {reason}' if reason else ''}{where}")

    def _group_error(self, record: logging.LogRecord) -> None:
        jobs = vars(record)["job_error_info"]
        self._say(f"a group of jobs failed: {', '.join(job['rule_name'] for job in jobs)}")

    def _error(self, record: logging.LogRecord) -> None:
        line = _plain(record.getMessage())
        if "CalledProcessError" not in line and not _NOISE.match(line):  # else a job's, which `_job_error` reports
            self._say(line)

    def _say(self, line: str) -> None:
        self._last_line_s = time.monotonic()
        if self._bar is None:
            print(line.rstrip(), file=sys.stderr, flush=True)
        else:
            self._bar.write(line.rstrip(), file=sys.stderr)


def _plain(message: str) -> str:
    """An error without the frames of Snakemake around it; a target that is mistyped with the nearest names."""
    if missing := _NO_RULE.search(message):
        name = missing[1]
        near = did_you_mean(name, TARGETS)
        return f"no target or file {name!r} can be made{near}\n`snakemake --list-target-rules` lists all targets"
    lines = message.splitlines()
    if not any(_OURS.match(line) or line.strip() == "WorkflowError:" for line in lines):
        return message
    return textwrap.dedent("\n".join(line for line in lines if not (_OURS.match(line) or _FRAME.match(line))))


_SLURM = re.compile(r"SLURM status is: '(?!FAILED)(\w+)'")
"""How the executor reports a job that Slurm ended; of one that failed by itself, it knows no reason."""


def _reason(logs: Sequence[str], message: str) -> str:
    """The reason of a failed job: an error of the command `perturb`, else how Slurm ended it, else its log's last line.

    Empty where there is none of them. `message` is the executor's.
    """
    log = next((progress.read(path) for path in map(Path, logs) if path.is_file()), None)
    ended = _SLURM.search(message)
    if ended and not (log and log.has_error):
        return f"Slurm ended it: {ended[1]}"
    return shown.line(log.reason)[:300] if log else ""
