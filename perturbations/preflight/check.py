"""The check before the first job: clips, models and disk. A few lines for the user, and what cannot succeed."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perturbations.base import shown
from perturbations.base.errors import ConfigError, cut
from perturbations.config import sections as configuration
from perturbations.datasets import registry as datasets
from perturbations.engine import clip_files
from perturbations.manifest import layout
from perturbations.plan import costs, listed, sharding, tiers
from perturbations.plan.listed import ListedClip
from perturbations.preflight import readiness
from perturbations.preflight.work import Work

_SURELY = 0.4
"""An estimate may be too high by a factor of 2: less free space than this share of it cannot be enough."""
_MOST_REASONS = 5
_MOST_ERRORS = 20
_PAST = "`snakemake --no-hooks` starts without this check"


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
            listed_errors = "".join(f"\n  {line}" for line in errors[:_MOST_ERRORS])
            more = f"\n  and {len(errors) - _MOST_ERRORS} more" if len(errors) > _MOST_ERRORS else ""
            past = f"\n{_PAST}" if self.errors else ""
            raise ConfigError(f"this run cannot succeed, and no job was started:{listed_errors}{more}{past}")


def check(config: configuration.Config, work: Work, local: bool = True) -> Report:
    """Look at what a run needs; `local`: its jobs run on this machine."""
    report = Report(errors=readiness.problems(config, work, local=local))
    usable = {name: _count(config, name, work, report) for name in work.collections}
    for dataset in sorted(work.checked_captions):
        _count_captions(config, dataset, report)
    if work.clips:
        _estimate_clips(config, work, usable, report)
    if work.captions:
        report.lines.append(f"to make: perturbed captions in {shown.plural(work.captions, 'job')}")
    return report


# --- clips ------------------------------------------------------------------------------------------------------------


def _count(config: configuration.Config, name: str, work: Work, report: Report) -> dict[str, list[ListedClip]]:
    """The clips of a collection whose file may be a video, by shard, which are counted in the report."""
    shards = listed.read_folder(Path(layout.folder("shard_list", dataset=name)), ListedClip)
    rejected = listed.read(Path(layout.at("rejected", dataset=name)), listed.RejectedItem)
    clips = [clip for members in shards.values() for clip in members]
    reasons = clip_files.unreadable(
        [clip for shard in shards if (name, shard) in work.unread for clip in shards[shard]]
    )
    damaged = [clip for clip in clips if clip.path in reasons]
    missing = sum(entry.missing for entry in rejected)
    dataset = sharding.dataset_of(name)
    allowed = config.max_failed_items_of(dataset)
    synthetic = datasets.get(config.datasets[dataset].adapter).synthetic
    noun = _in_words(config, [name], "clips")
    counted = [f"{len(clips) - len(damaged):,} {'to draw' if synthetic else 'present'}"]
    unusable = len(rejected) - missing
    for number, what in ((missing, "missing"), (len(damaged), "unreadable"), (unusable, "unusable in the annotations")):
        counted += [f"{number:,} {what}"] if number else []
    report.lines.append(f"{noun} of {name}: {', '.join(counted)}; max_failed_items allows {allowed:,}")
    failed = len(rejected) + len(damaged)
    if failed > allowed:
        lines = [f"{entry.item_id!r}: {cut(entry.error)}" for entry in rejected]
        lines += [f"{clip.item_id!r}: {clip.path}: {reasons[clip.path]}" for clip in damaged]
        text = f"{name}: {failed:,} {noun} are missing or cannot be read, max_failed_items allows {allowed:,}"
        whole = _in_words(config, [name], "put whole videos in their place")
        where = report.failed if name in work.checked else report.warnings
        where.append(text + _with_remedy(lines, dataset, failed, whole))
    return {shard: [clip for clip in members if clip.path not in reasons] for shard, members in shards.items()}


def _with_remedy(reasons: Sequence[str], dataset: str, failed: int, repair: str) -> str:
    """The first reasons, and what helps, each a line."""
    first = [*reasons[:_MOST_REASONS], *(["..."] if len(reasons) > _MOST_REASONS else [])]
    keys = f"list the others in datasets.{dataset}.subset, or set datasets.{dataset}.max_failed_items: {failed}"
    return "".join(f"\n    {line}" for line in (*first, f"{repair}, {keys}"))


def _count_captions(config: configuration.Config, dataset: str, report: Report) -> None:
    rejected = listed.read(Path(layout.at("rejected_captions", dataset=dataset)), listed.RejectedItem)
    allowed = config.max_failed_items_of(dataset)
    if len(rejected) > allowed:
        line = f"{dataset}: {len(rejected):,} listed captions cannot be used, max_failed_items allows {allowed:,}"
        reasons = [f"{entry.item_id!r}: {cut(entry.error)}" for entry in rejected]
        report.failed.append(line + _with_remedy(reasons, dataset, len(rejected), "correct these lines"))


def _in_words(config: configuration.Config, collections: Iterable[str], text: str) -> str:
    """A sentence about clips, about pictures where all collections are of pictures."""
    every = [config.datasets[sharding.dataset_of(name)].has_pictures for name in collections]
    return shown.in_words_of(text, pictures=bool(every) and all(every))


# --- disk -------------------------------------------------------------------------------------------------------------

_ClipsOfShards = dict[str, dict[str, list[ListedClip]]]
"""Collection -> shard -> its clips whose file may be a video."""


def _estimate_clips(config: configuration.Config, work: Work, usable: _ClipsOfShards, report: Report) -> None:
    videos = Counter[str]()
    for (name, *_), shards in work.clips.items():
        videos[name] += sum(len(usable[name].get(shard, ())) for shard in shards)
    jobs = sum(map(len, work.clips.values()))
    report.lines.append(f"to make: {videos.total():,} {_in_words(config, videos, 'perturbed videos')}")
    files = 0 if config.storage.tier == "recipe" else jobs
    files += files if config.storage.container == "tar" else videos.total() if files else 0
    size = stored_bytes(config, videos, usable)
    stored = "" if size is None else f"about {shown.size(round(size))} to store in {files:,} files, "
    _compare_disk(size, stored, report)
    report.errors += _unwritable(config, work)


def stored_bytes(config: configuration.Config, videos: Counter[str], usable: _ClipsOfShards) -> float | None:
    """The bytes that a number of perturbed clips of each collection take: clips x pixels x bytes per pixel.

    Within a factor of 2. None where no clip of a collection can be looked at, as long as they are still to be drawn.
    """
    size = 0.0
    for name, number in videos.items() if config.storage.tier != "recipe" else ():
        resolved = tiers.storage_of(config.storage, pictures=config.datasets[sharding.dataset_of(name)].has_pictures)
        frames = resolved.num_frames if isinstance(resolved, tiers.StoredFrames) else None
        profile = resolved.profile if isinstance(resolved, tiers.StoredVideo) else config.storage.tier
        clips = [clip for members in usable[name].values() for clip in members]
        pixels = costs.mean_pixels(clips, frames, seed=config.seed)
        if pixels is None:
            return None
        size += number * pixels * clip_files.BYTES_PER_PIXEL[profile]
    return size


def _compare_disk(size: float | None, stored: str, report: Report) -> None:
    folder = Path(layout.CORPORA)
    place = folder if folder.exists() else Path()
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


def _unwritable(config: configuration.Config, work: Work) -> list[str]:
    """The folders of results in which nothing can be written, one line each."""
    folders = {Path(layout.folder("videos", dataset=name, suite=suite)) for name, suite, *_ in work.clips}
    if config.storage.tier != "recipe":
        folders |= {
            Path(layout.at("clips", dataset=collection, suite=suite, perturbation=name, severity=severity))
            for collection, suite, name, severity in work.clips
        }
    nearest = {next(path for path in (folder, *folder.parents) if os.path.lexists(path)) for folder in folders}
    return [
        f"disk: {cut(str(path))} is {'not writable' if path.is_dir() else 'no folder'}"
        for path in sorted(nearest)
        if not (path.is_dir() and os.access(path, os.W_OK | os.X_OK))
    ]
