"""A corpus without its pixels: its manifests with names instead of paths, from which the same frames can be made.

Of the source dataset it holds only ids, captions and hashes. `regenerate` makes the corpus again. `SHA256SUMS` lists
every table, so that a lost or edited table is noticed. Its own hash is the export's root: who has the root from the
publisher can check that nothing was exchanged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from perturbations.base import project, shown
from perturbations.base.errors import ManifestError
from perturbations.exports import card, croissant, export_folder, exported_corpus
from perturbations.exports.export_registry import Exported, Request
from perturbations.manifest import files, locations, manifest_paths
from perturbations.manifest.rows import (
    CAPTIONS,
    PUBLISHED,
    SOURCE_STORAGE,
    SOURCES,
    VIDEOS,
    ClipRow,
    RowKind,
    SourceRow,
)

_log = logging.getLogger("perturbations")

_COMMAND = "perturb regenerate THIS_FOLDER --clips FOLDER_OF_CLIPS -o NEW_FOLDER"
_ABOUT = (
    "The recipe and the hashes of every clip of a perturbed corpus, and no pixels. Whoever has the clips of the source "
    "dataset makes the same corpus, with `pip install '{release}'` and\n\n```\n{command}\n```\n\nwhich compares each "
    "clip's frames with `frames_sha256` and ends with an error where one differs. `source_path` is a clip's path below "
    "`FOLDER_OF_CLIPS`; only a file with the hash `source_sha256` is used. `--root {root}` proves that no table was "
    "exchanged."
)

FORMAT = "recipe"


def write_videos(request: Request) -> Exported:
    """Write the manifests of a suite's videos and of its dataset, with names of clips instead of paths.

    A clip's name is its path below the folder that holds all of them. Raises `ManifestError` for another manifest than
    of videos and for one that was changed after it was written, and as `exported_corpus.read` and
    `export_folder.claim` do.
    """
    kind = files.kind_of(request.manifest)
    if kind != VIDEOS:
        raise ManifestError(f"{request.manifest} is a manifest of {kind.name}; recipes are exported from videos")
    if "/" in str(files.read_metadata(request.manifest).get("dataset")):
        raise ManifestError(f"{request.manifest} is of whole videos: export the manifest of the clips cut from them")
    exported = exported_corpus.read(replace(request, clean=False), any_tier=True)
    root = locations.root_of(request.manifest, files.read_metadata(request.manifest))
    tables = _near(locations.path_in_tree(request.manifest).absolute())
    export_folder.claim(exported)
    every = {path for _, rows, _ in tables.values() for row in rows for path in _sources(row)}
    top = os.path.commonpath([os.path.dirname(os.path.normpath(root / path)) for path in every]) if every else root

    @cache
    def named(path: str) -> str:
        return PurePosixPath(os.path.relpath(os.path.normpath(root / path), top)).as_posix()

    records: dict[str, list[Path]] = {}
    for name, table in tables.items():
        path = request.data / name
        rewrite(table, path, (renamed(row, named) for row in table[1]), ".")
        records[PurePosixPath(name).with_suffix("").as_posix().replace("/", "_")] = [path]
    for lacking in {manifest_paths.name(SOURCES.name), manifest_paths.name(CAPTIONS.name)} - {*tables}:
        _log.warning("%s will be without %s: there is none near %s", request.output, lacking, request.manifest)
    written = [path for paths in records.values() for path in paths]
    exported.count = sum(exported.counts.values())
    configs = [
        card.config(name, [f"data/{path}"], is_default=Path(path).name == manifest_paths.name(VIDEOS.name))
        for name, path in zip(records, tables, strict=True)
    ]
    digest = export_folder.write_sums(request.output, only=written)
    card.finish(exported, configs, [_ABOUT.format(release=project.release(), command=_COMMAND, root=digest)])
    croissant.write(exported, records)
    _log.info("%s: its root is %s", request.output, digest)
    return exported.result(f"recipes of {shown.plural(exported.count, 'clip')}")


Table = tuple[RowKind[Any], Sequence[Any], Mapping[str, Any]]
"""A manifest: its kind, its stored rows, and its metadata."""


def read_table(path: Path) -> Table:
    """A manifest that is as it was written. Raises `ManifestError` for a manifest that was changed later."""
    kind = files.kind_of(path)
    return kind, files.read_rows(path, kind), files.read_metadata(path)


def rewrite(table: Table, path: Path, rows: Iterable[Any], root: str) -> None:
    """Write other rows with the metadata of a table; their paths are relative to `root`."""
    kind, _, about = table
    files.write(
        path, kind, rows, {name: own for name, own in about.items() if name not in files.COUNTS} | {"root": root}
    )


def _near(videos: Path) -> dict[str, Table]:
    """The manifests that are published with a videos manifest, by their path from the dataset's folder.

    Raises `ManifestError` for a manifest that was changed after it was written.
    """
    top = videos.parents[1]
    below = (manifest_paths.PATTERNS[name].partition("{dataset}/")[2] for name in PUBLISHED)
    paths = [top / path.format(suite=videos.parent.name) for path in below]
    paths.append(top / manifest_paths.WHOLE / manifest_paths.name(SOURCES.name))
    return {path.relative_to(top).as_posix(): read_table(path) for path in paths if path.is_file()}


def _sources(row: object) -> list[str]:
    """The paths of a row's clean clips."""
    paths: list[str] = []

    def noted(path: str) -> str:
        paths.append(path)
        return path

    renamed(row, noted)
    return paths


def renamed(row: Any, named: Callable[[str], str]) -> Any:
    """A row with changed paths of clean clips; of the paths of the publisher's other files, only the names are kept."""
    if isinstance(row, SourceRow):
        return replace(row, path=row.path and named(row.path))
    if not isinstance(row, ClipRow):
        return row
    guide = row.guide
    if guide and (held := locations.guide_files(guide)):
        names = {
            own: path and (named(str(path)) if own == "donor" else Path(str(path)).name) for own, path in held.items()
        }
        guide = locations.with_guide_files(guide, names)
    path = named(row.path) if row.path and row.storage == SOURCE_STORAGE else row.path
    return replace(row, path=path, source_path=named(row.source_path), guide=guide)
