"""Single columns of manifests and parts, without their rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from perturbations.manifest import parquet
from perturbations.manifest.kinds import COMPLETE


def read_columns(path: Path, *names: str) -> pa.Table:
    """Some columns of a manifest or a part, as they are stored; what it says of itself is not checked.

    Raises `ManifestError`.
    """
    with parquet.opened(path) as file:
        return file.read(columns=list(names)).select(list(names))


def column_groups(path: Path, *names: str) -> Iterator[pa.Table]:
    """The same columns, of one row group after the other. Raises `ManifestError`."""
    with parquet.opened(path) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number, list(names)).select(list(names))


def stored_bytes(path: Path) -> int:
    """The bytes of the files that a manifest lists. Raises `ManifestError`."""
    return pc.sum(read_columns(path, "bytes")["bytes"]).as_py() or 0


def stored(path: Path) -> Iterator[tuple[str, int]]:
    """The path and the bytes of each file that a manifest or a part of clips lists. Raises `ManifestError`."""
    for group in column_groups(path, "path", "bytes"):
        columns = group.filter(pc.is_valid(group["path"])).to_pydict()
        yield from zip(columns["path"], columns["bytes"], strict=True)


def failed_rows(path: Path) -> list[dict[str, str | None]]:
    """The items of a manifest or a part that are not complete: `item_id`, `stage`, `error`. Raises `ManifestError`."""
    groups = column_groups(path, "item_id", "stage", "error", "status")
    return [row for group in groups for row in group.filter(pc.not_equal(group["status"], COMPLETE)).to_pylist()]
