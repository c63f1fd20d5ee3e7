"""What Snakemake prints, made shorter. Standard library only: Snakemake imports it.

Snakemake sends all its output as records of one logger; a record's `event` says what it is about.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path


def speaker(logger: logging.Logger) -> Callable[[str], None]:
    """What prints a line of planning, each once: on the screen, or into the record that `perturb check` reads."""
    if PLAN_VARIABLE not in os.environ:
        return cache(lambda line: print(line, file=sys.stderr))
    record = PlanRecord(Path(os.environ[PLAN_VARIABLE]))
    logger.addHandler(record)
    return cache(record.add)


PLAN_VARIABLE = "PERTURB_PLAN"
"""The environment variable of a dry run that records its plan: the file that it writes, a line of JSON per entry."""


class PlanRecord(logging.Handler):
    """Writes the rule and the wildcards of each planned job, and the lines of planning, into a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Write a job."""
        if getattr(record, "event", None) == "job_info":
            named = dict(getattr(record, "wildcards", None) or {})
            self.add({"rule": getattr(record, "rule_name", ""), "wildcards": named})

    def add(self, entry: object) -> None:
        """Write an entry: a job, or a line of text."""
        with self._path.open("a", encoding="utf-8") as file:
            print(json.dumps(entry), file=file)


def read_plan(path: Path) -> tuple[list[str], list[tuple[str, dict[str, str]]]]:
    """What a `PlanRecord` wrote: the lines of planning, and the rule and the wildcards of each job."""
    entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    lines = [entry for entry in entries if isinstance(entry, str)]
    return lines, [(entry["rule"], entry["wildcards"]) for entry in entries if isinstance(entry, dict)]
