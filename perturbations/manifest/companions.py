"""A dataset's own manifests, `sources` and `captions`, found from another manifest of the same tree."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from perturbations.manifest import files, locations, manifest_paths
from perturbations.manifest.rows import SOURCES, CaptionRow, RowKind

_LEVELS = 3
"""In how many folders they are looked for: manifests/DATASET/whole/SUITE/videos.parquet."""


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
    rows = files.read_rows(manifest, kind)
    if kind != SOURCES:
        return rows
    root = locations.root_of(manifest, files.read_metadata(manifest))
    return [locations.located(row, root) for row in rows]


def texts_of(captions: Iterable[CaptionRow]) -> dict[str, tuple[str, ...]]:
    """The captions per item, `it#2` before `it#10`."""
    texts: dict[str, list[str]] = defaultdict(list)
    for row in sorted(captions, key=lambda row: numbered(row.caption_id)):
        texts[row.item_id].append(row.text)
    return {item_id: tuple(members) for item_id, members in texts.items()}


def numbered(caption_id: str) -> list[tuple[int, str, str]]:
    """An order in which `it#2` comes before `it#10`."""
    parts = re.findall(r"([^0-9]*)([0-9]*)", caption_id)
    # A number is as large as it is long: Python converts no text of thousands of digits.
    plain = [(text, digits, digits.lstrip("0")) for text, digits in parts]
    return [(len(number) if digits else -1, number, text) for text, digits, number in plain]
