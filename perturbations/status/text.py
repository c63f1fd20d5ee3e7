"""A run's status as people read it, in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from perturbations.base import shown
from perturbations.status.status import Failure, RunStatus, StageCounts

_MOST = 10
"""Failures of one kind that are listed."""
_LONGEST = 120
"""Letters of a reason."""
_HEAD = ("dataset", "stage", "done", "of", "", "failed")


def text(status: RunStatus) -> str:
    """The table of all stages, and what failed."""
    if not status.stages:
        return "Nothing was planned here yet: `snakemake --list-target-rules` lists what there is to make."
    lines = table([_HEAD, *map(_row, status.stages)])
    failed = failures(status)
    return "\n".join([*lines, *(["", failed] if failed else [])])


def failures(status: RunStatus) -> str:
    """What failed; an empty text where nothing did."""
    lines = []
    if status.failures:
        count = sum(failure.count for failure in status.failures)
        lines.append(f"{count:,} quarantined or missing, by reason; `perturb retry` lets the next run try them again:")
        lines += _first([_failure_line(failure) for failure in status.failures])
    if status.failed_jobs:
        lines.append(f"{shown.plural(len(status.failed_jobs), 'failed job')}; finished clips are kept:")
        lines += _first([f"  {_short(job.reason)} ({shown.line(job.log)})" for job in status.failed_jobs])
    return "\n".join(lines)


def table(rows: Sequence[Sequence[str]], *, left: int = 2) -> list[str]:
    """Lines of aligned columns; the first `left` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _first(lines: Sequence[str]) -> list[str]:
    more = [f"  and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return [*lines[:_MOST], *more]


def _row(stage: StageCounts) -> list[str]:
    what = f"{stage.suite} {stage.stage}" if stage.suite else stage.stage
    return [
        shown.line(stage.dataset),
        shown.line(f"{what}, parts" if stage.stage == "captions" else what),
        f"{stage.done:,}",
        f"{stage.total:,}",
        f"{100 * stage.done // stage.total} %" if stage.total else "",
        f"{stage.failed:,}" if stage.failed else "",
    ]


def _failure_line(failure: Failure) -> str:
    """A reason with the number of its items and the first of them."""
    where = " ".join(filter(None, (failure.dataset, failure.suite, failure.stage)))
    items = ", ".join(map(repr, failure.items))
    more = ", ..." if failure.count > len(failure.items) else ""
    return shown.line(f"  {failure.count:,} x {where}: {_short(failure.reason)} ({items}{more})")


def _short(reason: str) -> str:
    """A reason on one line, cut where it is long."""
    line = shown.line(" ".join(reason.split()))
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
