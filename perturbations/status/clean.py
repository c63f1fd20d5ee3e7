"""Files of a run that no configuration needs any more: of datasets, suites, severities, shards or clips that went."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from perturbations.base import confinement, storage, sums, tars
from perturbations.base.errors import ConfigError
from perturbations.config.sections import Config
from perturbations.manifest import layout
from perturbations.plan import caption_recipes, clip_markers, recipe, runs, sharding

_STORED = ("clips", "clip_marker")
"""What a corpus of recipes does not have."""
_PROFILES = {**storage.PROFILES, **storage.PICTURES}.values()
_ENDINGS = (*(profile.extension for profile in _PROFILES), storage.FRAMES_EXTENSION, tars.SUFFIX)
"""Of the files that runs write beside markers; others are the user's own."""


@dataclass(frozen=True)
class Unneeded:
    """The names of the files in one folder, relative to the root, that nothing needs, and their bytes."""

    folder: Path
    files: tuple[str, ...]
    bytes: int


def find(root: Path, configs: Sequence[Config]) -> list[Unneeded]:
    """What is in `root` and no configuration makes or reads, by folder. Files that no run writes are left alone."""
    by_folder: dict[Path, list[str]] = {}
    for path in _files(root):
        if not any(_is_needed(root, path, config) for config in configs):
            by_folder.setdefault(path.parent, []).append(path.name)
    return [
        Unneeded(folder, tuple(names), sum((root / folder / name).lstat().st_size for name in names))
        for folder, names in sorted(by_folder.items())
    ]


def delete(root: Path, unneeded: Iterable[Unneeded]) -> None:
    """Delete files, and the folders that they leave empty.

    Raises `ConfigError` while Snakemake works in `root`, or was killed there and left its lock, and `OutputError`,
    before anything is deleted, where a link leads out of it.
    """
    if runs.locks(root):
        raise ConfigError("Snakemake is running here, or was killed: wait for it, or run `snakemake --unlock` first")
    groups = list(unneeded)
    for path in (group.folder / name for group in groups for name in group.files):
        confinement.check_written(root / path)
    for group in groups:
        for path in (group.folder / name for name in group.files):
            with storage.output_errors(root / path):
                (root / path).unlink(missing_ok=True)
                sums.remove(root / path)
        for folder in (group.folder, *group.folder.parents[:-1]):
            with suppress(OSError):  # it holds other files
                (root / folder).rmdir()


def _files(root: Path) -> Iterator[Path]:
    for top in layout.TOP:
        for folder, _, names in os.walk(root / top):  # not behind links: what lies there is not of this folder
            yield from (Path(folder, name).relative_to(root) for name in sorted(names))


def _is_needed(root: Path, path: Path, config: Config) -> bool:
    place = layout.place_of(path.as_posix())
    if place is None:
        place = layout.place_of(layout.part_of(path).as_posix())
    if place is not None and place.kind.startswith("former_"):
        return False
    if place is None or place.kind in ("clips", "clip_tar"):
        place = layout.place_of(path.parent.as_posix())
        if place is None or place.kind != "clips" or not (path.name.endswith(_ENDINGS) or storage.is_leftover(path)):
            return True
        return _needs(config, place) and path.name in _named(root, path.parent)
    return _needs(config, place) and _has_shard(root, place)


def _needs(config: Config, place: layout.Place) -> bool:
    """Whether a configuration has the dataset, the suite and the scenario of a place; logs are kept with their run."""
    fields = place.fields
    if "dataset" not in fields:
        return True
    dataset = sharding.dataset_of(fields["dataset"])
    if dataset not in config.datasets or (place.kind in _STORED and config.storage.tier == "recipe"):
        return False
    suite = fields.get("suite")
    if suite is None or suite not in _suites():
        return True
    if suite not in config.suites:
        return False
    if "perturbation" not in fields:
        return True
    return (fields["perturbation"], int(fields["severity"])) in _scenarios(config, dataset, suite, place.kind)


@cache
def _suites() -> frozenset[str]:
    from perturbations.suites import registry

    return frozenset(registry.suites())


def _scenarios(config: Config, dataset: str, suite: str, kind: str) -> Sequence[tuple[str, int]]:
    if kind == "text_part":
        return caption_recipes.scenarios(config, dataset, suite)
    return recipe.scenarios(config, suite)


def _has_shard(root: Path, place: layout.Place) -> bool:
    """Whether planning lists the shard of a part, by the list that it wrote last."""
    shard, kind = place.fields.get("shard"), place.kind
    if shard is None or kind in ("shard_list", "caption_list"):
        return True
    listed = "caption_list" if kind in ("text_part", "text_marker") else "shard_list"
    lists = layout.at(listed, dataset=place.fields["dataset"], shard=shard)
    return (root / lists).exists() or not (root / lists).parent.is_dir()


@lru_cache(maxsize=1)
def _named(root: Path, folder: Path) -> frozenset[str]:
    """The names of a folder's clips, by the markers of its shards; of a folder without markers, all of its files."""
    there = clip_markers.listing(root / folder)
    markers = [root / folder / name for name in there if clip_markers.is_marker(root / folder / name)]
    sizes = [clip_markers.read(marker) for marker in markers]
    return frozenset(name for each in sizes for name in each or there) if markers else frozenset(there)
