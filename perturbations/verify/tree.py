"""The manifests of a tree: which there are, which should be there, and the files that no row names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from perturbations.errors import ManifestError
from perturbations.guides import registry as guides
from perturbations.manifest import files, locations
from perturbations.manifest.kinds import (
    ANALYSES,
    CAPTIONS,
    KINDS,
    MIXES,
    MULTIMODAL,
    QRELS,
    QUARANTINE,
    RANKS,
    RESULTS,
    SOURCES,
    TEXT_STATISTICS,
    TEXTS,
    VIDEOS,
    Kind,
)
from perturbations.suites import registry
from perturbations.system import storage
from perturbations.verify.findings import Finding

_DATASET_FILES: dict[str, Kind[Any]] = {
    "sources": SOURCES,
    "captions": CAPTIONS,
    "qrels": QRELS,
    **dict.fromkeys(guides.analyses(), ANALYSES),
}
_SUITE_FILES: dict[str, Kind[Any]] = {
    "videos": VIDEOS,
    "quarantine": QUARANTINE,
    "mixed_severity": MIXES,
    "mixed_types": MIXES,
    "captions": TEXTS,
    "caption_statistics": TEXT_STATISTICS,
    "multimodal": MULTIMODAL,
}
_RESULT_FILES: dict[str, Kind[Any]] = {"results": RESULTS, "ranks": RANKS}
_RESULT_FOLDERS = ("evaluation", "adaptation")

# When one of them is there, so is the other: one rule writes both, or one target asks for both.
_SIBLINGS = {
    "videos": ("quarantine",),
    "quarantine": ("videos",),
    "mixed_severity": ("mixed_types", "videos"),
    "mixed_types": ("mixed_severity", "videos"),
    "captions": ("caption_statistics",),
    "caption_statistics": ("captions",),
    "multimodal": ("videos", "captions"),
    "results": ("ranks",),
    "ranks": ("results",),
}


LEFTOVER = "what an interrupted write left"


@dataclass(frozen=True)
class Manifest:
    """A manifest of a tree: its file, its kind, its rows as they are, and what it says of itself."""

    path: Path
    kind: Kind[Any]

    @cached_property
    def about(self) -> dict[str, Any]:
        """Raises `ManifestError`."""
        return files.read_metadata(self.path)

    @cached_property
    def rows(self) -> list[Any]:
        """Raises `ManifestError`."""
        return files.rows_as_stored(self.path, self.kind)

    @cached_property
    def root(self) -> Path:
        """Raises `ManifestError`."""
        return locations.root_of(self.path, self.about)


@dataclass
class Tree:
    """The manifests that are looked at, and their neighbours, which tell what should be in them."""

    chosen: list[Manifest]
    findings: list[Finding] = field(default_factory=list)
    _known: dict[Path, Manifest | None] = field(default_factory=dict)

    def neighbour(self, path: Path, kind: Kind[Any]) -> Manifest | None:
        """A manifest beside those that are looked at; None where there is none, or none that can be read."""
        if path not in self._known:
            manifest = Manifest(path, kind)
            try:
                self._known[path] = manifest if path.is_file() and manifest.rows is not None else None
            except ManifestError:
                self._known[path] = None
        return self._known[path]

    def forget(self, path: Path) -> None:
        """Read a manifest anew when it is asked for again: it was mended."""
        self._known.pop(path, None)

    def add(self, manifest: Manifest) -> None:
        """Look at a manifest."""
        self.chosen.append(manifest)
        self._known[manifest.path] = manifest


def read(paths: Sequence[Path]) -> Tree:
    """The manifests among files and below folders; one that cannot be read is a finding.

    Raises `ManifestError` when there is none.
    """
    tree = Tree([])
    for path in paths:
        if not path.exists():
            raise ManifestError(f"no such manifest: {path}; make a corpus first, or name a Parquet file")
        candidates = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        for candidate in candidates:
            _add(tree, candidate, strict=not path.is_dir())
        if path.is_dir():
            tree.findings += _absent(path)
    if not tree.chosen and not tree.findings:
        raise ManifestError(f"no manifest in {', '.join(map(str, paths))}: make a corpus first, or name a Parquet file")
    return tree


def _add(tree: Tree, path: Path, *, strict: bool) -> None:
    try:
        expected = _kind_at(path)
        kind = KINDS.get(str(files.read_metadata(path).get("kind")))
        if kind is None or (expected is None and not strict) or (expected not in (None, kind)):
            problem = f"not a manifest that the workflow writes there: it is of the kind {kind.name if kind else None}"
            tree.findings.append(Finding(path, "", problem))
            return
        manifest = Manifest(path, kind)
        _ = manifest.rows, manifest.root
        tree.add(manifest)
    except ManifestError as error:
        tree.findings.append(Finding(path, "", str(error).removeprefix(f"{path} ")))


def _kind_at(path: Path) -> Kind[Any] | None:
    """The kind of manifest that the workflow writes at a path."""
    name, folder = path.stem, path.parent.name
    if folder in _RESULT_FOLDERS:
        return _RESULT_FILES.get(name)
    if folder in registry.suites():
        return _SUITE_FILES.get(name)
    return _DATASET_FILES.get(name)


def _absent(folder: Path) -> Iterator[Finding]:
    """Manifests that are not there, though what is made with them is."""
    for place in sorted({path.parent for path in folder.rglob("*") if path.is_file()} | {folder}):
        present = {path.stem for path in place.glob("*.parquet")}
        is_paired = place.name in registry.suites() or place.name in _RESULT_FOLDERS
        wanted = {sibling for name in present for sibling in _SIBLINGS.get(name, ()) if is_paired}
        if place.name in registry.suites() and (place / "preview.png").is_file():
            is_whole = place.parent.name == "whole"
            wanted |= {"videos", "quarantine"} | (set() if is_whole else {"mixed_severity", "mixed_types"})
        for name in sorted(wanted - present):
            yield Finding(place / f"{name}.parquet", "", "the manifest is missing")
        if place.name in registry.suites() and present:
            dataset = place.parent
            names = ["sources"] if dataset.name == "whole" else ["sources", "captions", "qrels"]
            if not present & {"videos", "quarantine", "mixed_severity", "mixed_types"}:
                continue
            if present & {"mixed_severity", "mixed_types"} or (place / "preview.png").is_file():
                yield from _missing(dataset, names)
            else:
                yield from _missing(dataset, ["sources"])


def _missing(dataset: Path, names: Sequence[str]) -> Iterator[Finding]:
    for name in names:
        if not (dataset / f"{name}.parquet").is_file():
            yield Finding(dataset / f"{name}.parquet", "", "the manifest is missing")


def strangers(tree: Tree) -> list[Finding]:
    """Files in the folders of corpora that no row names."""
    named: dict[Path, set[Path]] = {}
    findings = []
    for manifest in tree.chosen:
        if manifest.kind is not VIDEOS:
            continue
        collection = _collection_of(manifest.path)
        if collection is None:
            continue
        place = Path("corpora", collection, manifest.path.parent.name)
        try:
            folder = locations.confined(manifest.root, str(place))
        except ManifestError as error:
            findings.append(Finding(manifest.path, "", str(error)))
            continue
        paths = {manifest.root / row.path for row in manifest.rows if row.path is not None and ".." not in row.path}
        named.setdefault(folder, set()).update(paths)
    for folder, paths in named.items():
        for path in sorted(folder.rglob("*")):
            if (path.is_file() or path.is_symlink()) and path not in paths:
                problem = LEFTOVER if storage.is_leftover(path) else "no row names this file"
                findings.append(Finding(path, "", problem))
    return findings


def _collection_of(path: Path) -> Path | None:
    """The dataset, or the whole videos of one, that a suite's manifest is about: the folders below `manifests`."""
    parts = path.resolve().parent.parts
    if "manifests" not in parts:
        return None
    below = parts[len(parts) - parts[::-1].index("manifests") :]
    return Path(*below[:-1]) if len(below) > 1 else None
