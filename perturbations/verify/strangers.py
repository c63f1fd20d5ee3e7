"""Files below `corpora` that nothing names, neither a row of a manifest nor one of a part.

A part is what a job made: evaluations read clips of suites that have no manifest yet.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from perturbations.base import storage, tars
from perturbations.base.errors import ManifestError
from perturbations.manifest import layout, locations, stored_columns
from perturbations.manifest.kinds import VIDEOS
from perturbations.plan import clip_markers
from perturbations.verify.findings import Finding
from perturbations.verify.tree import Tree

LEFTOVER = "what an interrupted write left"
UNNAMED = "no row names this file"
MORE = "it holds more than the clips that rows name: delete it, and `perturb verify --repair` makes it again"


def of_corpora(tree: Tree) -> Iterator[Finding]:
    """The files in the folders of corpora that nothing names, also in those of suites without a manifest."""
    named: dict[str, set[str]] = {}  # by their folder
    corpora: set[Path] = set()
    for chosen in tree.chosen:
        manifest = chosen.of(VIDEOS)
        if manifest is None or manifest.collection is None:
            continue
        place = Path(layout.CORPORA, manifest.collection, manifest.path.parent.name)
        try:
            folder = locations.confined(manifest.root, str(place))
        except ManifestError as error:
            yield Finding(manifest.path, "", str(error))
            continue
        corpora.add(folder)
        root = os.path.normpath(manifest.root)  # of the root alone: a row's own `..` names no file of the corpus
        ends: dict[str, int] = {}
        for stored, size in ((row.path, row.bytes) for row in manifest.rows if row.path is not None):
            file, offset, _ = tars.named(f"{root}/{stored}") or (f"{root}/{stored}", 0, "")
            parent, name = os.path.split(file)
            named.setdefault(parent, set()).add(name)
            if offset:
                tar = file.removeprefix(f"{root}/")
                ends[tar] = max(ends.get(tar, 0), offset + tars.padded(size or 0))
        yield from _larger(manifest.root, ends)
    corpora.update(filter(None, map(_corpora_of, tree.folders)))
    strangers = {path for folder in corpora for path in _files_below(folder, named)}
    of_parts: dict[Path, set[str]] = {}
    for path in map(Path, sorted(strangers)):
        if clip_markers.is_marker(path):
            continue
        if path.parent not in of_parts:
            of_parts[path.parent] = set(_named_by_parts(path.parent))
        if storage.is_leftover(path):
            yield Finding(path, "", LEFTOVER)
        elif path.name not in of_parts[path.parent]:
            yield Finding(path, "", UNNAMED)


def _larger(root: Path, ends: Mapping[str, int]) -> Iterator[Finding]:
    """The tars that hold something after the last clip that rows name in them, which ends at `ends`."""
    for tar, end in sorted(ends.items()):
        with suppress(ManifestError):  # the row's own finding says that its path leaves the corpus
            path = locations.confined(root, tar)
            if tars.goes_on(path, end):
                yield Finding(path, "", MORE)


def _named_by_parts(folder: Path) -> Iterator[str]:
    """The names of a folder's clips, by the parts that jobs made of them."""
    tree = layout.in_tree(folder, layout.CORPORA)
    place = None if tree is None else layout.place_of(tree[1].as_posix())
    if tree is None or place is None or place.kind != "clips":
        return
    for part in tree[0].glob(layout.any_of("video_part", **place.fields)):
        try:
            yield from (Path(tars.file_of(path)).name for path, _ in stored_columns.stored(part))
        except ManifestError:
            continue  # the next run makes it again


def _files_below(folder: Path, named: Mapping[str, Collection[str]]) -> Iterator[str]:
    """The files below a folder, but for those that are named."""
    for place, folders, names in os.walk(folder):
        links = (name for name in folders if os.path.islink(os.path.join(place, name)))
        own = named.get(place, ())
        yield from (os.path.join(place, name) for name in (*names, *links) if name not in own)


def _corpora_of(folder: Path) -> Path | None:
    """The folder of all corpora whose manifests lie below a folder; None for one that is not of a workflow."""
    tree = layout.in_tree(Path(os.path.abspath(folder)))
    if tree is None:
        return None
    try:
        own = locations.confined(tree[0], layout.clips_below(tree[1]))
    except ManifestError:
        return None  # behind a link to elsewhere, where nothing is looked for
    return own if own.is_dir() else None
