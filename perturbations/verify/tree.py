"""The manifests of a folder tree: the existing ones, the missing ones, and what is known of each as a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar, cast

from perturbations.base import storage, sums
from perturbations.base.errors import ManifestError
from perturbations.guides import registry as guides
from perturbations.manifest import changes, files, layout, locations
from perturbations.manifest.kinds import ANALYSES, FILES, FORMER, KIND_OF, KINDS, ManifestFile, RowKind, RowT
from perturbations.plan import sharding
from perturbations.verify.findings import Finding

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
    def rows(self) -> Sequence[_RowType]:
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

    @cached_property
    def listed(self) -> str | None:
        """The hash that its list has of it; None where no list names it."""
        return sums.recorded(self.path)

    @cached_property
    def is_recorded(self) -> bool:
        """Whether it is, to the byte, the file that its list names."""
        return self.listed == storage.sha256(self.path)

    @property
    def precedes_lists(self) -> bool:
        """Whether an earlier version wrote it, or a job in an object store: it says that no list names it."""
        return files.LISTED not in self.about and self.listed is None

    @cached_property
    def is_whole(self) -> bool:
        """Whether it is what was written: its list says so, or, where no list names it, its own hashes do."""
        return self.is_recorded or (self.precedes_lists and not changes.changed_parts(self.path, self.kind, self.rows))

    @cached_property
    def misplaced(self) -> str:
        """What its metadata say of its dataset and suite, where its folders say otherwise; else ""."""
        place = layout.manifest_at(self.path)
        fields = {} if place is None else dict(place.fields)
        if self.collection is None:  # taken out of its tree, it may lie in any folder
            fields.pop("dataset", None)
        elif "dataset" in fields:
            fields["dataset"] = sharding.dataset_of(fields["dataset"])
        recorded = {name: self.about[name] for name in ("suite", "dataset") if name in self.about and name in fields}
        own = {name: fields[name] for name in recorded}
        return "" if recorded == own else f"its metadata says {recorded}, but its folder is that of {own}"

    def restored(self, rows: Sequence[object], about: Mapping[str, object]) -> Manifest[_RowType]:
        """This manifest as it was, with the rows and metadata that are proven to be the recorded ones."""
        other = Manifest(self.path, self.kind)
        is_recorded = self.listed is not None
        other.__dict__.update(
            rows=rows, about=about, unrecorded=self.unrecorded, is_recorded=is_recorded, is_whole=True
        )
        return other

    def of(self, kind: RowKind[RowT]) -> Manifest[RowT] | None:
        """This manifest, when it is of the kind; None otherwise."""
        return cast("Manifest[RowT]", self) if self.kind.name == kind.name else None


@dataclass
class Tree:
    """The manifests to verify, and their neighbours, from which their expected rows follow."""

    chosen: list[Manifest[object]]
    folders: list[Path] = field(default_factory=list)
    version: str = ""
    former: list[Path] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    _known: dict[Path, Manifest[object] | None] = field(default_factory=dict)

    def neighbour(self, path: Path, kind: RowKind[RowT]) -> Manifest[RowT] | None:
        """A manifest next to those that are verified; None where it does not exist or cannot be read."""
        if path not in self._known:
            manifest = Manifest(path, kind)
            try:
                is_readable = path.is_file() and manifest.rows is not None and manifest.root is not None
                self._known[path] = manifest if is_readable else None
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

    def replace(self, manifest: Manifest[object]) -> None:
        """Let a repaired manifest stand in the place of the one that was read."""
        self.chosen = [manifest if each.path == manifest.path else each for each in self.chosen]
        self._known[manifest.path] = manifest

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
        candidates = _below(path) if path.is_dir() else [path]
        for candidate in candidates:
            _add(tree, candidate, strict=not path.is_dir())
        if path.is_dir():
            tree.folders.append(path)
            tree.findings += _absent(path, tree.former)
    if not tree.chosen and not tree.findings:
        raise ManifestError(f"no manifest in {', '.join(map(str, paths))}: make a corpus first, or name a Parquet file")
    return tree


def _below(folder: Path) -> list[Path]:
    """The manifests below a folder, as that of a project: not the parts of them, in the `work` beside `manifests`."""
    parts = {path.parent / layout.WORK for path in folder.rglob(layout.MANIFESTS)}
    return [path for path in layout.manifests_below(folder) if parts.isdisjoint(path.parents)]


def _add(tree: Tree, path: Path, *, strict: bool) -> None:
    try:
        place = layout.manifest_at(path)
        if place is not None and place.kind in FORMER.get(str(files.read_metadata(path).get("kind")), ()):
            files.check_former(path)
            tree.former.append(path)
            return
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


def _absent(folder: Path, former: Sequence[Path]) -> Iterator[Finding]:
    """Missing manifests, where files that are always made together with them exist, but for `former` kinds."""
    places = {path: layout.manifest_at(path) for path in _below(folder) if path not in former}
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
