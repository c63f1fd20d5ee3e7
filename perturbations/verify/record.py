"""The record of a tree: the lists of files below `manifests`, the roots of these lists, and the files that lie there.

Every file below `manifests` is in a list with the hash that it has, or is a finding. Where an earlier version made a
manifest, which kept no lists, the pages of its dataset are as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from perturbations.base import confinement, project, storage, sums
from perturbations.base.errors import cut
from perturbations.base.layout import DOCUMENTATION, INDEX
from perturbations.manifest import layout, roots
from perturbations.verify import remedies
from perturbations.verify.findings import Finding
from perturbations.verify.strangers import LEFTOVER
from perturbations.verify.tree import Tree

UNLISTED = "no list names this file: no run wrote it, or its line was taken away"
_LINK = "it is a link, which no run makes: put the file that it leads to in its place"
_OF_SNAKEMAKE = ".snakemake_timestamp"


def of_manifests(tree: Tree) -> Iterator[Finding]:
    """What is wrong with the lists, and with the files below the named folders.

    The content of manifests is not compared here: each is verified by itself.
    """
    verified = {finding.place for finding in tree.findings} | {manifest.path for manifest in tree.chosen}
    excused = set(_without_lists(tree))
    for folder in _folders(tree):
        root, below = layout.in_tree(folder) or (folder, Path())
        lying = {below / path.relative_to(folder) for path in _lying(folder, root)}
        lists = {sums.list_of(path) for path in (*lying, below / "any")}
        listed: dict[Path, str] = {}
        for listing in sorted(filter(None, lists)):
            if os.path.lexists(root / listing) and (problem := sums.problem(root / listing)):
                yield Finding(root / listing, "", problem)
            listed |= {listing.parent / name: digest for name, digest in sums.read(root / listing).items()}
        for path in sorted(lying | {path for path in listed if path.is_relative_to(below)}):
            place = folder / path.relative_to(below)
            if place.is_symlink():
                yield Finding(place, "", _LINK)
            elif storage.is_leftover(place):
                yield Finding(place, "", LEFTOVER)
            elif path in listed and place not in verified:
                yield from _changed(place, listed[path])
            elif path not in listed and place not in verified and not _may_lie(root, path, excused):
                yield Finding(place, "", UNLISTED)


def of_root(tree: Tree, root: str) -> Iterator[Finding]:
    """A finding where neither a corpus below the named folders nor all of their `manifests` has this root."""
    tops = {(layout.in_tree(folder) or (folder, Path()))[0] for folder in _folders(tree)}
    for top in sorted(tops):
        known = roots.roots(top / layout.MANIFESTS)
        if root not in known.values():
            held = [f"{digest} of {name or 'all'}" for name, digest in known.items()] or ["none, as there is no list"]
            problem = f"its lists are not those of the root {cut(root)}. Roots here: {', '.join(held)}"
            yield Finding(top / layout.MANIFESTS, "", problem)


def _folders(tree: Tree) -> Iterator[Path]:
    """The named folders that lie below a folder `manifests`, or the folders `manifests` below the named ones."""
    for folder in tree.folders:
        if layout.in_tree(folder) is not None:
            yield folder
        else:
            yield from (path for path in sorted(folder.rglob(layout.MANIFESTS)) if path.is_dir())


def _without_lists(tree: Tree) -> Iterator[Path]:
    """The lists that an earlier version did not keep of the manifests that it made."""
    for manifest in tree.chosen:
        below = layout.in_tree(manifest.path)
        if below is not None and manifest.precedes_lists:
            yield from filter(None, (sums.list_of(below[1]), sums.list_of(Path(layout.MANIFESTS, sums.NAME))))


def _changed(place: Path, listed: str) -> Iterator[Finding]:
    again = remedies.command(place)
    if not place.is_file():
        remedy = f"{again} makes it again; or " if again else ""
        yield Finding(place, "", f"it was made, and is missing: {remedy}delete its line in {sums.list_of(place)}")
    elif storage.sha256(place) != listed:
        yield Finding(place, "", f"it was changed after it was written: {remedies.way(place)}")


def _may_lie(root: Path, path: Path, excused: set[Path]) -> bool:
    """Whether a file may lie there that no list names: a list, what runs keep, a page of a version without lists."""
    if path in (sums.list_of(path), Path(INDEX)) or path.name == _OF_SNAKEMAKE or sums.list_of(path) in excused:
        return True
    return path == Path(DOCUMENTATION) and (root / path).resolve() == (project.folder() / path).resolve()


def _lying(folder: Path, root: Path) -> Iterator[Path]:
    """The files and links below a folder; a link to another folder is followed where the user names that folder."""
    for place, folders, names in os.walk(folder):
        yield from (Path(place, name) for name in names)
        for path in (Path(place, name) for name in folders if os.path.islink(os.path.join(place, name))):
            is_named = not path.resolve().is_relative_to(root.resolve()) and confinement.outside(root, path) is None
            if is_named:
                yield from _lying(path, root)
            else:
                yield path
