"""The rows of clips with their files, and a dataset's own manifests, `sources` and `captions`, found beside them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from perturbations.manifest import files, locations, manifest_paths
from perturbations.manifest.rows import SOURCES, CaptionRow, RowKind
from perturbations.manifest.stored_rows import StoredRows, stored

_LEVELS = 3
"""In how many folders they are looked for: manifests/DATASET/whole/SUITE/videos.parquet."""


def read_clips(path: Path, kind: RowKind[Any]) -> StoredRows[Any]:
    """The rows of a manifest of clips with absolute paths; the rows of a large one stay on the disk until needed.

    Raises `ManifestError` for a damaged manifest, and a row raises it whose file is outside of the corpus.
    """
    root = locations.root_of(path, files.read_metadata(path))
    return stored(files.read_rows(path, kind)).mapped(partial(locations.located, root=root))


def companion_path(path: Path, kind: RowKind[Any]) -> Path | None:
    """A dataset's own manifest (`sources.parquet`, `captions.parquet`), beside another or above; None without one."""
    folder = locations.path_in_tree(path).absolute().parent
    manifests = (place / manifest_paths.name(kind.name) for place in (folder, *folder.parents)[:_LEVELS])
    return next((path for path in manifests if path.is_file() and files.kind_of(path) == kind), None)


def companion(path: Path, kind: RowKind[Any]) -> Sequence[Any]:
    """The rows of the `companion_path`, or none.

    The paths of clips are absolute. Raises `ManifestError` where the manifest is damaged.
    """
    manifest = companion_path(path, kind)
    if manifest is None:
        return []
    return [*read_clips(manifest, kind)] if kind == SOURCES else files.read_rows(manifest, kind)


def captions_of(captions: Iterable[CaptionRow]) -> dict[str, tuple[CaptionRow, ...]]:
    """The captions per item, `it#2` before `it#10`."""
    rows: dict[str, list[CaptionRow]] = defaultdict(list)
    for row in sorted(captions, key=lambda row: numbered(row.caption_id)):
        rows[row.item_id].append(row)
    return {item_id: tuple(members) for item_id, members in rows.items()}


def texts_of(captions: Iterable[CaptionRow]) -> dict[str, tuple[str, ...]]:
    """The texts of `captions_of`."""
    return {item_id: tuple(row.text for row in rows) for item_id, rows in captions_of(captions).items()}


def numbered(caption_id: str) -> list[tuple[int, str, str]]:
    """An order in which `it#2` comes before `it#10`."""
    parts = re.findall(r"([^0-9]*)([0-9]*)", caption_id)
    # A number is as large as it is long: Python converts no text of thousands of digits.
    plain = [(text, digits, digits.lstrip("0")) for text, digits in parts]
    return [(len(number) if digits else -1, number, text) for text, digits, number in plain]
