"""The manifests of a folder tree: the existing ones, the missing ones, and the files that no row names."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar, cast

from perturbations.base import storage, sums
from perturbations.base.errors import ManifestError
from perturbations.guides import registry as guides
from perturbations.manifest import files, layout, locations
from perturbations.manifest.kinds import ANALYSES, FILES, KIND_OF, KINDS, VIDEOS, ManifestFile, RowKind, RowT
from perturbations.plan import clip_markers
from perturbations.verify.findings import Finding

LEFTOVER = "what an interrupted write left"
UNNAMED = "no row names this file"


_RowType = TypeVar("_RowType", covariant=True)


@dataclass(frozen=True)
class Manifest(Generic[_RowType]):
    """A manifest of a tree: its file, its kind, its rows as stored, and its metadata.

    A `Manifest[object]` is one whose kind is only known at run time; `of` gives it its type.
    """

    path: Path
    kind: RowKind[_RowType]

    @cached_property
    def name(self) -> str:
        """Its name in `manifest.layout`; of a file that lies where no run writes one, that of its kind."""
        place = layout.manifest_at(self.path)
        return place.kind if place and KIND_OF[place.kind].name == self.kind.name else next(iter(self.kind.files))

    @property
    def declared(self) -> ManifestFile:
        """What its kind says of it."""
        return FILES[self.name]

    @cached_property
    def collection(self) -> str | None:
        """The dataset, or what is made of it, whose suite has this manifest; None where it lies in no tree."""
        # As it is named first, because `manifests` may be a link to another disk; then as it lies.
        for tree in filter(None, map(layout.in_tree, (self.path, self.path.resolve()))):
            return "/".join(tree[1].parent.parent.parts[1:]) or None
        return None

    def beside(self, other: str, **fields: object) -> Path:
        """Where another manifest lies, by its name."""
        return layout.beside(self.path, self.name, other, **fields)

    def parents(self) -> list[Path]:
        """The manifests that its rows follow from, as far as they exist."""
        every = [
            self.beside(parent, analysis=analysis)
            for parent in self.declared.made_from
            for analysis in (guides.analyses() if parent == ANALYSES.name else [""])
        ]
        return [path for path in every if path.is_file() and path != self.path]

    @cached_property
    def about(self) -> Mapping[str, object]:
        """The metadata of the file. Raises `ManifestError`."""
        return files.read_metadata(self.path)

    def part(self, name: str) -> Mapping[str, object]:
        """An object within the metadata; empty where there is none of this name."""
        part = self.about.get(name)
        return part if isinstance(part, dict) else {}

    @cached_property
    def rows(self) -> list[_RowType]:
        """The rows as stored. Raises `ManifestError`."""
        return files.rows_as_stored(self.path, self.kind)

    @cached_property
    def root(self) -> Path:
        """The folder that the rows' paths are relative to. Raises `ManifestError`."""
        return locations.root_of(self.path, self.about)

    @cached_property
    def unrecorded(self) -> list[str]:
        """The columns that the version which made it, or some of its rows, did not have. Raises `ManifestError`."""
        return files.unrecorded([self.path], self.kind)

    def of(self, kind: RowKind[RowT]) -> Manifest[RowT] | None:
        """This manifest, when it is of the kind; None otherwise."""
        return cast("Manifest[RowT]", self) if self.kind.name == kind.name else None


@dataclass
class Tree:
    """The manifests to verify, and their neighbours, from which their expected rows follow."""

    chosen: list[Manifest[object]]
    folders: list[Path] = field(default_factory=list)
    version: str = ""
    findings: list[Finding] = field(default_factory=list)
    _known: dict[Path, Manifest[object] | None] = field(default_factory=dict)

    def neighbour(self, path: Path, kind: RowKind[RowT]) -> Manifest[RowT] | None:
        """A manifest next to those that are verified; None where it does not exist or cannot be read."""
        if path not in self._known:
            manifest = Manifest(path, kind)
            try:
                self._known[path] = manifest if path.is_file() and manifest.rows is not None else None
            except ManifestError:
                self._known[path] = None
        return cast("Manifest[RowT] | None", self._known[path])

    def near(
        self, manifest: Manifest[object], kind: RowKind[RowT], other: str = "", **fields: object
    ) -> Manifest[RowT] | None:
        """The manifest of a kind that lies near another one; `other` is its name, where that is not the kind's."""
        return self.neighbour(manifest.beside(other or kind.name, **fields), kind)

    def at(self, path: Path) -> Manifest[object] | None:
        """The manifest at a path, of any kind; None where it does not exist or cannot be read."""
        try:
            return self.neighbour(path, files.kind_of(path))
        except ManifestError:
            return None

    def forget(self, path: Path) -> None:
        """Forget a repaired manifest, so that it is read again."""
        self._known.pop(path, None)

    def add(self, manifest: Manifest[object]) -> None:
        """Add a manifest to verify."""
        self.chosen.append(manifest)
        self._known[manifest.path] = manifest


def read(paths: Sequence[Path]) -> Tree:
    """The manifests among the given files and below the given folders; an unreadable manifest is a finding.

    Raises `ManifestError` when there is no manifest.
    """
    tree = Tree([])
    for named in paths:
        path = locations.lying(named)
        if not path.exists():
            raise ManifestError(f"no such manifest: {path}; make a corpus first, or name a Parquet file")
        candidates = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        for candidate in candidates:
            _add(tree, candidate, strict=not path.is_dir())
        if path.is_dir():
            tree.folders.append(path)
            tree.findings += _absent(path)
    if not tree.chosen and not tree.findings:
        raise ManifestError(f"no manifest in {', '.join(map(str, paths))}: make a corpus first, or name a Parquet file")
    return tree


def _add(tree: Tree, path: Path, *, strict: bool) -> None:
    try:
        place = layout.manifest_at(path)
        kind = KINDS.get(str(files.read_metadata(path).get("kind")))
        is_other = not strict if place is None or _is_unknown(place) else kind != KIND_OF[place.kind]
        if kind is None or is_other:
            problem = f"not a manifest that the workflow writes there: it is of the kind {kind.name if kind else None}"
            tree.findings.append(Finding(path, "", problem))
            return
        manifest = Manifest(path, kind)
        _ = manifest.rows, manifest.root
        tree.add(manifest)
    except ManifestError as error:
        tree.findings.append(Finding(path, "", str(error).removeprefix(f"{path} ")))


def _is_unknown(place: layout.Place) -> bool:
    return place.fields.get("analysis") not in (None, *guides.analyses())


def _absent(folder: Path) -> Iterator[Finding]:
    """Missing manifests, where files that are always made together with them exist."""
    places = {path: layout.manifest_at(path) for path in folder.rglob("*.parquet")}
    waiting = [(path, place.kind) for path, place in places.items() if place is not None]
    wanted = dict(waiting)
    while waiting:
        path, name = waiting.pop()
        file = FILES[name]
        for other in dict.fromkeys((*file.beside, *filter(None, [file.twin]), *(file.made_from if file.rows else ()))):
            if (near := layout.beside(path, name, other)) not in wanted:
                wanted[near] = other
                waiting.append((near, other))
    for path in sorted(wanted):
        if not path.is_file():
            yield Finding(path, "", "the manifest is missing")


def listed(tree: Tree) -> Iterator[Finding]:
    """The files that a run wrote below the named folders, pages and pictures among them, and that are gone or changed.

    Manifests that exist are not among them: they are verified each by itself.
    """
    known = {finding.place for finding in tree.findings}
    for folder in tree.folders:
        lists = {*folder.rglob(sums.NAME)} | {path for path in [sums.list_of(folder / sums.NAME)] if path is not None}
        for listing in sorted(lists):
            for name, digest in sums.read(listing).items():
                path = listing.parent / name
                if ".." in Path(name).parts or not path.is_relative_to(folder) or path in known:
                    continue
                way = f"`snakemake --cores 1 {shlex.quote(from_root(path))}`"
                if not path.is_file():
                    problem = f"it was made, and is missing: {way} makes it again; or delete its line in {listing}"
                    yield Finding(path, "", problem)
                elif path.suffix != ".parquet" and storage.sha256(path) != digest:
                    yield Finding(path, "", f"it was changed after it was written: delete it, and {way} makes it again")


def from_root(path: Path) -> str:
    """A path below `manifests` as Snakemake's targets name it."""
    return str((layout.in_tree(path) or (None, path))[1])


def strangers(tree: Tree) -> list[Finding]:
    """The files in the folders of corpora that no row names, also in those of suites without a manifest."""
    named: dict[Path, set[str]] = {}
    findings = []
    for chosen in tree.chosen:
        manifest = chosen.of(VIDEOS)
        if manifest is None or manifest.collection is None:
            continue
        place = Path(layout.CORPORA, manifest.collection, manifest.path.parent.name)
        try:
            folder = locations.confined(manifest.root, str(place))
        except ManifestError as error:
            findings.append(Finding(manifest.path, "", str(error)))
            continue
        paths = (row.path for row in manifest.rows if row.path is not None)
        root = os.path.normpath(manifest.root)  # of the root alone: a row's own `..` names no file of the corpus
        named.setdefault(folder, set()).update(f"{root}/{path}" for path in paths)
    own = (_corpora_of(folder) for folder in tree.folders)
    names = set().union(*named.values())
    there = {path for folder in {*named, *own} if folder is not None for path in _files_below(folder)}
    for path in sorted(there - names):
        if clip_markers.is_marker(Path(path)):
            continue
        problem = LEFTOVER if storage.is_leftover(Path(path)) else UNNAMED
        findings.append(Finding(Path(path), "", problem))
    return findings


def _files_below(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        links = (name for name in folders if os.path.islink(os.path.join(place, name)))
        yield from (os.path.join(place, name) for name in (*names, *links))


def _corpora_of(folder: Path) -> Path | None:
    """The folder of all corpora whose manifests lie below a folder; None for one that is not of a workflow."""
    tree = layout.in_tree(Path(os.path.abspath(folder)))
    if tree is None:
        return None
    try:
        own = locations.confined(tree[0], "/".join([layout.CORPORA, *tree[1].parts[1:]]))
    except ManifestError:
        return None  # behind a link to elsewhere, where nothing is looked for
    return own if own.is_dir() else None
