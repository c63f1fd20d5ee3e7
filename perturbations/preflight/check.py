"""The check before the first job: clips, models and disk. A few lines for the user, and what cannot succeed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perturbations.base import features, shown
from perturbations.base.confinement import LINKED_VARIABLE
from perturbations.base.errors import ConfigError, ManifestError, cut
from perturbations.config import sections as configuration
from perturbations.datasets import registry as datasets
from perturbations.manifest import layout, locations
from perturbations.plan import listed, sharding
from perturbations.preflight import readiness, survey
from perturbations.preflight.survey import Collection
from perturbations.preflight.wanted import WantedWork

_SURELY = 0.4
"""An estimate may be too high by a factor of 2: less free space than this share of it cannot be enough."""
_MOST_LINES = 4
"""Lines of one kind."""
_MOST_REASONS = 5
_PAST = "`snakemake --no-hooks` starts without this check"


@dataclass
class Report:
    """What the check says: counts and estimates, what may go wrong, and what cannot succeed."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # errors that a run would end with too: more items than allowed

    def text(self) -> list[str]:
        """All lines, for people: at most twelve."""
        lines = [*_few(self.lines), *(f"warning: {line}" for line in _few(self.warnings))]
        return [f"preflight: {line}" for line in lines]

    def raise_errors(self) -> None:
        """Raise `ConfigError` with every error."""
        if errors := [*self.failed, *self.errors]:
            listed_errors = "".join(f"\n  {line}" for line in errors[:20])
            more = f"\n  and {len(errors) - 20} more" if len(errors) > 20 else ""
            past = f"\n{_PAST}" if self.errors else ""
            raise ConfigError(f"this run cannot succeed, and no job was started:{listed_errors}{more}{past}")


def _few(lines: Sequence[str]) -> list[str]:
    more = [f"and {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES + 1 else []
    return [*lines[: len(lines) if not more else _MOST_LINES], *more]


def check(config: configuration.Config, wanted: WantedWork, local: bool = True) -> Report:
    """Look at what a run needs; `local`: its jobs run on this machine."""
    report = Report()
    report.errors += readiness.problems(config, wanted, local=local)
    surveyed = {name: Collection.read(name, wanted) for name in sorted(wanted.collections)}
    for name, collection in surveyed.items():
        _count(config, name, collection, wanted, report)
    for dataset in sorted(wanted.checked_captions):
        _count_captions(config, dataset, report)
    clips = bool(wanted.videos or wanted.sources or wanted.analyses)
    if clips:
        _estimate_clips(config, wanted, surveyed, report)
    if wanted.captions:
        report.lines.append(f"to make: perturbed captions in {shown.plural(len(wanted.captions), 'job')}")
    others = [line for feature in features.features().values() for line in feature.work(wanted.rules)]
    report.lines += others
    if not (clips or wanted.captions or others):
        empty = any(not collection.clips for collection in surveyed.values())
        why = "no clip is present" if empty else "what these targets need of them exists"
        report.lines.append(f"to make: no clips, captions or evaluations; {why}")
    return report


# --- clips ------------------------------------------------------------------------------------------------------------


def _count(config: configuration.Config, name: str, collection: Collection, wanted: WantedWork, report: Report) -> None:
    clips = collection.clips
    damaged = [clip for clip in clips if clip.path in collection.unreadable]
    missing = sum(entry.missing for entry in collection.rejected)
    unusable = len(collection.rejected) - missing
    allowed = config.max_failed_items_of(sharding.dataset_of(name))
    synthetic = datasets.get(config.datasets[sharding.dataset_of(name)].adapter).synthetic
    noun = survey.in_words(config, [name], "clips")
    counted = [f"{len(clips) - len(damaged):,} {'to draw' if synthetic else 'present'}"]
    for number, what in ((missing, "missing"), (len(damaged), "unreadable"), (unusable, "unusable in the annotations")):
        counted += [f"{number:,} {what}"] if number else []
    report.lines.append(f"{noun} of {name}: {', '.join(counted)}; max_failed_items allows {allowed:,}")
    failed = len(collection.rejected) + len(damaged)
    if failed > allowed:
        reasons = [f"{entry.item_id!r}: {cut(entry.error)}" for entry in collection.rejected]
        reasons += [f"{clip.item_id!r}: {clip.path}: {collection.unreadable[clip.path]}" for clip in damaged]
        line = f"{name}: {failed:,} {noun} are missing or cannot be read, max_failed_items allows {allowed:,}"
        where = report.failed if name in wanted.checked else report.warnings
        whole = survey.in_words(config, [name], "put whole videos in their place")
        where.append(line + _with_remedy(reasons, sharding.dataset_of(name), failed, whole))


def _with_remedy(reasons: Sequence[str], dataset: str, failed: int, repair: str) -> str:
    """The first reasons, and what helps, each a line."""
    first = [*reasons[:_MOST_REASONS], *(["..."] if len(reasons) > _MOST_REASONS else [])]
    keys = f"list the others in datasets.{dataset}.subset, or set datasets.{dataset}.max_failed_items: {failed}"
    return "".join(f"\n    {line}" for line in (*first, f"{repair}, {keys}"))


def _count_captions(config: configuration.Config, dataset: str, report: Report) -> None:
    try:
        rejected = listed.read(Path(layout.at("rejected_captions", dataset=dataset)), listed.RejectedItem)
    except ManifestError:
        return
    allowed = config.max_failed_items_of(dataset)
    if len(rejected) > allowed:
        line = f"{dataset}: {len(rejected):,} listed captions cannot be used, max_failed_items allows {allowed:,}"
        reasons = [f"{entry.item_id!r}: {cut(entry.error)}" for entry in rejected]
        report.failed.append(line + _with_remedy(reasons, dataset, len(rejected), "correct these lines"))


# --- disk -------------------------------------------------------------------------------------------------------------


def _estimate_clips(
    config: configuration.Config, wanted: WantedWork, surveyed: dict[str, Collection], report: Report
) -> None:
    videos, size = survey.stored(config, wanted, surveyed)
    jobs = shown.plural(len(wanted.videos) + len(wanted.sources) + len(wanted.analyses), "job")
    noun = survey.in_words(config, surveyed, "perturbed videos")
    report.lines.append(f"to make: {videos:,} {noun} in {jobs}")
    stored = (
        "" if size is None else f"about {shown.size(round(size))} to store in {_files(config, wanted, videos):,} files"
    )
    _compare_disk(size, stored, report)
    report.errors += _unwritable(config, wanted)


def _files(config: configuration.Config, wanted: WantedWork, videos: int) -> int:
    """How many files the clips take, with the marker of each job: what a quota of files counts."""
    if config.storage.tier == "recipe":
        return 0
    jobs = len(wanted.videos)
    return jobs + (jobs if config.storage.container == "tar" else videos)


def _compare_disk(size: float | None, stored: str, report: Report) -> None:
    folder = Path(layout.CORPORA)
    try:
        locations.confined(Path(), str(folder))
    except ManifestError as error:  # otherwise reported only when all clips are made, by the first job that reads them
        report.errors.append(f"disk: {error}")
    place = folder if folder.exists() else Path()
    free = shutil.disk_usage(place).free
    line = f"disk: {stored}{', ' if stored else ''}{shown.size(free)} free in {cut(str(place.resolve()))}"
    report.lines.append(line)
    if size is None:
        return
    if free < _SURELY * size:
        ways = (
            f"free some, make `corpora` a link to a larger disk and name its folder in {LINKED_VARIABLE}, or take "
            "another `storage` (a profile, frames, recipe)"
        )
        report.errors.append(f"{line}: {ways}")
    elif free < size:
        report.warnings.append(f"{line}: the estimate is right within a factor of 2")


def _unwritable(config: configuration.Config, wanted: WantedWork) -> list[str]:
    """The folders of results in which nothing can be written, one line each."""
    scenarios = wanted.scenarios
    folders = {Path(layout.folder("videos", dataset=collection, suite=suite)) for collection, suite, _, _ in scenarios}
    if config.storage.tier != "recipe":
        folders |= {*wanted.folders}
    nearest = {next(path for path in (folder, *folder.parents) if os.path.lexists(path)) for folder in folders}
    return [
        f"disk: {cut(str(path))} is {'not writable' if path.is_dir() else 'no folder'}"
        for path in sorted(nearest)
        if not (path.is_dir() and os.access(path, os.W_OK | os.X_OK))
    ]
