"""How far the runs in a folder are, and what failed: counted in the files of jobs, also while jobs write them.

A stage is done where every part of a shard is there, and the files of its clips. If a part is not there yet, the
finished clips are those of its journal. Files of a run of another configuration count as long as their lists are there.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from perturbations.base import progress, shown, tars
from perturbations.base.errors import ManifestError, cut
from perturbations.corpus.plan import clip_lists, sharding
from perturbations.corpus.store import journal
from perturbations.manifest import files, manifest_paths
from perturbations.manifest.rows import SourceRow

_VERSION = 3
"""The version of the JSON document; it changes when a key changes its meaning or goes."""

_MOST_ITEMS, _MOST_LINES, _LONGEST = 3, 10, 120
"""Items of a failure and failures of one kind that are listed, and letters of a reason."""

_Stage = dict[str, Any]
_Failed = tuple[str, str | None, str, str, str]
"""A failure: the dataset, the suite, the stage, the reason, and the item (or the part)."""


def collect(root: Path) -> dict[str, Any]:
    """The state of the workflow in the folder `root`, as `perturb status --json` prints it.

    `stages`, in the order of work, have a `dataset` (`NAME/whole` of whole videos), a `suite` (None where the stage
    serves all), a `stage` (sources, the name of an analysis, videos or captions), and how many clips are `done`,
    `failed` (quarantined or missing) and in `total`; of captions, how many parts. `failures`, the most frequent first,
    have the same keys, a `reason`, its `count` and the first `items`. `failed_jobs` have a `log`, relative to `root`,
    and a `reason`. A folder without any run has no stages.
    """
    failed: list[_Failed] = []
    stages = [stage for name in _collections(root) for stage in _stages(root, name, failed)]
    logs = root / manifest_paths.at("log", job="job")
    errors = ((log, progress.error_of(log)) for log in sorted(logs.parent.rglob(f"*{logs.suffix}")))
    jobs = [{"log": str(log.relative_to(root)), "reason": error} for log, error in errors if error]
    return {"version": _VERSION, "stages": stages, "failures": _grouped(failed), "failed_jobs": jobs}


def _collections(root: Path) -> Iterator[str]:
    """The datasets that planning has listed, each with its collections of whole videos and of composed queries."""
    folders = (root / manifest_paths.WORK).iterdir() if (root / manifest_paths.WORK).is_dir() else ()
    for dataset in sorted(path.name for path in folders):
        for name in (dataset, sharding.whole(dataset), sharding.composed(dataset)):
            lists = (
                root / manifest_paths.at(kind, dataset=name, shard="s0") for kind in ("shard_list", "caption_list")
            )
            if any(path.parent.is_dir() for path in lists):
                yield name


def _stages(root: Path, name: str, failed: list[_Failed]) -> Iterator[_Stage]:
    """The stages of a collection, in the order of work; what failed is added to `failed`, one per item."""

    def path(kind: str, /, **fields: object) -> Path:
        return root / manifest_paths.at(kind, **{"dataset": name, **fields})

    def stage(suite: str | None, of: str, done: int, lost: int, total: int) -> _Stage:
        return {"dataset": name, "suite": suite, "stage": of, "done": done, "failed": lost, "total": total}

    def clips(suite: str | None, of: str, parts: Iterable[Path], total: int) -> _Stage:
        done, lost = _counted((name, suite, of), root, parts, failed)
        return stage(suite, of, done, lost, total)

    def parts_of_suites(kind: str, shards: Iterable[str]) -> Iterator[tuple[str, int, list[Path]]]:
        """Each suite of videos or texts, the number of its planned scenarios, and their parts."""
        for plan in sorted(root.glob(manifest_paths.at(f"{kind}_recipes", dataset=name, suite="*"))):
            suite = plan.relative_to(root / manifest_paths.WORK / name).parts[0]
            pairs = [dict(zip(("perturbation", "severity"), key.split("/"), strict=True)) for key in _planned(plan)]
            parts = [path(f"{kind}_part", suite=suite, shard=shard, **pair) for pair in pairs for shard in shards]
            yield suite, len(pairs), parts

    if shards := clip_lists.counts(path("shard_list", shard="s0").parent):
        rejected = _rejected(path("rejected"), name, "annotation")
        failed += rejected
        sources = clips(None, "sources", [path("source_part", shard=shard) for shard in shards], sum(shards.values()))
        usable = sources["total"] - sources["failed"]
        yield stage(None, "sources", sources["done"], sources["failed"] + len(rejected), usable + len(rejected))
        for folder in sorted(path("analysis_part", analysis="*", shard="s0").parents[1].glob("*/")):
            parts = [path("analysis_part", analysis=folder.name, shard=shard) for shard in shards]
            yield clips(None, folder.name, parts, usable)
        for suite, scenarios, parts in parts_of_suites("video", shards):
            yield clips(suite, "videos", parts, usable * scenarios)
    failed += _rejected(path("rejected_captions"), name, "captions")
    for suite, _, parts in parts_of_suites("text", clip_lists.shards(path("caption_list", shard="s0").parent)):
        yield stage(suite, "captions", sum(part.is_file() for part in parts), 0, len(parts))


def _planned(plan: Path) -> Iterable[str]:
    try:
        return clip_lists.read_texts(plan)
    except ManifestError:
        return ()


def _rejected(path: Path, dataset: str, stage: str) -> list[_Failed]:
    """The items that planning found to be unusable."""
    items = clip_lists.read(path, SourceRow) if path.is_file() else []
    return [(dataset, None, stage, str(item.error), item.item_id) for item in items]


def _counted(
    place: tuple[str, str | None, str], root: Path, parts: Iterable[Path], failed: list[_Failed]
) -> tuple[int, int]:
    """How many clips of parts are done, and how many failed; of a missing part, the clips in its journal are done."""
    done, rows = 0, list[_Failed]()
    names = cache(_names_in)
    dataset, suite, stage = place
    for part in parts:
        try:
            if part.is_file():
                done += files.counts(part)[0]
                if suite is not None:
                    held = [tars.file_of(path) for path in files.read_columns(part, "path")["path"].to_pylist() if path]
                    done -= sum(os.path.basename(path) not in names(root / os.path.dirname(path)) for path in held)
                for row in files.failed_rows(part):
                    rows.append((dataset, suite, row["stage"] or stage, row["error"] or "", row["item_id"] or ""))
            else:
                done += journal.count(manifest_paths.journal_of(part))
        except ManifestError as error:
            failed.append((dataset, suite, stage, str(error), str(part)))
    failed += rows
    return done, len(rows)


def _names_in(folder: Path) -> set[str]:
    return {*os.listdir(folder)} if folder.is_dir() else set()


def _grouped(failed: Iterable[_Failed]) -> list[dict[str, Any]]:
    """Failures grouped by reason. Reasons that differ only in numbers and the item's id count as one, the first."""
    groups: dict[tuple[str | None, ...], list[_Failed]] = defaultdict(list)
    for failure in failed:
        *place, reason, item = failure
        groups[*place, re.sub(r"\d+", "#", reason.replace(item, "*") if item else reason)].append(failure)
    failures = [
        {
            **dict(zip(("dataset", "suite", "stage", "reason"), same[0], strict=False)),
            "count": len(same),
            "items": sorted({item for *_, item in same})[:_MOST_ITEMS],
        }
        for same in groups.values()
    ]
    return sorted(failures, key=lambda failure: (-failure["count"], failure["dataset"], failure["reason"]))


# --- for people ------------------------------------------------------------------------------------------------------


def text(status: Mapping[str, Any]) -> str:
    """The table of all stages, and what failed; `status` is the result of `collect`."""
    if not status["stages"]:
        return "Nothing was planned here yet: `snakemake --list-target-rules` lists what there is to make."
    rows = [("dataset", "stage", "done", "of", "", "failed"), *map(_row, status["stages"])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = "  ".join(f"{{:{'<' if place < 2 else '>'}{width}}}" for place, width in enumerate(widths))
    failed = failures(status)
    return "\n".join([*(form.format(*row).rstrip() for row in rows), *(["", failed] if failed else [])])


def _row(stage: _Stage) -> Sequence[str]:
    what = f"{stage['suite']} {stage['stage']}" if stage["suite"] else stage["stage"]
    return (
        shown.line(stage["dataset"]),
        shown.line(f"{what}, parts" if stage["stage"] == "captions" else what),
        f"{stage['done']:,}",
        f"{stage['total']:,}",
        f"{100 * stage['done'] // stage['total']} %" if stage["total"] else "",
        f"{stage['failed']:,}" if stage["failed"] else "",
    )


def failures(status: Mapping[str, Any]) -> str:
    """What failed, for people; an empty text where nothing did."""
    lines = []
    if status["failures"]:
        count = sum(failure["count"] for failure in status["failures"])
        lines.append(f"{count:,} quarantined or missing, by reason; `perturb retry` lets the next run try them again:")
        lines += _first([_failure_line(failure) for failure in status["failures"]])
    if jobs := status["failed_jobs"]:
        lines.append(f"{shown.plural(len(jobs), 'failed job')}; finished clips are kept:")
        lines += _first([f"{cut(job['reason'], _LONGEST)} ({shown.line(job['log'])})" for job in jobs])
    return "\n".join(lines)


def _first(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in shown.first_of(lines, _MOST_LINES)]


def _failure_line(failure: Mapping[str, Any]) -> str:
    """A reason with the number of its items and the first of them."""
    where = " ".join(filter(None, (failure[name] for name in ("dataset", "suite", "stage"))))
    items = ", ".join(map(repr, failure["items"]))
    more = ", ..." if failure["count"] > len(failure["items"]) else ""
    reason = cut(" ".join(failure["reason"].split()), _LONGEST)
    return shown.line(f"{failure['count']:,} x {where}: {reason} ({items}{more})")
