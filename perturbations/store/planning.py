"""Runs in an object store, whose jobs share no folder: what a job must bring besides what other runs declare.

Elsewhere jobs find list files, clips and the parts of other shards where they lie. In a store, Snakemake brings a job
its declared inputs only: list files are then inputs, and the clips of a shard lie in one tar, its pack, which is one
more output of the job that makes them (`engine.packs`). Planning's result is a file too, because a job on another
machine has no annotations to plan with. No NumPy: Snakemake imports this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from perturbations.base import jsontext, storage
from perturbations.base.errors import ConfigError, cut
from perturbations.config import sections as configuration
from perturbations.datasets import registry as datasets
from perturbations.manifest import layout
from perturbations.plan import listed, paths, recipe, sharding, workplace
from perturbations.plan.costs import Workload
from perturbations.plan.extension import Plans
from perturbations.plan.paths import Inputs
from perturbations.plan.workflow import SharedFolder
from perturbations.store.layout import pack_of

_SHOWN_SHARDS = 2
"""Contact sheets and pages show clips of so many shards: more would bring the whole corpus to one machine."""


# --- the working folder ----------------------------------------------------------------------------------------------


_PREFIX = re.compile(r"[A-Za-z0-9_.:/+=@%-]+")


def prefix(text: str | None) -> str:
    """The place in the store, without a slash at its end.

    Raises `ConfigError` for one that other machines would not get as it is: Snakemake does not quote it for them.
    """
    if not text or not _PREFIX.fullmatch(text):
        raise ConfigError(
            f"--default-storage-prefix: letters, digits and _.:/+=@%- such as s3://bucket/folder, not {text!r}"
        )
    return text.rstrip("/")


def prepare(place: Path) -> None:
    """Make the folder that jobs work in: Snakemake's local copy of the store, where paths are as in the store.

    Raises `ConfigError` where it cannot be made.
    """
    if ".." in place.parts:
        raise ConfigError(f"--local-storage-prefix: {place} lies outside of this folder: give its absolute path")
    workplace.prepare(place)


def shell_prefix(place: Path) -> str:
    """What every shell command begins with, in Snakemake's format: it works in `place`, and knows where home is."""
    home, folder = workplace.quoted(Path.cwd()), workplace.quoted(place)
    return f"export {storage.STORE_VARIABLE}={home}; mkdir -p {folder}; cd {folder}; "


def remove_stale_lists(place: Path, plan: sharding.DatasetPlan, collection: str) -> None:
    """Remove what an earlier run left in `place` of shards that are no more: merging reads all of a folder."""
    folder = Path(layout.folder("shard_list", dataset=collection))
    for shard in {*listed.shards(place / folder)} - {*plan.shards}:
        (place / folder / layout.name("shard_list", shard=shard)).unlink(missing_ok=True)


# --- what jobs bring -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Store(SharedFolder):
    """Jobs that share no folder.

    Attributes:
        place: the folder that jobs work in.
        elsewhere: whether this process is a job on another machine, which has no annotations to plan with.
        send: sends a file to the jobs.
        has: says whether the store has a file.
    """

    place: Path = Path()
    elsewhere: bool = False
    send: Callable[[Path], None] = lambda file: None
    has: Callable[[str], bool] = lambda file: False

    def pack(self, path: str) -> dict[str, str]:
        """The pack of a job's clips."""
        return {"pack": path}

    def marker(self, config: configuration.Config, path: str) -> dict[str, str]:
        """None: the pack is what Snakemake sees."""
        return {}

    def markers(self, config: configuration.Config, collection: str, suite: str, shards: Sequence[str]) -> list[str]:
        """None: a merge reads no clip."""
        return []

    def visible_clips(
        self, config: configuration.Config, collection: str, suite: str, shards: Sequence[str]
    ) -> list[str]:
        """The packs of a finished corpus. While it is made, Snakemake would keep its copies of them until the end."""
        finished = self.has(layout.at("videos", dataset=collection, suite=suite))
        return packs(paths.video_parts(config, collection, suite, shards)) if finished else []

    def refuse(self, what: str) -> list[str]:
        """Raise `ConfigError`: what cannot be made in a store."""
        raise ConfigError(
            f"{what} cannot be made in an object store (--default-storage-provider): fetch the corpus with "
            "`perturb fetch`, and make it there without a store (docs/how-to/object-store.md)"
        )

    def original_packs(self, config: configuration.Config, collection: str, shards: Iterable[str]) -> list[str]:
        """The packs of clips that exist before the run, which the machine that plans makes; none for synthetic clips.

        Raises `ConfigError` for a dataset whose videos are not below the working directory.
        """
        return [] if _is_synthetic(config, collection) else clean_packs(config, collection, shards)

    def analysis_packs(self, config: configuration.Config, collection: str, analysis: str, shard: str) -> list[str]:
        """The packs that an analysis of a shard needs: its clips, and what the analysis before it keeps."""
        before = paths.analysis_captions(collection, analysis, shard)
        return clean_packs(config, collection, [shard]) + packs([before] if isinstance(before, str) else before)

    def text_packs(self, dataset: str, suite: str, shards: Iterable[str]) -> list[str]:
        """The packs of the parts of perturbed captions."""
        return packs(paths.of_shards("text_marker", dataset, shards, suite=suite))

    def shown_packs(self, config: configuration.Config, collection: str, suite: str | None, plans: Plans) -> list[str]:
        """The packs of the clips that a contact sheet may show: clean ones, and of all scenarios of a suite."""
        shards = plans(collection).shards[:_SHOWN_SHARDS]
        perturbed = [] if suite is None else packs(paths.video_parts(config, collection, suite, shards))
        return clean_packs(config, collection, shards) + perturbed

    def video_inputs(
        self, config: configuration.Config, wanted: recipe.VideoRecipe, collection: str, shard: str, plans: Plans
    ) -> Inputs:
        """What a recipe needs of a shard, and the packs of the clips that it reads."""
        inputs = paths.video_inputs(wanted, collection, shard, plans)
        brought = clean_packs(config, collection, [shard])
        if wanted.analysis is not None:
            brought += packs([str(inputs["analysis"])])
        if wanted.donors is not None:
            donors = wanted.donors[0]
            brought += clean_packs(config, donors, plans(donors).shards)
        if wanted.whole_videos:
            whole = sharding.whole(collection)
            brought += clean_packs(config, whole, [layout.shard_of(Path(part)) for part in inputs["whole"]])
        return {**inputs, "packs": list(dict.fromkeys(brought))}

    def plan(self, config: configuration.Config, collection: str) -> sharding.DatasetPlan:
        """The plan of a collection, which comes to other machines with the sources of the workflow."""
        if self.elsewhere:
            return read_plan(collection)
        plan = paths.plan(config, collection)
        self.send(write_plan(plan, collection))
        remove_stale_lists(self.place, plan, collection)
        return plan

    def caption_shards(self, config: configuration.Config, dataset: str) -> tuple[str, ...]:
        """The shards of a dataset's captions, which come to other machines as plans do."""
        if self.elsewhere:
            return read_captions(dataset)
        shards = paths.caption_shards(config, dataset)
        self.send(write_captions(shards, dataset))
        return shards


def clean_packs(config: configuration.Config, collection: str, shards: Iterable[str]) -> list[str]:
    """The packs of a collection's clean clips: made of the user's videos, or by the jobs that draw them.

    Raises `ConfigError` for a dataset whose videos are not below the working directory.
    """
    if _is_synthetic(config, collection):
        return [layout.at("source_pack", dataset=collection, shard=shard) for shard in shards]
    name = sharding.dataset_of(collection)
    videos = config.datasets[name].videos
    if videos is not None and (videos.is_absolute() or ".." in videos.parts):
        raise ConfigError(
            f"datasets.{name}.videos: {cut(str(videos))}: in an object store, videos must lie below the folder in "
            "which Snakemake is started, because jobs on other machines have no other: make a link there, e.g. "
            f"`ln -s {cut(str(videos))} videos`, and give its name"
        )
    return [layout.at("clip_pack", dataset=collection, shard=shard) for shard in shards]


def _is_synthetic(config: configuration.Config, collection: str) -> bool:
    return datasets.get(config.datasets[sharding.dataset_of(collection)].adapter).synthetic is not None


def packs(parts: Iterable[str]) -> list[str]:
    """The packs of parts: beside them."""
    return [str(pack_of(Path(part))) for part in parts]


# --- plans for other machines ----------------------------------------------------------------------------------------


def write_plan(plan: sharding.DatasetPlan, collection: str) -> Path:
    """Write a plan for jobs on other machines, and return its path."""
    videos = {shard: sorted(ids) for shard, ids in plan.videos.items()}
    fields = {**asdict(plan), "videos": videos}
    return _written("plan", collection, fields)


def read_plan(collection: str) -> sharding.DatasetPlan:
    """The plan that the machine wrote that planned. Raises `ConfigError` where it is not here."""
    fields = _read("plan", collection)
    videos = {shard: frozenset(ids) for shard, ids in fields.pop("videos").items()}
    work = {shard: Workload(**size) for shard, size in fields.pop("work").items()}
    return sharding.DatasetPlan(shards=tuple(fields.pop("shards")), videos=videos, work=work, **fields)


def write_captions(shards: Sequence[str], dataset: str) -> Path:
    """Write the shards of a dataset's captions for jobs on other machines, and return the file's path."""
    return _written("caption_plan", dataset, {"shards": list(shards)})


def read_captions(dataset: str) -> tuple[str, ...]:
    """The shards that the machine wrote that planned. Raises `ConfigError` where they are not here."""
    return tuple(_read("caption_plan", dataset)["shards"])


def _written(kind: str, dataset: str, fields: dict[str, Any]) -> Path:
    path = Path(layout.at(kind, dataset=dataset))
    storage.write_text_if_changed(path, json.dumps(fields, sort_keys=True) + "\n")
    return path


def _read(kind: str, dataset: str) -> dict[str, Any]:
    path = Path(layout.at(kind, dataset=dataset))
    try:
        return jsontext.mapping(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: a job without shared folder needs the plan, which is not here: {error}") from None
