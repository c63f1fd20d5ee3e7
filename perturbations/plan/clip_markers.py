"""The clips of a shard as Snakemake sees them: one marker beside them, with the name and the size of each.

Of clips in a tar it is the tar's index: their names are `TAR/OFFSET/MEMBER`.

The marker is an output of the job that makes the clips, so that a deleted folder is made again. Planning takes away the
markers whose clips are gone, and gives markers to clips of versions that wrote none. Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base import confinement, jsontext, storage, tars
from perturbations.base.errors import ManifestError, OutputError, cut
from perturbations.manifest import layout
from perturbations.plan import recipe

if TYPE_CHECKING:
    from perturbations.config import sections as configuration

Sizes = Mapping[str, int]
"""The bytes of files by their names."""


def write(path: Path, files: Iterable[tuple[str | None, int | None]]) -> None:
    """Write the marker of a shard, whose clips lie beside it; a clip that is not stored has neither path nor size."""
    sizes = {tars.from_folder(name): size for name, size in files if name is not None}
    storage.write_text(path, json.dumps(sizes, sort_keys=True, ensure_ascii=False) + "\n")


def read_clips(path: Path) -> dict[str, int] | None:
    """The bytes of each clip of a marker, by its path from the marker's folder; None where it cannot be read."""
    try:
        return {name: int(size) for name, size in jsontext.mapping(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError):
        return None


def read(path: Path) -> dict[str, int] | None:
    """The bytes of the files that hold the clips of a marker, by name; None where it cannot be read."""
    clips = read_clips(path)
    return None if clips is None else tars.sizes(clips.items())


def clips_in(folder: Path) -> Iterator[dict[str, int]]:
    """The clips of each of a folder's markers, as `read_clips` gives them; none where there is no folder."""
    markers = filter(is_marker, folder.iterdir()) if folder.is_dir() else ()
    return (read_clips(marker) or {} for marker in markers)


def is_marker(path: Path) -> bool:
    """Whether a file below `corpora/` is a marker of a shard."""
    tree = layout.in_tree(path, layout.CORPORA)
    place = None if tree is None else layout.place_of(tree[1].as_posix())
    return place is not None and place.kind == "clip_marker"


def listing(folder: Path) -> dict[str, int]:
    """The sizes of a folder's files; none where there is no folder."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
    except OSError:
        return {}


def lost(root: Path, files: Iterable[tuple[str, int]]) -> list[str]:
    """The paths, of rows with their sizes, that are missing below `root` or have another size; a listing per folder."""
    listings: dict[Path, dict[str, int]] = {}
    missing = []
    stored = list(files)
    sizes = tars.sizes(stored)
    for name, _ in stored:
        held = tars.file_of(name)
        path = root / held
        if path.parent not in listings:
            listings[path.parent] = listing(path.parent)
        if listings[path.parent].get(path.name) != sizes[held]:
            missing.append(name)
    return missing


def refresh(config: configuration.Config, collection: str, shards: Iterable[str]) -> None:
    """Make the markers of a collection's clips true: one is there if and only if all clips of its shard are.

    Where there is none, the rows of the shard's part say what its clips are. Raises `OutputError`.
    """
    if config.storage.tier == "recipe":
        return
    known = set(shards)
    for suite in config.suites:
        for name, severity in recipe.scenarios(config, suite):
            fields = {"dataset": collection, "suite": suite, "perturbation": name, "severity": severity}
            _refresh_folder(config, fields, known)


def write_texts(path: Path, parts: Iterable[Path]) -> None:
    """Write the marker of a shard of captions: the bytes of its parts by their paths from the marker's folder."""
    sizes = {part.relative_to(path.parent).as_posix(): part.stat().st_size for part in parts}
    storage.write_text(path, json.dumps(sizes, sort_keys=True) + "\n")


def refresh_texts(config: configuration.Config, dataset: str) -> None:
    """Remove the markers of captions of which a part is missing or has another size. Raises `OutputError`."""
    for marker in config.at("").glob(layout.any_of("text_marker", dataset=dataset)):
        sizes = read(marker)
        if sizes is None or lost(marker.parent, sizes.items()):
            _remove(marker)


def _refresh_folder(config: configuration.Config, fields: Mapping[str, object], shards: set[str]) -> None:
    folder = config.at(layout.at("clips", **fields))
    _check_folder(folder)
    there = listing(folder)
    for shard in sorted(shards):
        marker = config.at(layout.at("clip_marker", shard=shard, **fields))
        sizes = read(marker) if marker.name in there else None
        if sizes is None or any(there.get(name) != size for name, size in sizes.items()):
            _remove(marker)
            _adopt(marker, config.at(layout.at("video_part", shard=shard, **fields)), there)
    own = {layout.name("clip_marker", shard=shard) for shard in shards}
    for name in there.keys() - own:
        if is_marker(folder / name):  # of a shard that is no more
            _remove(folder / name)


def _check_folder(folder: Path) -> None:
    """Raise `OutputError` where a file is in the way: Snakemake looks into the folder next, and would fail."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        raise OutputError(f"cannot write {cut(str(folder))}: {cut(str(nearest))} is no folder")


def _remove(marker: Path) -> None:
    if marker.is_file():
        confinement.check_written(marker)
        with storage.output_errors(marker):
            marker.unlink(missing_ok=True)


def _adopt(marker: Path, part: Path, there: Sizes) -> None:
    """Write the marker of clips that were made without one; as old as their part, it makes nothing run again."""
    if not part.is_file():
        return
    from perturbations.manifest import stored_columns

    try:
        clips = list(stored_columns.stored(part))
    except ManifestError:
        return  # it is made again by who reads it
    if all(there.get(Path(path).name) == size for path, size in tars.sizes(clips).items()):
        write(marker, clips)
        changed = part.stat().st_mtime_ns
        os.utime(marker, ns=(changed, changed))
