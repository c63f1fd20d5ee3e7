"""A run's status as people read it, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perturbations.base import shown
from perturbations.plan.runs import FailedJob
from perturbations.status.status import LOST, Failure, RunStatus, StageCounts

_MOST_FAILURES = 10
_MOST_JOBS = 3
_LONGEST = 120  # letters of a reason


def text(status: RunStatus) -> str:
    """The table of all stages, and what failed."""
    if not status.stages:
        return "Nothing was planned here yet: `snakemake --list-target-rules` lists what there is to make."
    lines = [_heading(status), *table([_HEAD, *map(_row, status.stages)])]
    return "\n".join([*lines, *(line for part in _failed(status) for line in ("", *part))])


def failures(status: RunStatus) -> str:
    """What failed; an empty text where nothing did."""
    return "\n".join(line for part in _failed(status) for line in part)


def _failed(status: RunStatus) -> Iterator[list[str]]:
    lost = [failure for failure in status.failures if failure.reason == LOST]
    others = [failure for failure in status.failures if failure.reason != LOST]
    yield from _listed(lost, "files lost; the same call of `snakemake` makes them again")
    yield from _listed(others, "quarantined or missing, by reason; `perturb retry` lets the next run try them again")
    if status.run and status.run.failed:
        lines = [f"{_plural(len(status.run.failed), 'failed job')}; finished clips are kept:"]
        yield [*lines, *_failed_jobs(status.run.failed)]


def _listed(failures: Sequence[Failure], what: str) -> Iterator[list[str]]:
    if failures:
        lines = [f"{sum(failure.count for failure in failures):,} {what}:"]
        lines += [_failure_line(failure) for failure in failures[:_MOST_FAILURES]]
        if len(failures) > _MOST_FAILURES:
            lines.append(f"  and {len(failures) - _MOST_FAILURES} more reasons")
        yield lines


def _plural(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _failed_jobs(jobs: Sequence[FailedJob]) -> list[str]:
    """A line per failed job; only the first are listed."""
    lines = [f"  {job.rule}: {_short(job.reason)} ({shown.line(job.log)})" for job in jobs[:_MOST_JOBS]]
    return [*lines, f"  and {len(jobs) - _MOST_JOBS} more"] if len(jobs) > _MOST_JOBS else lines


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


def _heading(status: RunStatus) -> str:
    run = status.run
    if run is None:
        return "No run of Snakemake was started here."
    parts = []
    if run.steps:
        parts.append(f"{run.steps_done:,} of {run.steps:,} steps")
    if run.failed:
        parts.append(_plural(len(run.failed), "failed job"))
    if run.killed:
        return ", ".join(["The last run was killed", *parts]) + ": `snakemake --unlock`, and start it again."
    if not run.running:
        return ", ".join(["The last run has ended", *parts]) + "."
    parts.append(f"{_plural(status.jobs, 'job')} on clips")
    if status.seconds_left is not None and status.jobs:
        parts.append(f"about {shown.duration(status.seconds_left)} left for clips")
    if run.age_s > 600:
        silent = shown.duration(run.age_s)
        parts.append(f"no news for {silent}: if it was killed, `snakemake --unlock` and start it again")
    return ", ".join(["Running", *parts]) + "."


_HEAD = ("dataset", "stage", "done", "of", "", "failed", "per min", "left", "space")


def _row(stage: StageCounts) -> list[str]:
    share = f"{100 * stage.done / stage.total:.0f} %" if stage.total else ""
    if share == "100 %" and stage.done < (stage.total or 0):
        share = "99 %"
    what = f"{stage.suite} {stage.stage}" if stage.suite else stage.stage
    return [
        shown.line(stage.dataset),
        shown.line(what if stage.unit == "clips" else f"{what}, parts"),
        f"{stage.done:,}",
        "?" if stage.total is None else f"{stage.total:,}",
        share,
        f"{stage.failed:,}" if stage.failed else "",
        f"{stage.per_minute:,.1f}" if stage.per_minute else "",
        shown.duration(stage.seconds_left) if stage.seconds_left else "",
        shown.size(stage.bytes) if stage.bytes else "",
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
