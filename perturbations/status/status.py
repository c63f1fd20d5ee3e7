"""How far the runs in a folder are, and what failed: counted in the files of jobs, also while these are written.

A stage is done where every part of a shard is there. Of a part that is not there yet, the finished clips are those of
its journal. Files of a run of another configuration count as long as their lists are there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perturbations.base import progress, shown
from perturbations.base.errors import ManifestError
from perturbations.engine import journal
from perturbations.manifest import files, layout
from perturbations.manifest.kinds import SourceRow
from perturbations.plan import listed, sharding

_VERSION = 3
"""Of the JSON document; it changes when a key changes its meaning or goes."""

_MOST_ITEMS, _MOST_LINES, _LONGEST = 3, 10, 120
"""Items of a failure and failures of one kind that are listed, and letters of a reason."""


@dataclass(frozen=True)
class StageCounts:
    """What a dataset needs in one stage.

    Attributes:
        dataset: its name, or that of its whole videos (`NAME/whole`).
        suite: None in stages that serve all suites.
        stage: sources, the name of an analysis, videos or captions.
        done, failed, total: clips; of captions, parts, one per scenario and shard. Failed: quarantined or missing.
    """

    dataset: str
    suite: str | None
    stage: str
    done: int
    failed: int
    total: int


@dataclass(frozen=True)
class Failure:
    """Items that failed for one reason; `items` are the first of them."""

    dataset: str
    suite: str | None
    stage: str
    reason: str
    count: int
    items: tuple[str, ...]


@dataclass(frozen=True)
class RunStatus:
    """The state of a workflow's folder."""

    version: int
    stages: tuple[StageCounts, ...]  # in the order of work
    failures: tuple[Failure, ...]  # the most frequent first
    failed_jobs: tuple[dict[str, str], ...]  # the `log`, relative to the workflow's folder, and the `reason`


def collect(root: Path) -> RunStatus:
    """The state of the workflow in the folder `root`; a folder without any run has no stages."""
    failed: list[Failure] = []
    stages = [stage for name in _collections(root) for stage in _stages(root, name, failed)]
    logs = root / layout.at("log", job="job")
    errors = ((log, progress.error_of(log)) for log in sorted(logs.parent.rglob(f"*{logs.suffix}")))
    jobs = [{"log": str(log.relative_to(root)), "reason": error} for log, error in errors if error]
    return RunStatus(_VERSION, tuple(stages), _grouped(failed), tuple(jobs))


def _collections(root: Path) -> Iterator[str]:
    """The datasets that planning has listed, each followed by what is made of it beside its clips."""
    folders = (root / layout.WORK).iterdir() if (root / layout.WORK).is_dir() else ()
    for dataset in sorted(path.name for path in folders):
        for name in (dataset, sharding.whole(dataset), sharding.composed(dataset)):
            lists = (root / layout.at(kind, dataset=name, shard="s0") for kind in ("shard_list", "caption_list"))
            if any(path.parent.is_dir() for path in lists):
                yield name


def _stages(root: Path, name: str, failed: list[Failure]) -> Iterator[StageCounts]:
    """The stages of a collection, in the order of work; what failed is added to `failed`, one per item."""

    def path(kind: str, /, **fields: object) -> Path:
        return root / layout.at(kind, **{"dataset": name, **fields})

    def parts_of_suites(kind: str, shards: Iterable[str]) -> Iterator[tuple[str, int, list[Path]]]:
        """Each suite of videos or texts, the number of its planned scenarios, and their parts."""
        for plan in sorted((root / layout.WORK / name).glob(layout.in_dataset(f"{kind}_recipes", suite="*"))):
            suite = plan.relative_to(root / layout.WORK / name).parts[0]
            scenarios = [scenario.split("/") for scenario in _planned(plan)]
            yield (
                suite,
                len(scenarios),
                [
                    path(f"{kind}_part", suite=suite, perturbation=perturbation, severity=severity, shard=shard)
                    for perturbation, severity in scenarios
                    for shard in shards
                ],
            )

    if shards := listed.counts(path("shard_list", shard="s0").parent):
        rejected = _rejected(path("rejected"), name, "annotation")
        failed += rejected
        parts = [path("source_part", shard=shard) for shard in shards]
        sources = _counted(name, None, "sources", parts, sum(shards.values()), failed)
        usable = sources.total - sources.failed
        yield replace(sources, failed=sources.failed + len(rejected), total=sources.total + len(rejected))
        for folder in sorted(path("analysis_part", analysis="*", shard="s0").parents[1].glob("*/")):
            parts = [path("analysis_part", analysis=folder.name, shard=shard) for shard in shards]
            yield _counted(name, None, folder.name, parts, usable, failed)
        for suite, scenarios, parts in parts_of_suites("video", shards):
            yield _counted(name, suite, "videos", parts, usable * scenarios, failed)
    failed += _rejected(path("rejected_captions"), name, "captions")
    for suite, _, parts in parts_of_suites("text", listed.shards(path("caption_list", shard="s0").parent)):
        yield StageCounts(name, suite, "captions", sum(part.is_file() for part in parts), 0, len(parts))


def _planned(plan: Path) -> Iterable[str]:
    try:
        return listed.read_recipes(plan)
    except ManifestError:
        return ()


def _rejected(path: Path, dataset: str, stage: str) -> list[Failure]:
    """The items that planning found to be unusable."""
    items = listed.read(path, SourceRow) if path.is_file() else []
    return [Failure(dataset, None, stage, str(item.error), 1, (item.item_id,)) for item in items]


def _counted(
    dataset: str, suite: str | None, stage: str, parts: Iterable[Path], total: int, failed: list[Failure]
) -> StageCounts:
    """Count the clips of parts, and where there is no part, those of its journal."""
    done, rows = 0, list[Failure]()
    for part in parts:
        try:
            if part.is_file():
                done += files.counts(part)[0]
                for row in files.failed_rows(part):
                    items = (row["item_id"] or "",)
                    rows.append(Failure(dataset, suite, row["stage"] or stage, row["error"] or "", 1, items))
            else:
                done += journal.count(layout.journal_of(part))
        except ManifestError as error:
            failed.append(Failure(dataset, suite, stage, str(error), 1, (str(part),)))
    failed += rows
    return StageCounts(dataset, suite, stage, done, len(rows), total)


def _grouped(failed: Iterable[Failure]) -> tuple[Failure, ...]:
    """Failures that differ only in numbers and the item's id have one reason: the first one's."""
    groups: dict[tuple[str, str | None, str, str], list[Failure]] = defaultdict(list)
    for failure in failed:
        pattern = re.sub(
            r"\d+", "#", failure.reason.replace(failure.items[0], "*") if failure.items[0] else failure.reason
        )
        groups[failure.dataset, failure.suite, failure.stage, pattern].append(failure)
    failures = (
        replace(same[0], count=len(same), items=tuple(sorted({each.items[0] for each in same})[:_MOST_ITEMS]))
        for same in groups.values()
    )
    return tuple(sorted(failures, key=lambda failure: (-failure.count, failure.dataset, failure.reason)))


# --- for people ------------------------------------------------------------------------------------------------------


def text(status: RunStatus) -> str:
    """The table of all stages, and what failed."""
    if not status.stages:
        return "Nothing was planned here yet: `snakemake --list-target-rules` lists what there is to make."
    rows = [("dataset", "stage", "done", "of", "", "failed"), *map(_row, status.stages)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = "  ".join(f"{{:{'<' if place < 2 else '>'}{width}}}" for place, width in enumerate(widths))
    failed = failures(status)
    return "\n".join([*(form.format(*row).rstrip() for row in rows), *(["", failed] if failed else [])])


def _row(stage: StageCounts) -> Sequence[str]:
    what = f"{stage.suite} {stage.stage}" if stage.suite else stage.stage
    return (
        shown.line(stage.dataset),
        shown.line(f"{what}, parts" if stage.stage == "captions" else what),
        f"{stage.done:,}",
        f"{stage.total:,}",
        f"{100 * stage.done // stage.total} %" if stage.total else "",
        f"{stage.failed:,}" if stage.failed else "",
    )


def failures(status: RunStatus) -> str:
    """What failed, for people; an empty text where nothing did."""
    lines = []
    if status.failures:
        count = sum(failure.count for failure in status.failures)
        lines.append(f"{count:,} quarantined or missing, by reason; `perturb retry` lets the next run try them again:")
        lines += _first([_failure_line(failure) for failure in status.failures])
    if status.failed_jobs:
        lines.append(f"{shown.plural(len(status.failed_jobs), 'failed job')}; finished clips are kept:")
        lines += _first([f"  {_short(job['reason'])} ({shown.line(job['log'])})" for job in status.failed_jobs])
    return "\n".join(lines)


def _first(lines: Sequence[str]) -> list[str]:
    more = [f"  and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    return [*lines[:_MOST_LINES], *more]


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
