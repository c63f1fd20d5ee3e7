"""Where the files of a manifest's rows are. A manifest may come from a stranger: its paths are data. Standard library.

A stored file's `path` is relative to the corpus' root, the folder that holds `manifests/` and `corpora/`, and never
leaves it. A source's path comes from the configuration and may be anywhere; the file is only read, and only used when
its content has the row's hash.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from perturbations.base.errors import ManifestError
from perturbations.base.records import canonical
from perturbations.manifest.manifest_paths import MANIFESTS, WORK
from perturbations.manifest.rows import SOURCE_STORAGE, AnalysisRow, ClipRow, SourceRow


def root_of(path: Path, described: Mapping[str, object]) -> Path:
    """The folder that a manifest's relative paths start from: the one that holds its `manifests` or `work`.

    Raises `ManifestError` where the manifest names any other folder than that or its own.
    """
    relative = PurePosixPath(str(described.get("root", ".")))
    # First the path as it is written: `manifests` may be a link to another disk. Then the path that it leads to.
    named, real = Path(os.path.abspath(path)).parent, Path(path).resolve().parent
    levels = len(relative.parts)
    if set(relative.parts) - {".."} or levels > len(real.parents):
        raise ManifestError(f"{path} says that its root is {str(relative)[:80]!r}, which is no folder above it")
    if not levels:
        return real
    for folder in (named, real):
        if len(folder.parents) >= levels and folder.parts[-levels] in (MANIFESTS, WORK):
            return folder.parents[levels - 1]
    root = real.parents[levels - 1]
    raise ManifestError(f"{path} says that its root is {root}, but does not lie in that folder's `manifests`")


def path_in_tree(path: Path) -> Path:
    """The path of a manifest, or of a folder of manifests, within its tree: a link from outside is resolved.

    A path with a folder `manifests` is returned unchanged, because that folder may be a link to another disk.
    """
    named, real = Path(os.path.abspath(path)), Path(path).resolve()
    return real if MANIFESTS in real.parts and MANIFESTS not in named.parts else path


def path_below(root: Path, relative: str) -> Path:
    """A file below `root`. Raises `ManifestError` for a path that leaves it."""
    plain = PurePosixPath(relative)
    if plain.is_absolute() or ".." in plain.parts or "\0" in relative or not plain.parts:
        raise ManifestError(f"the path {relative[:200]!r} leaves the corpus' folder {root}")
    return root / plain


def guide_files(guide: str | None) -> dict[str, str | None]:
    """The files that a guide's facts name. Raises `ManifestError` for a text that is no facts."""
    try:
        files = dict((json.loads(guide) if guide else {}).get("files") or {})
        if not all(isinstance(path, str | None) for path in files.values()):
            raise ValueError("no paths")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ManifestError(f"the column 'guide' holds {str(guide)[:80]!r}, which are no facts") from error
    return files


def with_guide_files(guide: str, files: Mapping[str, object]) -> str:
    """A guide's facts, which `guide_files` has read, with other files."""
    return canonical({**json.loads(guide), "files": files})


COLUMNS = ("path", "source_path", "guide")
"""The columns that hold paths."""

_Located = TypeVar("_Located", bound=SourceRow | ClipRow | AnalysisRow)


def located(row: _Located, root: Path) -> _Located:
    """A row with its paths made absolute. Raises `ManifestError` for a path that leaves the corpus."""
    is_source = isinstance(row, SourceRow) or getattr(row, "storage", None) == SOURCE_STORAGE
    values = {name: getattr(row, name, None) for name in COLUMNS}
    changed: dict[str, Any] = {
        name: absolute(name, value, root, is_source=is_source) for name, value in values.items() if value
    }
    return replace(row, **changed)


def absolute(column: str, value: str, root: Path, *, is_source: bool) -> str:
    """A cell of one of `COLUMNS` with its path made absolute; of a clean clip's row, `path` is a source's too.

    Raises `ManifestError` for a path that leaves the corpus.
    """
    if column == "guide":
        paths = guide_files(value).items()
        files = {name: path and absolute("source_path", path, root, is_source=True) for name, path in paths}
        return with_guide_files(value, files) if files else value
    if column == "path" and not is_source:
        return str(path_below(root, value))
    if "\0" in value:
        raise ManifestError(f"the source path {value[:200]!r} holds a NUL")
    return str(root / value)
