"""The check before the first job: clips, models, disk and time. A few lines for the user, and what cannot succeed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from perturbations.datasets import registry as datasets
from perturbations.engine import estimates, readiness, speed
from perturbations.engine.estimates import Collection, Time
from perturbations.errors import ConfigError, ManifestError, cut
from perturbations.manifest import locations
from perturbations.plan import config as configuration
from perturbations.plan import listed, paths, sharding
from perturbations.plan.preflight import Wanted
from perturbations.system.confinement import LINKED_VARIABLE

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
    probe = speed.Probe()
    if local:
        probe.look()
    report.errors += readiness.problems(config, wanted, local=local)
    collections = sorted(
        {job.collection for job in wanted.videos} | {collection for collection, _ in wanted.sources} | wanted.checked
    )
    surveyed = {name: Collection.read(name, wanted) for name in collections}
    for name, collection in surveyed.items():
        _count(config, name, collection, wanted, report)
    for dataset in sorted(wanted.checked_captions):
        _count_captions(config, dataset, report)
    times = _times(config, wanted, surveyed, report, in_store)
    if local and times:
        probe.look()
    times = {kind: replace(each, cpu_s=each.cpu_s * probe.slower) for kind, each in times.items()}
    if not (times or wanted.composes):
        empty = any(not collection.clips for collection in surveyed.values())
        why = "no clip is present" if empty else "what these targets need of them exists"
        report.lines.append(f"to make: no clips, captions or evaluations; {why}")
    if times:
        report.lines.append(f"time: {_sum(times, cores)}{', without composed retrieval' if wanted.composes else ''}")
    return report


def _times(
    config: configuration.Config, wanted: Wanted, surveyed: dict[str, Collection], report: Report, in_store: bool
) -> dict[str, Time]:
    """The time of each kind of job, on the machine of the costs."""
    times: dict[str, Time] = {}
    if wanted.videos or wanted.sources or wanted.analyses:
        times["clips"] = _estimate(config, wanted, surveyed, report, in_store)
    if wanted.captions:
        times["captions"] = estimates.of_captions(config, wanted)
    if wanted.evaluations or wanted.galleries or wanted.trains:
        times["evaluation"] = estimates.of_evaluations(config, wanted, surveyed)
    return times


# --- clips ------------------------------------------------------------------------------------------------------------


def _count(config: configuration.Config, name: str, collection: Collection, wanted: Wanted, report: Report) -> None:
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
    surveyed: dict[str, Collection],
    report: Report,
    in_store: bool,
) -> Time:
    of_clips = estimates.of_clips(config, wanted, surveyed)
    rough = ", roughly: no clip could be looked at" if of_clips.rough else ""
    report.lines.append(f"to make: {of_clips.videos:,.0f} perturbed videos in {of_clips.jobs:,} jobs{rough}")
    if in_store:
        report.lines.append(f"store: about {_bytes(of_clips.bytes)} to store")
    else:
        _compare_disk(of_clips.bytes, report)
        report.errors += _unwritable(config, wanted)
    return Time(of_clips.cpu_s, of_clips.jobs)


def _sum(times: Mapping[str, Time], cores: int | None) -> str:
    """The time of all jobs, and of each kind where there are several; ranges where one may be far off."""
    total = sum(time.cpu_s for time in times.values())
    jobs = sum(time.jobs for time in times.values())
    kinds = f": {', '.join(f'{name} {_between(time)}' for name, time in times.items())}" if len(times) > 1 else ""
    rough = len(times) == 1 and any(time.range > 1 for time in times.values())
    words = _between(*times.values()) if rough else _hours(total)
    spread = "" if rough else _on_cores(total, cores, jobs)
    without = sorted({time.without for time in times.values()} - {""})
    left_out = f"; {without[0]} is not estimated" if without else ""
    return f"about {words} of CPU{spread}{kinds}{left_out}"


def _between(time: Time) -> str:
    low, high = _hours(time.cpu_s / time.range), _hours(time.cpu_s * time.range)
    return low if low == high else f"{low} to {high}"


def _compare_disk(wanted: float, report: Report) -> None:
    folder = Path("corpora")
    try:
        locations.confined(Path(), str(folder))
    except ManifestError as error:  # otherwise told only when all clips are made, by the first job that reads them
        report.errors.append(f"disk: {error}")
    place = folder if folder.exists() else Path()
    free = shutil.disk_usage(place).free
    where = cut(str(place.resolve()))
    report.lines.append(f"disk: about {_bytes(wanted)} to store, {_bytes(free)} free in {where}")
    sentence = f"disk: the run stores about {_bytes(wanted)} (+- 30 %), and {where} has {_bytes(free)} free"
    if free < SURELY * wanted:
        ways = (
            f"free some, make `corpora` a link to a larger disk and name its folder in {LINKED_VARIABLE}, or take "
            "another `storage` (a profile, frames, recipe)"
        )
        report.errors.append(f"{sentence}: {ways}")
    elif free < wanted:
        report.warnings.append(sentence)


def _unwritable(config: configuration.Config, wanted: Wanted) -> list[str]:
    """The folders of results in which nothing can be written, one line each."""
    folders = {Path("manifests", collection, suite) for collection, suite, _, _ in wanted.scenarios}
    if config.storage.tier != "recipe":
        folders |= {
            Path("corpora", collection, suite, name, str(severity))
            for collection, suite, name, severity in wanted.scenarios
        }
    nearest = {next(path for path in (folder, *folder.parents) if os.path.lexists(path)) for folder in folders}
    return [
        f"disk: {cut(str(path))} is {'not writable' if path.is_dir() else 'no folder'}"
        for path in sorted(nearest)
        if not (path.is_dir() and os.access(path, os.W_OK | os.X_OK))
    ]


def _bytes(size: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:,.{0 if size >= 100 * unit else 1}f} {name}"
    return f"{size / 1e3:,.0f} kB"


def _hours(seconds: float) -> str:
    if seconds >= 5400:
        return f"{seconds / 3600:,.{0 if seconds >= 360_000 else 1}f} hours"
    number, unit = (seconds / 60, "minute") if seconds >= 90 else (seconds, "second")
    return f"{number:,.0f} {unit}{'' if f'{number:.0f}' == '1' else 's'}"


def _on_cores(seconds: float, cores: int | None, jobs: int) -> str:
    if cores is None:
        return ""
    used = max(1, min(cores, jobs))
    return f", {_hours(seconds / used)} on {cores} core{'s' if cores != 1 else ''}"


def cores_here() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
