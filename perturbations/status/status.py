"""How far a run is: per dataset, suite and stage, from the files in the workflow's folder. Read only; no locks.

It counts the list files that planning writes, the parts and journals of jobs, and merged manifests where the parts are
gone or older. Files of a run of another configuration count as long as their lists are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perturbations.base import progress
from perturbations.base.errors import ManifestError
from perturbations.engine import journal
from perturbations.manifest import files, layout, stored_columns
from perturbations.plan import clip_markers, listed, runs, sharding
from perturbations.status.counts import Count, Counted, Failed
from perturbations.status.counts import StageCounts as StageCounts

_VERSION = 2
"""Of the JSON document; it changes when a key changes its meaning or goes."""

_MOST_ITEMS = 3


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
    run: runs.RecordedRun | None
    stages: tuple[StageCounts, ...]  # in the order of work
    failures: tuple[Failure, ...]  # the most frequent first
    jobs: int  # clip jobs that work now
    seconds_left: float | None  # until all planned clips are done, at the present number of jobs, where it is known


def collect(root: Path) -> RunStatus:
    """The state of the workflow in the folder `root`; a folder without any run has no stages."""
    run = runs.newest(root)
    counted = [stage for name in _collections(root) for stage in _Collection(root, name, run).stages()]
    jobs = sum(stage.jobs for stage in counted)
    stages = tuple(stage.finished(jobs) for stage in counted)
    of_clips = [stage for stage in stages if stage.unit == "clips"]
    left = [stage.seconds_left for stage in of_clips if stage.seconds_left is not None]
    unknown = any(stage.seconds_left is None and stage.done + stage.failed < (stage.total or 0) for stage in of_clips)
    failures = _grouped(failed for stage in counted for failed in stage.failures)
    clip_jobs = sum(stage.jobs for stage in of_clips)
    return RunStatus(_VERSION, run, stages, failures, clip_jobs, None if unknown or not left else sum(left))


LOST = "its file is gone or has another size"

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


_Fields = Mapping[str, str]
_ANY = {**dict.fromkeys(("analysis", "suite", "perturbation", "severity", "model", "kind"), "*"), "shard": "s0"}


def _collections(root: Path) -> list[str]:
    """What may be a dataset, by its folder, and what is made of each beside its clips."""
    folders = [root / layout.WORK, root / layout.MANIFESTS]
    names = {path.name for folder in folders if folder.is_dir() for path in folder.iterdir() if path.is_dir()}
    datasets = [name for name in sorted(names) if layout.place_of(layout.at("sources", dataset=name))]
    return [each for name in datasets for each in (name, sharding.whole(name), sharding.composed(name))]


class _Collection:
    """The files of a collection."""

    def __init__(self, root: Path, name: str, run: runs.RecordedRun | None) -> None:
        self._root = root
        self._name = name
        self._run = run
        self._shards = listed.counts(self._path("shard_list", shard="s0").parent)

    def _path(self, kind: str, /, **fields: object) -> Path:
        return self._root / layout.at(kind, **{"dataset": self._name, **fields})

    def _fields(self, kind: str, /, **fields: str) -> list[_Fields]:
        """The fields of the files of a kind that are there; of parts, those of their folders."""
        wanted = self._path(kind, **{**_ANY, **fields})
        is_part = "{shard}" in layout.pattern(kind)
        paths = self._root.glob((wanted.parent if is_part else wanted).relative_to(self._root).as_posix())
        names = ((path / wanted.name if is_part else path).relative_to(self._root).as_posix() for path in sorted(paths))
        places = [place for place in map(layout.place_of, names) if place is not None and place.kind == kind]
        return [{name: text for name, text in place.fields.items() if name != "shard"} for place in places]

    def stages(self) -> Iterator[Counted]:
        """Every stage of which there are files, in the order of work."""
        sources = Counted(self._name, None, "sources", "clips")
        usable = sum(self._shards.values())
        self._add_clips(sources, self._path("sources"), "source_part", [{}], usable)
        if self._shards:
            usable -= sources.counts[0].failed
            rejected = self._add_rejected(sources, "rejected", "annotation")
            sources.counts[0].failed += rejected
            sources.counts[0].total += rejected
        if any(count.total for count in sources.counts):
            yield sources
        for fields in self._fields("analysis_part"):
            stage = Counted(self._name, None, fields["analysis"], "clips")
            self._add_clips(stage, self._path("analyses", **fields), "analysis_part", [fields], usable)
            yield stage
        kinds = ("video_recipes", "video_part", "videos", "text_recipes", "text_part")
        suites = sorted({fields["suite"] for kind in kinds for fields in self._fields(kind)})
        for suite in suites:
            yield from self._videos(suite, usable)
        captions = [stage for suite in suites for stage in self._captions(suite)]
        if captions:
            self._add_rejected(captions[0], "rejected_captions", "captions")
        yield from captions
        for kind in filter(listed.is_plan, layout.patterns()):
            for fields in self._fields(kind):
                yield self._planned(kind, fields)

    def _scenarios(self, suite: str, recipes: str, part: str) -> tuple[list[_Fields], bool]:
        """The fields of a suite's scenarios, and whether they are planned: an evaluation makes clips without a plan."""
        try:
            planned = listed.read_recipes(self._path(recipes, suite=suite))
        except ManifestError:
            return self._fields(part, suite=suite), False
        scenarios = [name.partition("/") for name in planned]
        fields = [{"suite": suite, "perturbation": name, "severity": severity} for name, _, severity in scenarios]
        return [each for each in fields if layout.place_of(layout.at("clips", dataset="d", **each))], True

    # --- clips --------------------------------------------------------------------------------------------------------

    def _videos(self, suite: str, usable: int) -> Iterator[Counted]:
        scenarios, planned = self._scenarios(suite, "video_recipes", "video_part")
        merged = self._path("videos", suite=suite)
        if scenarios or merged.is_file():
            stage = Counted(self._name, suite, "videos", "clips", planned=planned or merged.is_file())
            self._add_clips(stage, merged, "video_part", scenarios, usable)
            yield stage

    def _add_clips(self, stage: Counted, merged: Path, kind: str, scenarios: Sequence[_Fields], total: int) -> None:
        """Count the parts of every scenario; the merged manifest where they are gone, or all are older than it."""
        parts = [[self._path(kind, shard=shard, **fields) for shard in self._shards] for fields in scenarios]
        is_merged = kind != "source_part" or not self._shards
        if is_merged and _is_newest(merged, [part for paths in parts for part in paths]):
            count = stage.new_count()
            if self._add_rows(stage, count, merged):
                count.total = count.done + count.failed
                self._take_lost(stage, count, merged, kind)
                count.bytes = stored_columns.stored_bytes(merged) if kind != "source_part" else 0
                return
        for paths in parts:
            count = stage.new_count()
            count.total = total
            for part in paths:
                self._add_shard(stage, count, part)

    def _add_rows(self, stage: Counted, count: Count, path: Path) -> bool:
        """Count the rows of a part or a manifest; without them where it cannot be read."""
        try:
            complete, failed = files.counts(path)
            rows = stored_columns.failed_rows(path) if failed else []
        except ManifestError as error:
            stage.add_failure(str(path.relative_to(self._root)), str(error))
            return False
        for row in rows:
            stage.add_failure(row["item_id"] or "", row["error"] or "", row["stage"])
        count.done += complete
        count.failed += failed
        return True

    def _add_shard(self, stage: Counted, count: Count, part: Path) -> None:
        """Count a shard: its part, or where it has none its journal, and the log of the job that works on it."""
        finished, size = journal.count(layout.journal_of(part))
        count.bytes += size
        before = count.done
        log, benchmark = self._files_of_job(part)
        if part.exists() and self._add_rows(stage, count, part):
            count.add_time(runs.benchmark_seconds(benchmark), count.done - before)
            self._take_lost(stage, count, part, "video_part" if stage.stage == "videos" else "")
            return
        count.done += finished
        if self._is_at_work(log):
            count.jobs += 1
            job = progress.read(log)
            count.done += job.done if stage.stage == "sources" else 0  # it has no journal
            count.add_time(job.seconds, job.done - job.kept)

    def _take_lost(self, stage: Counted, count: Count, path: Path, kind: str) -> None:
        """Count clips no longer as done whose files are gone, or have another size than their rows say."""
        if kind == "video_part":
            lost = clip_markers.lost(self._root, stored_columns.stored(path))
            count.done -= len(lost)
            for name in lost:
                stage.add_failure(Path(name).name.partition(".")[0], LOST)

    def _add_rejected(self, stage: Counted, kind: str, name: str) -> int:
        """Add the failures of a list that planning wrote of items that cannot be used, and return their number."""
        path = self._path(kind)
        try:
            items = listed.read(path, listed.RejectedItem) if path.is_file() else []
        except ManifestError as error:
            stage.add_failure("", str(error), name)
            return 1
        for item in items:
            stage.add_failure(item.item_id, item.error, name)
        return len(items)

    # --- captions and evaluations: parts done of all -----------------------------------------------------------------

    def _captions(self, suite: str) -> Iterator[Counted]:
        scenarios, planned = self._scenarios(suite, "text_recipes", "text_part")
        shards = listed.shards(self._path("caption_list", shard="s0").parent)
        if scenarios:
            stage = Counted(self._name, suite, "captions", "parts", planned=planned)
            jobs = {
                self._path("text_marker", suite=suite, shard=shard): [
                    self._path("text_part", shard=shard, **fields) for fields in scenarios
                ]
                for shard in shards
            }
            self._add_parts(stage, jobs)
            yield stage

    def _planned(self, kind: str, fields: _Fields) -> Counted:
        """The stage of a list of parts, which a wing planned."""
        stage = Counted(self._name, fields.get("model"), fields.get("kind", kind.partition("_")[0]), "parts")
        try:
            parts = [self._root / part for part in listed.read_parts(self._path(kind, **fields))]
            self._add_parts(stage, {part: [part] for part in parts})
        except ManifestError as error:
            stage.add_failure("", str(error))
        return stage

    def _add_parts(self, stage: Counted, jobs: Mapping[Path, Sequence[Path]]) -> None:
        """Count the parts of jobs, each by the file that it writes last."""
        count = stage.new_count()
        for last, parts in jobs.items():
            log, benchmark = self._files_of_job(last)
            done = sum(part.is_file() for part in parts)
            count.total += len(parts)
            count.done += done
            if last.is_file():
                count.add_time(runs.benchmark_seconds(benchmark), done)
            elif self._is_at_work(log):
                count.jobs += 1
                if len(parts) > 1:  # the log of a job of one part counts something else
                    job = progress.read(log)
                    count.add_time(job.seconds, job.done - job.kept)

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def _files_of_job(self, part: Path) -> tuple[Path, Path]:
        """The log and the benchmark of the job that writes a part."""
        job = layout.job_of(part.relative_to(self._root))
        return self._path("log", job=job), self._path("benchmark", job=job)

    def _is_at_work(self, log: Path) -> bool:
        """Whether a job works: the present run began its log, and does not call it failed."""
        run = self._run
        if run is None or not run.running or str(log.relative_to(self._root)) in {job.log for job in run.failed}:
            return False
        return runs.changed(log) >= run.began


def _is_newest(merged: Path, parts: Sequence[Path]) -> bool:
    """Whether a manifest is there, and so are its parts, none of them newer; or none is left."""
    return merged.is_file() and all(0 < runs.changed(part) <= runs.changed(merged) for part in parts)
