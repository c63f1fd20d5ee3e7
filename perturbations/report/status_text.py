"""A run's status as people read it, in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from perturbations.report.status import Failure, Stage, Status
from perturbations.system import shown

_MOST_FAILURES = 10
_MOST_STOPPED = 3
_LONGEST = 120  # letters of a reason


def text(status: Status) -> str:
    """The table of all stages, and what failed."""
    if not status.stages:
        return "Nothing was planned here yet: `snakemake --list-target-rules` lists what there is to make."
    lines = [_heading(status), *table([_HEAD, *map(_row, status.stages)])]
    if status.failures:
        count = sum(failure.count for failure in status.failures)
        lines += ["", f"{count:,} quarantined or missing, by reason; `perturb retry` lets the next run try them again:"]
        lines += [_failure(failure) for failure in status.failures[:_MOST_FAILURES]]
        if len(status.failures) > _MOST_FAILURES:
            lines.append(f"  and {len(status.failures) - _MOST_FAILURES} more reasons")
    if status.stopped:
        lines += ["", f"{len(status.stopped):,} jobs stopped; the next run continues them:"]
        lines += [f"  {shown.line(job.log)}: {_short(job.reason)}" for job in status.stopped[:_MOST_STOPPED]]
        if len(status.stopped) > _MOST_STOPPED:
            lines.append(f"  and {len(status.stopped) - _MOST_STOPPED} more")
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """A time in words: "40 s", "12 min", "3 h 20 min", "2 days 5 h"."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{round(seconds)} s"
    if minutes < 90:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} days {hours} h" if hours else f"{days} days"


def size(count: int) -> str:
    """Bytes in words: "3.2 GB"."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


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


def _heading(status: Status) -> str:
    run = status.run
    if run is None:
        return "No run of Snakemake was started here."
    parts = []
    if run.steps:
        parts.append(f"{run.steps_done:,} of {run.steps:,} steps")
    if run.failed_jobs:
        parts.append(f"{run.failed_jobs:,} failed jobs")
    if not run.running:
        return ", ".join(["The last run has ended", *parts]) + "."
    parts.append(f"{status.jobs:,} jobs on clips")
    if status.seconds_left is not None and status.jobs:
        parts.append(f"about {duration(status.seconds_left)} left for clips")
    if run.age_s > 600:
        parts.append(f"no news for {duration(run.age_s)}: if it was killed, `snakemake --unlock` and start it again")
    return ", ".join(["Running", *parts]) + "."


_HEAD = ("dataset", "stage", "done", "of", "", "failed", "per min", "left", "space")


def _row(stage: Stage) -> list[str]:
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
        duration(stage.seconds_left) if stage.seconds_left else "",
        size(stage.bytes) if stage.bytes else "",
    ]


def _failure(failure: Failure) -> str:
    where = " ".join(filter(None, (failure.dataset, failure.suite, failure.stage)))
    items = ", ".join(map(repr, failure.items))
    more = ", ..." if failure.count > len(failure.items) else ""
    return shown.line(f"  {failure.count:,} x {where}: {_short(failure.reason)} ({items}{more})")


def _short(reason: str) -> str:
    line = shown.line(" ".join(reason.split()))
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
