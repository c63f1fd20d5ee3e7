"""How far the runs in a folder are, and what failed: counted in the files of jobs, also while these are written.

A stage is done where every part of a shard is there. Of a part that is not there yet, the finished clips are those of
its journal. Files of a run of another configuration count as long as their lists are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from perturbations.base import progress
from perturbations.base.errors import ManifestError
from perturbations.engine import journal
from perturbations.manifest import files, layout
from perturbations.plan import listed, sharding

_VERSION = 3
"""Of the JSON document; it changes when a key changes its meaning or goes."""

_MOST_ITEMS = 3


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
class FailedJob:
    """A job that ended with an error: its log, relative to the workflow's folder, and the error."""

    log: str
    reason: str


@dataclass(frozen=True)
class RunStatus:
    """The state of a workflow's folder."""

    version: int
    stages: tuple[StageCounts, ...]  # in the order of work
    failures: tuple[Failure, ...]  # the most frequent first
    failed_jobs: tuple[FailedJob, ...]


@dataclass(frozen=True)
class _FailedItem:
    dataset: str
    suite: str | None
    stage: str
    item_id: str
    reason: str


def collect(root: Path) -> RunStatus:
    """The state of the workflow in the folder `root`; a folder without any run has no stages."""
    failed: list[_FailedItem] = []
    stages = [stage for name in _collections(root) for stage in _stages(root, name, failed)]
    return RunStatus(_VERSION, tuple(stages), _grouped(failed), tuple(failed_jobs(root)))


def failed_jobs(root: Path) -> Iterator[FailedJob]:
    """The jobs whose logs end with an error: a job that is started again writes its log anew."""
    folder = root / layout.at("log", job="job")
    for log in sorted(folder.parent.rglob(f"*{folder.suffix}")):
        if error := progress.error_of(log):
            yield FailedJob(str(log.relative_to(root)), error)


def _collections(root: Path) -> Iterator[str]:
    """The datasets that planning has listed, each followed by what is made of it beside its clips."""
    folders = (root / layout.WORK).iterdir() if (root / layout.WORK).is_dir() else ()
    for dataset in sorted(path.name for path in folders):
        for name in (dataset, sharding.whole(dataset), sharding.composed(dataset)):
            lists = (root / layout.at(kind, dataset=name, shard="s0") for kind in ("shard_list", "caption_list"))
            if any(path.parent.is_dir() for path in lists):
                yield name


def _stages(root: Path, name: str, failed: list[_FailedItem]) -> Iterator[StageCounts]:
    """The stages of a collection, in the order of work; what failed is added to `failed`."""

    def path(kind: str, /, **fields: object) -> Path:
        return root / layout.at(kind, **{"dataset": name, **fields})

    def scenarios(kind: str) -> dict[str, list[dict[str, object]]]:
        """The fields of the planned scenarios of each suite of videos or texts."""
        plans = sorted((root / layout.WORK / name).glob(layout.in_dataset(f"{kind}_recipes", suite="*")))
        suites = [plan.relative_to(root / layout.WORK / name).parts[0] for plan in plans]
        return {suite: _planned(plan, suite) for suite, plan in zip(suites, plans, strict=True)}

    shards = listed.counts(path("shard_list", shard="s0").parent)
    if shards:
        rejected = _rejected(path("rejected"))
        failed += [_FailedItem(name, None, "annotation", item, reason) for item, reason in rejected]
        parts = [path("source_part", shard=shard) for shard in shards]
        sources = _counted(name, None, "sources", parts, sum(shards.values()), failed)
        usable = sources.total - sources.failed
        yield replace(sources, failed=sources.failed + len(rejected), total=sources.total + len(rejected))
        for folder in sorted(path("analysis_part", analysis="*", shard="s0").parents[1].glob("*/")):
            parts = [path("analysis_part", analysis=folder.name, shard=shard) for shard in shards]
            yield _counted(name, None, folder.name, parts, usable, failed)
        for suite, fields in scenarios("video").items():
            parts = [path("video_part", shard=shard, **scenario) for scenario in fields for shard in shards]
            yield _counted(name, suite, "videos", parts, usable * len(fields), failed)
    unusable = _rejected(path("rejected_captions"))
    failed += [_FailedItem(name, None, "captions", caption, reason) for caption, reason in unusable]
    caption_shards = listed.shards(path("caption_list", shard="s0").parent)
    for suite, fields in scenarios("text").items():
        parts = [path("text_part", shard=shard, **scenario) for scenario in fields for shard in caption_shards]
        yield StageCounts(name, suite, "captions", sum(part.is_file() for part in parts), 0, len(parts))


def _planned(plan: Path, suite: str) -> list[dict[str, object]]:
    """The fields of a suite's scenarios in the file of their recipes; none where it cannot be read."""
    try:
        scenarios = [name.partition("/") for name in listed.read_recipes(plan)]
    except ManifestError:
        return []
    return [{"suite": suite, "perturbation": name, "severity": severity} for name, _, severity in scenarios]


def _rejected(path: Path) -> list[tuple[str, str]]:
    """The items that planning found to be unusable, and why."""
    try:
        items = listed.read(path, listed.RejectedItem) if path.is_file() else []
    except ManifestError as error:
        return [("", str(error))]
    return [(item.item_id, item.error) for item in items]


def _counted(
    dataset: str, suite: str | None, stage: str, parts: Iterable[Path], total: int, failed: list[_FailedItem]
) -> StageCounts:
    """Count the clips of parts, and where there is no part, those of its journal."""
    done = 0
    rows: list[_FailedItem] = []
    for part in parts:
        try:
            if part.is_file():
                done += files.counts(part)[0]
                for row in files.failed_rows(part):
                    reason = row["error"] or ""
                    rows.append(_FailedItem(dataset, suite, row["stage"] or stage, row["item_id"] or "", reason))
            else:
                done += journal.count(layout.journal_of(part))
        except ManifestError as error:
            failed.append(_FailedItem(dataset, suite, stage, str(part), str(error)))
    failed += rows
    return StageCounts(dataset, suite, stage, done, len(rows), total)


_DIGITS = re.compile(r"\d+")


def _grouped(failed: Iterable[_FailedItem]) -> tuple[Failure, ...]:
    """Failures that differ only in numbers and the item's id have one reason: the first one's."""
    groups: dict[tuple[str, str | None, str, str], list[_FailedItem]] = {}
    for item in failed:
        pattern = _DIGITS.sub("#", item.reason.replace(item.item_id, "*") if item.item_id else item.reason)
        groups.setdefault((item.dataset, item.suite, item.stage, pattern), []).append(item)
    failures = [
        Failure(*key[:3], same[0].reason, len(same), tuple(sorted({item.item_id for item in same})[:_MOST_ITEMS]))
        for key, same in groups.items()
    ]
    return tuple(sorted(failures, key=lambda failure: (-failure.count, failure.dataset, failure.reason)))
