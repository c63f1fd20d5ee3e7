"""Whether a manifest still is what was written: its cells, its metadata, its bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from perturbations.base import storage, sums
from perturbations.base.errors import ManifestError
from perturbations.manifest import cells, file_limits, files, parquet
from perturbations.manifest.kinds import RowKind, RowT


def check_unchanged(path: Path) -> None:
    """Raise `ManifestError` where a manifest is not as it was written: its cells, its metadata, or its list's file."""
    files.check(path, files.kind_of(path))
    about, listed = files.read_metadata(path), sums.recorded(path)
    changed = (
        ""
        if about.get(files.METADATA_HASH) in (None, files.metadata_sha256(about))
        else "its metadata has another hash"
    )
    if listed is None and files.LISTED in about and sums.is_listed(path):
        changed = f"{sums.list_of(path)} does not list it"
    elif listed not in (None, storage.sha256(path)):
        changed = f"{sums.list_of(path)} lists another file"
    if changed:
        raise ManifestError(f"{path} was changed after it was written: {changed}; `perturb verify` says what to do")


def changed_parts(path: Path, kind: RowKind[RowT], rows: Sequence[RowT], *, is_listed: bool = False) -> list[str]:
    """The parts of a manifest that differ from what `write` writes for these rows.

    These are names of counts and hashes, or "bytes" where only the bytes differ and pyarrow's version is the same: a
    changed byte may be in the statistics by which readers skip rows, where no cell shows it. Where the file `is_listed`
    with the hash that it has, its bytes are not written again to compare them.
    """
    if parquet.is_large(path):
        return _changed_parts_of_large(path, kind, is_listed=is_listed)
    about, table = files.read_metadata(path), files.table_as_in(path, kind, rows)
    names = _changed_names(about, cells.describe(kind, cells.of_table(table)))
    if not names and not is_listed and is_reproducible(about):
        # Earlier versions wrote a row group where there is no row.
        written = [_encoded([table], about, empty_group=group) for group in {False, not table.num_rows}]
        names += [] if path.read_bytes() in written else ["bytes"]
    return names


def _changed_parts_of_large(path: Path, kind: RowKind[Any], *, is_listed: bool) -> list[str]:
    """The same for a file of several row groups: its own rows are written again, group by group."""
    about = files.read_metadata(path)
    with storage.scratch_directory() as folder, parquet.stored_file(path, kind) as (file, schema):
        names = _changed_names(about, cells.describe(kind, parquet.cells_of(path, file, schema)))
        if not names and not is_listed and is_reproducible(about):
            again = Path(folder) / path.name
            groups = (file_limits.group(path, file, schema, number) for number in range(file.num_row_groups))
            parquet.encode(groups, about, again)
            names += [] if storage.sha256(path) == storage.sha256(again) else ["bytes"]
    return names


def _changed_names(about: parquet.Metadata, described: parquet.Metadata) -> list[str]:
    names = [name for name, value in described.items() if about.get(name) != value]
    if files.METADATA_HASH in about and not names and about[files.METADATA_HASH] != files.metadata_sha256(about):
        names.append("metadata")
    return names


def is_reproducible(about: parquet.Metadata) -> bool:
    """Whether this machine's pyarrow wrote the manifest, so that the same rows and metadata give the same bytes."""
    tools = about.get("tools")
    return isinstance(tools, dict) and tools.get("pyarrow") == pa.__version__


def _encoded(tables: Iterable[pa.Table], about: parquet.Metadata, *, empty_group: bool) -> bytes:
    buffer = pa.BufferOutputStream()
    parquet.encode(tables, about, buffer, empty_group=empty_group)
    content: bytes = buffer.getvalue().to_pybytes()
    return content
