"""The check before the first job: clips, models, disk and time. A few lines for the user, and what cannot succeed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perturbations.datasets import registry as datasets
from perturbations.engine import readiness
from perturbations.errors import ConfigError, ManifestError, cut
from perturbations.plan import config as configuration
from perturbations.plan import costs, listed, paths, recipe, sharding
from perturbations.plan.costs import Volume
from perturbations.plan.preflight import Wanted
from perturbations.suites import registry
from perturbations.system import storage

SURELY = 0.7
"""An estimate may be too high by 30 %: less free space than this share of it cannot be enough."""
_MOST_LINES = 4
"""Lines of one kind."""
_PAST = "`snakemake --no-hooks` starts without this check"


@dataclass
class Report:
    """What the check says.

    Attributes:
        lines: counts and estimates.
        warnings: what may go wrong.
        errors: what cannot succeed.
    """

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def text(self) -> list[str]:
        """All lines, for people: at most twelve."""
        lines = [*_few(self.lines), *(f"warning: {line}" for line in _few(self.warnings))]
        return [f"preflight: {line}" for line in lines]

    def raise_errors(self) -> None:
        """Raise `ConfigError` with every error."""
        if self.errors:
            listed_errors = "".join(f"\n  {line}" for line in self.errors[:20])
            more = f"\n  and {len(self.errors) - 20} more" if len(self.errors) > 20 else ""
            raise ConfigError(f"this run cannot succeed, and no job was started:{listed_errors}{more}\n{_PAST}")


def _few(lines: Sequence[str]) -> list[str]:
    more = [f"and {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES + 1 else []
    return [*lines[: len(lines) if not more else _MOST_LINES], *more]


def check(
    config: configuration.Config, wanted: Wanted, cores: int | None, local: bool = True, in_store: bool = False
) -> Report:
    """Look at what a run needs. `cores` is None where a cluster runs the jobs; `local`: they run on this machine.

    Results that an object store takes (`in_store`) need no room on this disk.
    """
    report = Report()
    report.errors += readiness.problems(config, wanted, local=local)
    collections = sorted(
        {job.collection for job in wanted.videos} | {collection for collection, _ in wanted.sources} | wanted.checked
    )
    surveyed = {name: _Collection.read(config, name, wanted) for name in collections}
    for name, collection in surveyed.items():
        _count(config, name, collection, wanted, report)
    for dataset in sorted(wanted.checked_captions):
        _count_captions(config, dataset, report)
    if wanted.videos or wanted.sources or wanted.analyses:
        _estimate(config, wanted, surveyed, report, cores, in_store)
    return report


# --- clips ------------------------------------------------------------------------------------------------------------


@dataclass
class _Collection:
    """The clips of a collection.

    Attributes:
        shards: per shard, its listed clips.
        rejected: listed items without a usable entry or video, and why.
        unreadable: path -> why a file that is still to be read is no video.
        look: what a sample of the clips is like.
    """

    shards: dict[str, list[listed.ListedClip]]
    rejected: list[listed.RejectedItem]
    unreadable: dict[str, str]
    volumes: dict[str, Volume] = field(default_factory=dict)
    clean: float = 0.0

    @classmethod
    def read(cls, config: configuration.Config, name: str, wanted: Wanted) -> _Collection:
        from perturbations.engine import survey

        root = paths.WORK / name
        shards = listed.read_folder(root / "shards", listed.ListedClip)
        rejected = listed.read(root / "rejected.jsonl", listed.RejectedItem)
        unread = [clip for shard, clips in shards.items() if (name, shard) in wanted.sources for clip in clips]
        return cls(shards, rejected, survey.unreadable(unread))

    @property
    def clips(self) -> list[listed.ListedClip]:
        return [clip for clips in self.shards.values() for clip in clips]


def _count(config: configuration.Config, name: str, collection: _Collection, wanted: Wanted, report: Report) -> None:
    clips = collection.clips
    damaged = [clip for clip in clips if clip.path in collection.unreadable]
    missing = sum(entry.missing for entry in collection.rejected)
    unusable = len(collection.rejected) - missing
    allowed = config.max_quarantine_of(sharding.dataset_of(name))
    drawn = datasets.get(config.datasets[sharding.dataset_of(name)].adapter).drawn
    counted = [f"{len(clips) - len(damaged):,} {'to draw' if drawn else 'present'}"]
    for number, what in ((missing, "missing"), (len(damaged), "unreadable"), (unusable, "unusable in the annotations")):
        counted += [f"{number:,} {what}"] if number else []
    report.lines.append(f"clips of {name}: {', '.join(counted)}; max_quarantine allows {allowed:,}")
    failed = len(collection.rejected) + len(damaged)
    if failed > allowed:
        reasons = [f"{entry.item_id!r}: {cut(entry.error)}" for entry in collection.rejected]
        reasons += [f"{clip.item_id!r}: {clip.path}: {collection.unreadable[clip.path]}" for clip in damaged]
        shown = "".join(f"\n    {reason}" for reason in reasons[:5]) + ("\n    ..." if len(reasons) > 5 else "")
        line = f"{name}: {failed:,} clips are missing or cannot be read, max_quarantine allows {allowed:,}{shown}"
        (report.errors if name in wanted.checked else report.warnings).append(line)


def _count_captions(config: configuration.Config, dataset: str, report: Report) -> None:
    try:
        rejected = len(listed.read(paths.WORK / dataset / sharding.REJECTED_CAPTIONS, listed.RejectedItem))
    except ManifestError:
        return
    allowed = config.max_quarantine_of(dataset)
    if rejected > allowed:
        line = f"{dataset}: {rejected:,} listed captions cannot be used, max_quarantine allows {allowed:,}"
        report.errors.append(f"{line}: see {paths.WORK / dataset / sharding.REJECTED_CAPTIONS}")


# --- disk and time ----------------------------------------------------------------------------------------------------


def _estimate(
    config: configuration.Config,
    wanted: Wanted,
    surveyed: dict[str, _Collection],
    report: Report,
    cores: int | None,
    in_store: bool,
) -> None:
    for job in wanted.analyses:
        surveyed.setdefault(job[0], _Collection.read(config, job[0], wanted))
    tier = costs.tier_of(config.storage)
    looked_at = [_measure(config, name, collection, tier) for name, collection in surveyed.items()]
    size, cpu_s, videos = 0.0, 0.0, 0.0
    for (name, suite, perturbation, severity), shards in wanted.scenarios.items():
        entry = registry.get(f"{suite}/{perturbation}", config.suites[suite].variant)
        of_clips = _total(surveyed[name].volumes[shard] for shard in shards if shard in surveyed[name].volumes)
        cost = costs.cost(entry, severity, tier)
        size += cost.bytes_of(of_clips, surveyed[name].clean)
        cpu_s += cost.seconds_of(of_clips) + costs.JOB_S * len(shards)
        videos += of_clips.clips
    for name, shard in wanted.sources:
        cpu_s += _seconds(costs.other(costs.SOURCES), surveyed[name], shard)
    for name, analysis, shard in wanted.analyses:
        cost = costs.other(f"analyses/{analysis}", tier)
        cpu_s += _seconds(cost, surveyed[name], shard)
        size += cost.bytes_of(surveyed[name].volumes.get(shard, Volume()), surveyed[name].clean)
    jobs = len(wanted.videos) + len(wanted.sources) + len(wanted.analyses)
    rough = "" if all(looked_at) else ", roughly: no clip could be looked at"
    report.lines.append(f"to make: {videos:,.0f} perturbed videos in {jobs:,} jobs{rough}")
    if in_store:
        report.lines.append(f"store: about {_bytes(size)} to store")
    else:
        _compare_disk(size, report)
    report.lines.append(f"time: about {_hours(cpu_s)} of CPU{_on_cores(cpu_s, cores, jobs)}{_not_in_it(wanted)}")


def _seconds(cost: costs.Cost, collection: _Collection, shard: str) -> float:
    return cost.seconds_of(collection.volumes.get(shard, Volume())) + costs.JOB_S


def _total(volumes: Iterable[Volume]) -> Volume:
    return sum(volumes, Volume())


def _measure(config: configuration.Config, name: str, collection: _Collection, tier: str) -> bool:
    """Find out how much video a collection's shards are; whether any of its clips could be looked at."""
    stored = recipe.storage_of(config.storage)
    stored_frames = stored.num_frames if isinstance(stored, recipe.StoredFrames) else None
    if datasets.get(config.datasets[sharding.dataset_of(name)].adapter).drawn:
        return _measure_drawn(collection, tier, stored_frames)
    from perturbations.engine import survey

    clips = [clip for clip in collection.clips if clip.path not in collection.unreadable]
    try:
        with storage.scratch_directory() as folder:
            look = survey.look(clips, tier, Path(folder), seed=config.seed)
    except ImportError:  # Snakemake's own environment has no decoder; the jobs' has
        look = None
    usual = look or survey.Look(_USUAL_SECONDS_PER_BYTE, _USUAL_PIXELS_PER_SECOND, 320 * 240, None)
    collection.clean = _USUAL_CLEAN if usual.clean is None else usual.clean
    for shard, members in collection.shards.items():
        known = _known(name, shard, stored_frames)
        collection.volumes[shard] = known or _total(usual.volume(clip, stored_frames) for clip in members)
    return look is not None


_USUAL_SECONDS_PER_BYTE = 2e-5
_USUAL_PIXELS_PER_SECOND = 25 * 320 * 240
_USUAL_CLEAN = 0.35
"""Of MSR-VTT's clips."""


def _measure_drawn(collection: _Collection, tier: str, stored_frames: int | None) -> bool:
    from perturbations.demo import canvas, film

    frame = canvas.WIDTH * canvas.HEIGHT
    pixels = film.NUM_FRAMES * frame
    stored = pixels if stored_frames is None else stored_frames * frame
    for shard, members in collection.shards.items():
        count = len(members)
        collection.volumes[shard] = Volume(count, count * pixels, count * film.SECONDS_LONG, count * stored)
    collection.clean = costs.other(costs.DEMO, tier).per_pixel
    return True


def _known(name: str, shard: str, stored_frames: int | None) -> Volume | None:
    """What the manifest's part of a shard says, where its clips were read before."""
    part = paths.WORK / name / "sources" / f"{shard}.parquet"
    if not part.exists():
        return None
    try:
        from perturbations.manifest import sets
        from perturbations.manifest.kinds import SOURCES, CompleteSource

        rows = [row for row in sets.read_part(part, SOURCES) if isinstance(row, CompleteSource)]
    except (ImportError, ManifestError):
        return None
    frames = [row.width * row.height for row in rows]
    pixels = sum(row.frame_count * frame for row, frame in zip(rows, frames, strict=True))
    stored = pixels if stored_frames is None else stored_frames * sum(frames)
    return Volume(len(rows), pixels, sum(row.duration_s for row in rows), stored)


def _compare_disk(wanted: float, report: Report) -> None:
    folder = Path("corpora")
    place = folder if folder.exists() else Path()
    free = shutil.disk_usage(place).free
    where = cut(str(place.resolve()))
    report.lines.append(f"disk: about {_bytes(wanted)} to store, {_bytes(free)} free in {where}")
    sentence = f"disk: the run stores about {_bytes(wanted)} (+- 30 %), and {where} has {_bytes(free)} free"
    if free < SURELY * wanted:
        ways = (
            "free some, make `corpora` a link to a larger disk, or take another `storage` (a profile, frames, recipe)"
        )
        report.errors.append(f"{sentence}: {ways}")
    elif free < wanted:
        report.warnings.append(sentence)


def _bytes(size: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:,.{0 if size >= 100 * unit else 1}f} {name}"
    return f"{size / 1e3:,.0f} kB"


def _hours(seconds: float) -> str:
    if seconds >= 5400:
        return f"{seconds / 3600:,.{0 if seconds >= 360_000 else 1}f} hours"
    return f"{seconds / 60:,.0f} minutes" if seconds >= 90 else f"{seconds:,.0f} seconds"


def _on_cores(seconds: float, cores: int | None, jobs: int) -> str:
    if cores is None:
        return ""
    used = max(1, min(cores, jobs))
    return f", {_hours(seconds / used)} on {cores} core{'s' if cores != 1 else ''}"


def _not_in_it(wanted: Wanted) -> str:
    left_out = [name for name, has in (("captions", wanted.texts), ("evaluation", wanted.evaluates)) if has]
    return f", without {' and '.join(left_out)}" if left_out else ""


def cores_here() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
