"""What the files of a stage hold, and what is reported of it: finished, failed, planned, and the time that is left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class StageCounts:
    """What a dataset needs in one stage."""

    dataset: str  # its name, or that of its whole videos (`NAME/whole`) or composed queries (`NAME/composed`)
    suite: str | None  # None in stages that serve all suites; of evaluations the model's key
    stage: str  # sources, the name of an analysis, videos, captions, adaptation, evaluation or composed
    unit: Literal["clips", "parts"]  # parts are the files of jobs
    done: int
    failed: int  # quarantined or missing
    total: int | None  # None where no plan says it
    bytes: int  # of the finished files
    jobs: int  # that work on it now
    per_minute: float | None  # what these jobs finish; None where nothing was measured
    seconds_left: float | None  # at the number of all jobs that run now; None without a job or a measurement


@dataclass(frozen=True)
class Failed:
    """An item that was quarantined or is missing, and why."""

    dataset: str
    suite: str | None
    stage: str
    item_id: str
    reason: str


@dataclass
class Count:
    """What the files of a stage, or of one of its scenarios, hold."""

    done: int = 0
    failed: int = 0
    total: int = 0
    bytes: int = 0
    jobs: int = 0
    seconds: float = 0.0  # of jobs, and the items that they finished in this time
    items: int = 0

    def add_time(self, seconds: float | None, items: int) -> None:
        """Count what a job took for items."""
        if seconds and items > 0:
            self.seconds += seconds
            self.items += items

    @property
    def rest(self) -> int:
        """What is neither finished nor failed."""
        return max(0, self.total - self.done - self.failed)

    def cost(self, otherwise: float | None = None) -> float | None:
        """Seconds of one job per item; None where nothing was measured."""
        return self.seconds / self.items if self.items else otherwise


@dataclass
class Counted:
    """A stage before the number of all jobs is known."""

    dataset: str
    suite: str | None
    stage: str
    unit: Literal["clips", "parts"]
    counts: list[Count] = field(default_factory=list)  # per scenario
    failures: list[Failed] = field(default_factory=list)
    planned: bool = True

    def new_count(self) -> Count:
        """A count of one more scenario."""
        self.counts.append(Count())
        return self.counts[-1]

    def add_failure(self, item_id: str, reason: str, stage: str | None = None) -> None:
        """Keep an item that failed."""
        self.failures.append(Failed(self.dataset, self.suite, stage or self.stage, item_id, reason))

    @property
    def jobs(self) -> int:
        """Jobs that work on the stage now."""
        return sum(count.jobs for count in self.counts)

    def finished(self, jobs: int) -> StageCounts:
        """What is reported; `jobs` are all that work now, which may take up this stage's work."""
        items = sum(count.items for count in self.counts)
        mean = sum(count.seconds for count in self.counts) / items if items else None
        work = [(count.rest, count.cost(mean)) for count in self.counts if count.rest]
        known = all(cost is not None for _, cost in work)
        left = sum(rest * (cost or 0.0) for rest, cost in work) / jobs if known and jobs else None
        speeds = [60 * count.jobs / cost for count in self.counts if count.jobs and (cost := count.cost(mean))]
        return StageCounts(
            dataset=self.dataset,
            suite=self.suite,
            stage=self.stage,
            unit=self.unit,
            done=sum(count.done for count in self.counts),
            failed=sum(count.failed for count in self.counts),
            total=sum(count.total for count in self.counts) if self.planned else None,
            bytes=sum(count.bytes for count in self.counts),
            jobs=self.jobs,
            per_minute=round(sum(speeds), 2) if speeds else None,
            seconds_left=round(left, 1) if left is not None else 0.0 if not work and self.planned else None,
        )
