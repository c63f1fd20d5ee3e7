"""The check before the first job: clips, models and disk. A few lines for the user, and what cannot succeed."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perturbations.base import shown
from perturbations.base.errors import ConfigError, cut
from perturbations.config.sections import Config
from perturbations.corpus import clip_files, costs, listed, tiers
from perturbations.corpus.listed import ListedClip
from perturbations.corpus.sharding import dataset_of
from perturbations.datasets import registry as datasets
from perturbations.manifest import layout
from perturbations.manifest.kinds import MISSING, SourceRow
from perturbations.report import readiness
from perturbations.report.work import Work

_SURELY = 0.4
"""An estimate may be too high by a factor of 2: less free space than this share of it cannot be enough."""
_MOST_ERRORS = 20


@dataclass
class Report:
    """What the check says: counts and estimates, what may go wrong, and what cannot succeed."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # errors that a run would end with too: more items than allowed

    def text(self) -> list[str]:
        """All lines, for people."""
        return [f"preflight: {line}" for line in (*self.lines, *(f"warning: {line}" for line in self.warnings))]

    def raise_errors(self) -> None:
        """Raise `ConfigError` with every error."""
        if errors := [*self.failed, *self.errors]:
            lines = "".join(f"\n  {line}" for line in errors[:_MOST_ERRORS])
            more = f"\n  and {len(errors) - _MOST_ERRORS} more" if len(errors) > _MOST_ERRORS else ""
            past = "\n`snakemake --no-hooks` starts without this check" if self.errors else ""
            raise ConfigError(f"this run cannot succeed, and no job was started:{lines}{more}{past}")


def check(config: Config, work: Work, local: bool = True) -> Report:
    """Look at what a run needs; `local`: its jobs run on this machine. Paths are from the folder of results."""
    report = Report(errors=readiness.problems(config, work, local=local))
    usable = {name: _count_clips(config, name, work, report) for name in work.collections}
    for dataset in sorted(work.checked_captions):
        _count_captions(config, dataset, report)
    if work.clips:
        _estimate_clips(config, work, usable, report)
    if work.captions:
        report.lines.append(f"to make: perturbed captions in {shown.plural(work.captions, 'job')}")
    report.lines += readiness.models(config, work)
    return report


# --- clips ------------------------------------------------------------------------------------------------------------


def _count_clips(config: Config, name: str, work: Work, report: Report) -> dict[str, list[ListedClip]]:
    """The clips of a collection whose file may be a video, by shard, which are counted in the report."""
    shards = listed.read_folder(Path(layout.folder("shard_list", dataset=name)), ListedClip)
    rejected = listed.read(Path(layout.at("rejected", dataset=name)), SourceRow)
    unread = [clip for shard, members in shards.items() if (name, shard) in work.unread for clip in members]
    reasons = clip_files.unreadable(unread)
    usable = {shard: [clip for clip in members if clip.path not in reasons] for shard, members in shards.items()}
    damaged = [clip for clip in unread if clip.path in reasons]
    missing = sum(entry.status == MISSING for entry in rejected)
    dataset = config.datasets[dataset_of(name)]
    allowed = config.max_failed_items_of(dataset_of(name))
    noun = shown.in_words_of("clip", pictures=dataset.has_pictures)
    present = "to draw" if datasets.get(dataset.adapter).synthetic else "present"
    counts = [f"{sum(map(len, usable.values())):,} {present}"]
    unusable = (
        (missing, "missing"),
        (len(damaged), "unreadable"),
        (len(rejected) - missing, "unusable in the annotations"),
    )
    counts += [f"{number:,} {what}" for number, what in unusable if number]
    report.lines.append(f"{noun}s of {name}: {', '.join(counts)}; max_failed_items allows {allowed:,}")
    lines = [f"{entry.item_id!r}: {cut(str(entry.error))}" for entry in rejected]
    lines += [f"{clip.item_id!r}: {clip.path}: {reasons[clip.path]}" for clip in damaged]
    if len(lines) > allowed:
        text = f"{name}: {shown.plural(len(lines), noun)} missing or unreadable, max_failed_items allows {allowed:,}"
        repair = shown.in_words_of("put whole videos in their place", pictures=dataset.has_pictures)
        where = report.failed if name in work.checked else report.warnings
        where.append(text + _with_remedy(lines, dataset_of(name), repair))
    return usable


def _count_captions(config: Config, dataset: str, report: Report) -> None:
    rejected = listed.read(Path(layout.at("rejected_captions", dataset=dataset)), SourceRow)
    allowed = config.max_failed_items_of(dataset)
    if len(rejected) > allowed:
        number = shown.plural(len(rejected), "listed caption")
        text = f"{dataset}: {number} cannot be used, max_failed_items allows {allowed:,}"
        reasons = [f"{entry.item_id!r}: {cut(str(entry.error))}" for entry in rejected]
        report.failed.append(text + _with_remedy(reasons, dataset, "correct these lines"))


def _with_remedy(reasons: Sequence[str], dataset: str, repair: str) -> str:
    """The first reasons, and what helps, each a line."""
    keys = f"list the others in datasets.{dataset}.subset, or set datasets.{dataset}.max_failed_items: {len(reasons)}"
    return "".join(f"\n    {line}" for line in (*shown.first_of(reasons), f"{repair}, {keys}"))


# --- disk -------------------------------------------------------------------------------------------------------------


def _estimate_clips(config: Config, work: Work, usable: dict[str, dict[str, list[ListedClip]]], report: Report) -> None:
    videos = Counter[str]()
    for (name, *_), shards in work.clips.items():
        videos[name] += sum(len(usable[name].get(shard, ())) for shard in shards)
    pictures = all(config.datasets[dataset_of(name)].has_pictures for name in videos)
    noun = shown.in_words_of("perturbed video", pictures=pictures)
    report.lines.append(f"to make: {shown.plural(videos.total(), noun)}")
    jobs = 0 if config.storage.tier == "recipe" else sum(map(len, work.clips.values()))
    files = jobs + (jobs if config.storage.container == "tar" else videos.total() if jobs else 0)
    clips = {name: [clip for members in shards.values() for clip in members] for name, shards in usable.items()}
    size = stored_bytes(config, videos, clips)
    stored = "" if size is None else f"about {shown.size(round(size))} to store in {shown.plural(files, 'file')}, "
    place = Path(layout.CORPORA) if Path(layout.CORPORA).exists() else Path()
    free = shutil.disk_usage(place).free
    line = f"disk: {stored}{shown.size(free)} free in {cut(str(place.resolve()))}"
    report.lines.append(line)
    if size is not None and free < _SURELY * size:
        ways = (
            "free some, make `corpora` a link to a larger disk, or take another `storage` (a profile, frames, recipe)"
        )
        report.errors.append(f"{line}: {ways}")
    elif size is not None and free < size:
        report.warnings.append(f"{line}: the estimate is right within a factor of 2")
    report.errors += _unwritable(config, work)


def stored_bytes(config: Config, videos: Counter[str], clips: dict[str, list[ListedClip]]) -> float | None:
    """The bytes that a number of perturbed clips of each collection take: clips x pixels x bytes per pixel.

    Within a factor of 2. None where no clip of a collection can be looked at, as long as they are still to be drawn.
    """
    size = 0.0
    for name, number in videos.items() if config.storage.tier != "recipe" else ():
        resolved = tiers.storage_of(config.storage, pictures=config.datasets[dataset_of(name)].has_pictures)
        frames = tiers.sampled(resolved)
        profile = resolved.get("profile", config.storage.tier)
        pixels = costs.mean_pixels(clips[name], frames)
        if pixels is None:
            return None
        size += number * pixels * clip_files.BYTES_PER_PIXEL[profile]
    return size


def _unwritable(config: Config, work: Work) -> list[str]:
    """The folders of results in which nothing can be written, one line each."""
    folders = {Path(layout.folder("videos", dataset=name, suite=suite)) for name, suite, *_ in work.clips}
    if config.storage.tier != "recipe":
        folders |= {Path(layout.CORPORA, name, suite) for name, suite, *_ in work.clips}
    nearest = {next(path for path in (folder, *folder.parents) if os.path.lexists(path)) for folder in folders}
    return [
        f"disk: {cut(str(path))} is {'not writable' if path.is_dir() else 'no folder'}"
        for path in sorted(nearest)
        if not (path.is_dir() and os.access(path, os.W_OK | os.X_OK))
    ]
