"""The check before the first job: clips, models and disk. A few lines for the user, and what cannot succeed.

Whether an evaluation's model, its libraries and its device are there is found by the first job, `check_model`.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from perturbations.base import shown
from perturbations.base.errors import BackendError, ConfigError, cut, first_line
from perturbations.config.sections import Config
from perturbations.corpus.plan import clip_lists, folders, recipe, resources, targets, tiers
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.corpus.plan.sharding import dataset_of
from perturbations.corpus.plan.targets import ClipScenario, TargetWork
from perturbations.corpus.store import first_bytes
from perturbations.datasets import adapter_registry as datasets
from perturbations.manifest import manifest_paths
from perturbations.manifest.rows import MISSING, SourceRow
from perturbations.models import checkpoints
from perturbations.models.guides import guide_registry as guides
from perturbations.suites import suite_registry

_SURELY = 0.4
"""An estimate may be too high by a factor of 2: less free space than this share of it cannot be enough."""


@dataclass
class Report:
    """What the check says: counts and estimates, what may go wrong, and what cannot succeed."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def text(self) -> list[str]:
        """All lines, for people."""
        return [f"check: {line}" for line in (*self.lines, *(f"warning: {line}" for line in self.warnings))]

    def raise_errors(self) -> None:
        """Raise `ConfigError` with every error."""
        if self.errors:
            lines = "".join(f"\n  {line}" for line in self.errors)
            past = "\n`snakemake --no-hooks` starts without this check"
            raise ConfigError(f"this run cannot succeed, and no job was started:{lines}{past}")


def check(config: Config, works: Sequence[TargetWork]) -> Report:
    """Check what targets need against the files on this machine. Paths are relative to the folder of results."""
    asked, report = targets.together(works), Report()
    of_corpora = [(*corpus, *own) for corpus in asked.corpora for own in recipe.scenarios(config, corpus[1])]
    scenarios = list(dict.fromkeys((*of_corpora, *asked.clips)))
    places = [place for place in map(manifest_paths.place_of, asked.files) if place]
    evaluated = [dataset_of(fields["dataset"]) for kind, fields in places if kind == "results"]
    checked = {name for name, _ in asked.corpora}
    names = sorted({*evaluated, *(name for name, *_ in scenarios)})
    clips = {name: _clips(config, name, name in checked, report) for name in names}
    for dataset in sorted({fields["dataset"] for kind, fields in places if kind == "captions_checked"}):
        report.errors += _captions(config, dataset)
    _disk(config, scenarios, clips, report)
    report.errors += _unwritable()
    _models(config, scenarios, report)
    for key, own in config.evaluation.each_model() if evaluated else ():
        if own.model is not None:
            report.errors += _absent(config, f"{key}model", own.model)
    return report


# --- clips and captions -----------------------------------------------------------------------------------------------


def _clips(config: Config, name: str, must: bool, report: Report) -> dict[str, list[ListedClip]]:
    """Count a collection's clips in the report, and return them by shard. `must`: too many bad clips end the run."""
    shards = clip_lists.read_folder(Path(manifest_paths.folder("shard_list", dataset=name)), ListedClip)
    rejected = clip_lists.read(Path(manifest_paths.at("rejected", dataset=name)), SourceRow)
    read = {shard for shard in shards if Path(*folders.of_shards("source_part", name, [shard])).exists()}
    unread = [clip for shard in shards.keys() - read for clip in shards[shard]]
    damaged = first_bytes.unreadable(unread)
    missing = sum(entry.status == MISSING for entry in rejected)
    described = config.datasets[dataset_of(name)]
    noun = shown.in_words_of("clip", pictures=described.has_pictures)
    present, every = sum(map(len, shards.values())) - len(damaged), sum(map(len, shards.values())) + len(rejected)
    allowed = config.max_failed_items_of(dataset_of(name))
    lacking = (
        (missing, "missing"),
        (len(damaged), "unreadable"),
        (len(rejected) - missing, "wrong in the annotations"),
    )
    if datasets.get(described.adapter).synthetic:
        report.lines.append(f"{name}: {shown.plural(present, noun)} to generate")
    else:
        counts = [f"{present:,} of {shown.plural(every, noun)} found", *(f"{n:,} {what}" for n, what in lacking if n)]
        report.lines.append(f"{name}: {', '.join(counts)} ({allowed:,} may be missing or damaged: max_failed_items)")
    reasons = [f"{entry.item_id!r}: {cut(str(entry.error))}" for entry in rejected]
    reasons += [f"{clip.item_id!r}: {clip.path}: {damaged[clip.path]}" for clip in unread if clip.path in damaged]
    ways = ["correct these lines"] if len(rejected) > missing else []
    ways += ["replace these files"] if missing or damaged else []
    lines = report.errors if must else report.warnings
    lines += _too_many(config, name, f"{shown.plural(len(reasons), noun)} cannot be used", reasons, " and ".join(ways))
    return shards


def _captions(config: Config, dataset: str) -> Iterator[str]:
    """A line where too many captions of a dataset cannot be used."""
    rejected = clip_lists.read(Path(manifest_paths.at("rejected_captions", dataset=dataset)), SourceRow)
    reasons = [f"{entry.item_id!r}: {cut(str(entry.error))}" for entry in rejected]
    what = f"{shown.plural(len(rejected), 'listed caption')} cannot be used"
    return _too_many(config, dataset, what, reasons, "correct these lines")


def _too_many(config: Config, name: str, what: str, reasons: Sequence[str], repair: str) -> Iterator[str]:
    """Where more items fail than are allowed: a message with the first reasons and the remedy."""
    dataset = dataset_of(name)
    allowed = config.max_failed_items_of(dataset)
    if len(reasons) > allowed:
        keys = f"datasets.{dataset}.subset), or set datasets.{dataset}.max_failed_items: {len(reasons)}"
        lines = (*shown.first_of(reasons), f"{repair}, or leave them out (list only the good ones in {keys}")
        allows = f"max_failed_items is {allowed:,}"
        yield f"{name}: {what}, {allows}" + "".join(f"\n    {line}" for line in lines)


# --- disk -------------------------------------------------------------------------------------------------------------


def _disk(
    config: Config, scenarios: Sequence[ClipScenario], clips: dict[str, dict[str, list[ListedClip]]], report: Report
) -> None:
    """Report how many perturbed clips are still to be made, their bytes, and the free space."""
    videos = Counter[str]()
    for collection, suite, name, severity in scenarios:
        for shard, members in clips[collection].items():
            parts = folders.clip_inputs(config, collection, suite, [(name, severity)], [shard])
            videos[collection] += len(members) * any(not Path(path).exists() for path in parts)
    if not videos.total():
        return
    pictures = all(config.datasets[dataset_of(name)].has_pictures for name in videos)
    noun = shown.in_words_of("perturbed video", pictures=pictures)
    report.lines.append(f"to make: {shown.plural(videos.total(), noun)}")
    size = stored_bytes(config, videos, {name: list(chain(*shards.values())) for name, shards in clips.items()})
    place = Path(manifest_paths.CORPORA) if Path(manifest_paths.CORPORA).exists() else Path()
    free = shutil.disk_usage(place).free
    stored = "" if size is None else f"about {shown.size(round(size))} to store, "
    report.lines.append(line := f"disk: {stored}{shown.size(free)} free in {cut(str(place.resolve()))}")
    if size is not None and free < _SURELY * size:
        ways = "make `corpora` a link to a larger disk, or take another `storage` (a profile, frames, recipe)"
        report.errors.append(f"{line}: free some, {ways}")
    elif size is not None and free < size:
        report.warnings.append(f"{line}: the estimate is right within a factor of 2")


def stored_bytes(config: Config, videos: Counter[str], clips: dict[str, list[ListedClip]]) -> float | None:
    """The bytes that a number of perturbed clips of each collection take: clips x pixels x bytes per pixel.

    Within a factor of 2. None where no clip of a collection can be read: the demo's clips are not generated yet.
    """
    size = 0.0
    for name, number in videos.items() if config.storage.tier != "recipe" else ():
        resolved = tiers.storage_of(config.storage, pictures=config.datasets[dataset_of(name)].has_pictures)
        pixels = resources.mean_pixels(clips[name], tiers.sampled(resolved))
        if pixels is None:
            return None
        size += number * pixels * first_bytes.BYTES_PER_PIXEL[resolved.get("profile", config.storage.tier)]
    return size


def _unwritable() -> Iterator[str]:
    """A line for each folder of results that cannot be written."""
    for top in manifest_paths.TOP:
        folder = Path(top) if os.path.lexists(top) else Path()
        if not os.access(folder, os.W_OK | os.X_OK):
            yield f"disk: the folder {cut(str(folder.absolute()))} cannot be written"


# --- models -----------------------------------------------------------------------------------------------------------


def _models(config: Config, scenarios: Sequence[ClipScenario], report: Report) -> None:
    """The models of the guides that clips use: a stand-in, or real ones, which must be on this machine."""
    kinds = {suite_registry.get(f"{suite}/{name}").guide for _, suite, name, _ in scenarios}
    used = {guides.get(kind).role for kind in kinds if kind}
    for role, settings in config.backends.roles().items():
        values = dict(settings)
        if role not in used or "backend" not in values:
            continue
        names = {key: values[key] for key in values if f"{key}_revision" in values and values[key]}
        named = " and ".join(names.values()) if values["backend"] == "pretrained" else "a stand-in"
        report.lines.append(f"model of {role}, as backends.{role}.backend: {values['backend']}: {named}")
        for key, name in names.items() if values["backend"] == "pretrained" else ():
            report.errors += _absent(config, f"backends.{role}.{key}", name)


def _absent(config: Config, key: str, name: str) -> Iterator[str]:
    """A line where a model is not on this machine."""
    try:
        checkpoints.find_weights(name)
        return
    except BackendError as error:
        reason = str(error)
    except ValueError:  # a name that no hub has
        reason = "no such folder"
    except ImportError as error:
        reason = first_line(error)
    yield config.places.before(key, f"{key}: {name}: {reason}")
