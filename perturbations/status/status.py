"""How far a run is: per dataset, suite and stage, from the files in the workflow's folder. Read only; no locks.

It reads the list files that planning writes, the parts and journals of jobs, and merged manifests where the parts are
gone or older. Files of a run that another configuration asked for count as long as their lists are there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from perturbations.manifest import layout
from perturbations.status import run_files as run_files
from perturbations.status.counts import Count, Counted, Failed, of_statuses
from perturbations.status.counts import StageCounts as StageCounts

_VERSION = 1
"""Of the JSON document; it changes when a key changes its meaning or goes."""

_MOST_ITEMS = 3
_MOST_PARTS = 5000
"""Parts that are read one by one, although a manifest holds their rows: loading a Parquet library takes as long."""


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
    run: run_files.RecordedRun | None
    stages: tuple[StageCounts, ...]  # in the order of work
    failures: tuple[Failure, ...]  # the most frequent first
    jobs: int  # clip jobs that work now
    seconds_left: float | None  # until all planned clips are done, at the present number of jobs, where it is known


def collect(root: Path) -> RunStatus:
    """The state of the workflow in the folder `root`; a folder without any run has no stages."""
    run = run_files.snakemake(root)
    counted = [stage for collection in _collections(root) for stage in _Collection(root, collection, run).stages()]
    jobs = sum(stage.jobs for stage in counted)
    stages = tuple(stage.finished(jobs) for stage in counted)
    of_clips = [stage for stage in stages if stage.unit == "clips"]
    left = [stage.seconds_left for stage in of_clips if stage.seconds_left is not None]
    unknown = any(stage.seconds_left is None and stage.done + stage.failed < (stage.total or 0) for stage in of_clips)
    failures = _grouped(failed for stage in counted for failed in stage.failures)
    clip_jobs = sum(stage.jobs for stage in of_clips)
    return RunStatus(_VERSION, run, stages, failures, clip_jobs, None if unknown or not left else sum(left))


_DAMAGED = "the file is damaged: delete it, and the next run makes it again"
_DIGITS = re.compile(r"\d+")


def _grouped(failed: Iterator[Failed]) -> tuple[Failure, ...]:
    """Failures that differ only in numbers and the item's id have one reason: the first one's."""
    groups: dict[tuple[str, str | None, str, str], list[Failed]] = {}
    for failure in failed:
        pattern = _DIGITS.sub("#", failure.reason.replace(failure.item_id, "*") if failure.item_id else failure.reason)
        groups.setdefault((failure.dataset, failure.suite, failure.stage, pattern), []).append(failure)
    failures = [
        Failure(*key[:3], same[0].reason, len(same), tuple(sorted({failure.item_id for failure in same})[:_MOST_ITEMS]))
        for key, same in groups.items()
    ]
    return tuple(sorted(failures, key=lambda failure: (-failure.count, failure.dataset, failure.reason)))


_ID = re.compile(r"[a-z][a-z0-9_]*")


def _collections(root: Path) -> list[str]:
    """The datasets of `work` and `manifests`, and what is made of each beside its clips."""
    places = [root / "work", root / "manifests"]
    names = {name for place in places for name in run_files.folders(place) if _ID.fullmatch(name)}
    return [
        name + ending
        for name in sorted(names - {"logs", "benchmarks", "models", "demo_encoder"})
        for ending in ("", "/whole", "/composed")
        if any((place / (name + ending)).is_dir() for place in places)
    ]


class _Collection:
    def __init__(self, root: Path, name: str, run: run_files.RecordedRun | None) -> None:
        self._root = root
        self._name = name
        self._run = run
        self._began = run_files.began(run)
        self._work, self._manifests = root / "work" / name, root / "manifests" / name

    def stages(self) -> Iterator[Counted]:
        shards = run_files.listed(self._work / "shards")
        sources = self._sources(shards)
        complete = {shard: sources.counts[""].complete.get(shard, count) for shard, count in shards.items()}
        if shards or sources.counts[""].total:
            yield sources
        for analysis in run_files.folders(self._work / "analyses"):
            yield self._of_clips(None, analysis, {"": self._work / "analyses" / analysis}, complete)
        suites = sorted({*run_files.folders(self._work), *run_files.folders(self._manifests)})
        for suite in filter(_ID.fullmatch, suites):
            recipes = self._work / suite / "recipes.jsonl"
            planned = recipes.is_file() or (self._manifests / suite / "videos.parquet").is_file()
            names = run_files.scenarios(recipes) if planned else run_files.begun(self._work / suite)
            if planned or names:
                places = {name: self._work / suite / name for name in names}
                counted = self._of_clips(suite, "videos", places, complete)
                counted.planned = planned
                yield counted
        of_captions = [counted for suite in filter(_ID.fullmatch, suites) for counted in self._captions(suite)]
        if of_captions:
            of_captions[0].failures += self._rejected("rejected_captions.jsonl", "captions")
        yield from of_captions
        yield from self._evaluations()

    # --- clips --------------------------------------------------------------------------------------------------------

    def _sources(self, shards: Mapping[str, int]) -> Counted:
        manifest = self._manifests / "sources.parquet"
        counted = Counted(self._name, None, "sources", "clips", {"": Count()})
        if not shards:
            if held := run_files.statuses(str(manifest)):
                counted.counts = {"": of_statuses(held)}
                counted.failures += self._failures(None, "sources", manifest)
            return counted
        count = self._count(counted, self._work / "sources", shards)
        rejected = self._rejected("rejected.jsonl", "annotation")
        count.failed += len(rejected)
        count.total += len(rejected)
        counted.failures += rejected
        counted.counts = {"": count}
        return counted

    def _rejected(self, name: str, stage: str) -> list[Failed]:
        """The items of a list that planning wrote of those that cannot be used."""
        rejected = []
        for line in filter(bytes.strip, run_files.lines(self._work / name)):
            try:
                item = json.loads(line)
                item_id, reason = str(item["item_id"]), str(item["error"])
            except (ValueError, KeyError, TypeError, RecursionError):
                item_id, reason = "", "the list of rejected items is damaged"
            rejected.append(Failed(self._name, None, stage, item_id, reason))
        return rejected

    def _of_clips(
        self, suite: str | None, stage: str, places: Mapping[str, Path], shards: Mapping[str, int]
    ) -> Counted:
        counted = Counted(self._name, suite, stage, "clips", {})
        manifest = self._manifests / suite / "videos.parquet" if suite else self._manifests / f"{stage}.parquet"
        if self._is_merged(manifest, places, shards) and (held := run_files.statuses(str(manifest))):
            counted.counts = {"": of_statuses(held, run_files.bytes_of(manifest))}
            if counted.counts[""].failed:
                counted.failures += self._failures(suite, stage, manifest)
            return counted
        counted.counts = {name: self._count(counted, place, shards) for name, place in places.items()}
        return counted

    def _is_merged(self, manifest: Path, places: Mapping[str, Path], shards: Mapping[str, int]) -> bool:
        """Whether to count a manifest's rows: there are no lists of parts, or many parts, all older than it."""
        if shards and len(places) * len(shards) < _MOST_PARTS:
            return False
        merged = run_files.entries(manifest.parent).get(manifest.name)
        return merged is not None and all(
            (part := parts.get(f"{shard}.parquet")) is not None and part.changed <= merged.changed
            for parts in map(run_files.entries, places.values())
            for shard in shards
        )

    def _count(self, counted: Counted, place: Path, shards: Mapping[str, int]) -> Count:
        count = Count(total=sum(shards.values()))
        held = run_files.entries(place)
        relative = place.relative_to(self._root / "work")
        logs, benchmarks = (self._root / "work" / name / relative for name in ("logs", "benchmarks"))
        for shard, listed in shards.items():
            part, journal = held.get(f"{shard}.parquet"), held.get(f"{shard}.jsonl")
            statuses = run_files.statuses(part.path) if part else None
            lines, size = run_files.journal(journal.path) if journal else (0, 0)
            count.bytes += size
            if part is not None and statuses is None:
                name = str(Path(part.path).relative_to(self._root))
                counted.failures.append(Failed(self._name, counted.suite, counted.stage, name, _DAMAGED))
            if part is None or statuses is None:
                self._add_unfinished(counted, count, logs / f"{shard}.log", held.get(f"{shard}.lock"), listed, lines)
                continue
            complete = statuses.get("complete", 0)
            count.complete[shard] = complete
            count.done += complete
            count.failed += sum(statuses.values()) - complete
            seconds = run_files.benchmark_seconds(f"{benchmarks}/{shard}.tsv")
            if seconds is not None:
                count.seconds += seconds
                count.items += complete
            if complete < sum(statuses.values()):
                counted.failures += self._failures(counted.suite, counted.stage, Path(part.path))
        return count

    def _add_unfinished(
        self, counted: Counted, count: Count, log: Path, lock: run_files.Entry | None, listed: int, lines: int
    ) -> None:
        """Count a shard that has no part: from its journal, and from the log of the job that works on it."""
        count.done += min(lines, listed)
        is_held = run_files.is_held(lock)
        running = self._run is not None and self._run.running
        if not is_held and not (counted.stage == "sources" and running and self._is_new(log)):
            return
        count.jobs += 1
        done, kept, seconds = run_files.log(log)
        if counted.stage == "sources":
            count.done += min(done, listed)  # it has no journal
        if done > kept and seconds:
            count.seconds += seconds
            count.items += done - kept

    def _failures(self, suite: str | None, stage: str, path: Path) -> list[Failed]:
        return [
            Failed(self._name, suite, place or stage, item_id, reason)
            for item_id, place, reason in run_files.quarantined(path)
        ]

    # --- captions and evaluations: parts done of all -----------------------------------------------------------------

    def _captions(self, suite: str) -> Iterator[Counted]:
        folder = self._work / suite / "captions"
        planned = run_files.scenarios(folder / "recipes.jsonl")
        names = planned or run_files.begun(folder)
        if not names:
            return
        lists = run_files.entries(self._work / "captions")
        shards = [name.removesuffix(".jsonl") for name in lists if name.endswith(".jsonl") and name[0] == "s"]
        counts = {}
        for name in names:
            held = run_files.entries(folder / name)
            counts[name] = Count(total=len(shards))
            for shard in shards:
                self._add_part(counts[name], folder / name / shard, is_there=f"{shard}.parquet" in held)
        yield Counted(self._name, suite, "captions", "parts", counts, planned=bool(planned))

    def _evaluations(self) -> Iterator[Counted]:
        for key in run_files.folders(self._work / "evaluation"):
            for kind in ("adaptation", "evaluation"):
                plan = self._work / "evaluation" / key / f"{kind}.parts"
                yield from self._of_plan(key, kind, plan)
        yield from self._of_plan(None, "composed", self._work / "results.parts")

    def _of_plan(self, suite: str | None, stage: str, plan: Path) -> Iterator[Counted]:
        """Count the files that a list names; the list lies in `work`, and so do they."""
        names = [line.decode(errors="replace") for line in run_files.lines(plan)]
        names = [name for name in names if name.startswith("work/") and ".." not in name and "\0" not in name]
        if names:
            count = Count(total=len(names))
            for name in names:
                part = self._root / name
                self._add_part(count, part.with_suffix(""), is_there=part.is_file())
            yield Counted(self._name, suite, stage, "parts", {"": count})

    def _add_part(self, count: Count, part: Path, *, is_there: bool) -> None:
        """Count a file of a job, without its suffix: with the job's time where it is done, or as a job that works."""
        relative = part.relative_to(self._root / "work")
        if not is_there:
            count.jobs += self._works(layout.at("log", job=relative))
            return
        count.done += 1
        seconds = run_files.benchmark_seconds(str(self._root / "work" / "benchmarks" / f"{relative}.tsv"))
        if seconds is not None:
            count.seconds += seconds
            count.items += 1

    def _works(self, log: str) -> bool:
        """Whether a job without a lock works: the present run began its log, and does not call it failed."""
        if self._run is None or not self._run.running or log in {job.log for job in self._run.failed}:
            return False
        return self._is_new(self._root / log)

    def _is_new(self, log: Path) -> bool:
        """Whether a log was written since the present run began."""
        try:
            return log.stat().st_mtime >= self._began
        except OSError:
            return False
