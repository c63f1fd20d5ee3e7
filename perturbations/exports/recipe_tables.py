"""The tables of an export of recipes: a corpus' manifests with names of clips instead of paths, and their list.

`SHA256SUMS` lists every table, so that a lost or edited one is noticed. Its own hash is the export's root: whoever has
that from the publisher knows that nothing was exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perturbations.base import storage
from perturbations.base.errors import ManifestError, short
from perturbations.exports import folder
from perturbations.manifest import files, layout, locations
from perturbations.manifest.kinds import (
    ANALYSES,
    PUBLISHED,
    SOURCE_STORAGE,
    SOURCES,
    VIDEOS,
    AnalysisRow,
    ClipRow,
    RowKind,
    SourceRow,
)
from perturbations.manifest.registry import FILES

FORMAT = "recipe"
_DONORS = "donors"
"""The folder of another dataset's analyses, whose clips are inserted."""


@dataclass(frozen=True)
class Table:
    """A manifest: its kind, its rows as stored, and its metadata."""

    kind: RowKind[Any]
    rows: Sequence[Any]
    about: Mapping[str, Any]

    def write(self, path: Path, rows_of: Iterable[Any], root: str) -> None:
        """Write other rows with the same metadata; their paths are relative to `root`."""
        kept = {name: value for name, value in self.about.items() if name not in files.COUNTS}
        files.write(path, self.kind, rows_of, {**kept, "root": root})


def _read(path: Path) -> Table:
    """A manifest as it was written. Raises `ManifestError` for one that was changed since."""
    kind = files.kind_of(path)
    return Table(kind, files.read_rows(path, kind), files.read_metadata(path))


def near(videos: Path, root: Path, donors: Iterable[tuple[str, str]]) -> dict[str, Table]:
    """The manifests that are published with one of videos, by their path from the dataset's folder.

    `donors` are the datasets and analyses that its recipes take clips from. Analyses that keep files are left out.
    Raises `ManifestError` for a manifest that was changed after it was written.
    """
    top = videos.parents[1]
    paths = [top / layout.in_dataset(name, suite=videos.parent.name) for name in PUBLISHED]
    paths.append(top / layout.WHOLE / layout.name(SOURCES.name))
    others = {layout.name(name) for name in FILES if name != ANALYSES.name}
    analyses = top.glob(layout.in_dataset(ANALYSES.name, analysis="*"))
    paths += sorted(path for path in analyses if path.name not in others)
    named = {path.relative_to(top).as_posix(): path for path in paths}
    for dataset, analysis in donors:
        path = root / layout.at(ANALYSES.name, dataset=dataset, analysis=analysis)
        if path not in named.values():
            named[f"{_DONORS}/{dataset}/{path.name}"] = path
    tables = {name: _read(path) for name, path in named.items() if path.is_file()}
    return {
        name: table
        for name, table in tables.items()
        if table.kind != ANALYSES or not any(row.path for row in table.rows)
    }


def published(folder_of: Path, root: str = "") -> tuple[str, dict[str, Table]]:
    """The tables of an export, whose names are a stranger's, by the path of their manifest below `manifests`.

    The text is the path of that of videos. `root` is the one that the publisher names, or empty.
    Raises `ManifestError` for another folder, another root, and a table that was lost or changed.
    """
    if folder.form_of(folder_of) != FORMAT:
        raise ManifestError(f"{folder_of} is no export in the format {FORMAT}")
    _check_listed(folder_of, root)
    data = folder_of / folder.DATA
    videos = sorted(data.glob(f"*/{layout.name(VIDEOS.name)}"))
    if len(videos) != 1:
        raise ManifestError(f"{folder_of} has {len(videos)} manifests of videos, not one")
    suite = videos[0].parent.name
    about = files.read_metadata(videos[0])
    dataset = str(about.get("dataset"))
    place = layout.place_of(layout.at(VIDEOS.name, dataset=dataset, suite=suite))
    if place is None or place[0] != VIDEOS.name or about.get("suite") != suite:
        raise ManifestError(f"{videos[0]} names no dataset and suite that can be folders: {short(dataset)}, {suite}")
    names = [path.relative_to(data).as_posix() for path in layout.manifests_below(data)]
    tables = {_place(data / name, dataset, name): _read(data / name) for name in names}
    return f"{dataset}/{suite}/{layout.name(VIDEOS.name)}", tables


def _check_listed(folder_of: Path, root: str) -> None:
    """Raise `ManifestError` where an export's files or its root are others than its list says."""
    listing = folder_of / folder.SUMS
    hashes = folder.read_sums(listing)
    if root and (digest := storage.sha256(listing)) != root:
        raise ManifestError(f"{listing} is not the published list: its root is {digest}, not {root}")
    there = {path.relative_to(folder_of).as_posix() for path in layout.manifests_below(folder_of / folder.DATA)}
    for name in sorted({*hashes, *there}):
        path = folder_of / name
        if name not in there:
            raise ManifestError(f"{path} is missing: {listing} lists it; get the export again")
        if name not in hashes or storage.sha256(path) != hashes[name]:
            raise ManifestError(f"{path} is not the file that {listing} lists; get the export again")


def _place(path: Path, dataset: str, name: str) -> str:
    """Where a table's manifest lies below `manifests`. Raises `ManifestError` where no run writes one."""
    below = name.removeprefix(f"{_DONORS}/") if name.startswith(f"{_DONORS}/") else f"{dataset}/{name}"
    place = layout.place_of(f"{layout.MANIFESTS}/{below}")
    if place is None or place[0] not in FILES:
        raise ManifestError(f"{path} is no table of an export of recipes")
    return below


# --- the names of clips -----------------------------------------------------------------------------------------------


def sources(row: object) -> list[str]:
    """The paths of a row's clean clips."""
    paths: list[str] = []

    def noted(path: str) -> str:
        paths.append(path)
        return path

    renamed(row, noted)
    return paths


def renamed(row: Any, named: Callable[[str], str]) -> Any:
    """A row whose paths of clean clips are changed; of other files of the publisher's, only the names are kept."""
    if isinstance(row, SourceRow):
        return replace(row, path=row.path and named(row.path))
    if isinstance(row, AnalysisRow):
        return replace(row, source_path=named(row.source_path))
    if not isinstance(row, ClipRow):
        return row
    guide = row.guide
    if guide and (held := locations.guide_files(guide)):
        kept = {
            name: path and (named(str(path)) if name == "donor" else Path(str(path)).name)
            for name, path in held.items()
        }
        guide = locations.with_guide_files(guide, kept)
    path = named(row.path) if row.path and row.storage == SOURCE_STORAGE else row.path
    return replace(row, path=path, source_path=named(row.source_path), guide=guide)
