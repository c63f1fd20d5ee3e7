"""The Parquet file of a manifest, as it may come from a stranger: its columns, what it says of itself, and its cells.

A few kilobytes of Parquet can stand for any number of rows. What a file may hold grows with its size, because rows of
runs differ from each other in ids and hashes: those of ranks, which compress best, have 15 to 70 cells per byte, the
most where nearly all ranks are 1, those of clips 0.3.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from perturbations.base.errors import ManifestError
from perturbations.manifest import manifest_paths
from perturbations.manifest.columns import columns_of
from perturbations.manifest.rows import RowKind

SCHEMA_VERSION = 5

GROUP = 2**14
"""Rows of a row group: 12 MB of clips."""

Metadata = Mapping[str, object]
"""What a manifest says of itself."""

STATUSES = "statuses"
"""In it: the number of rows per status."""

_METADATA = "perturbations"
_WAY_OUT = "where the workflow made it: delete it and run snakemake again, which regenerates it"
_CELLS_PER_BYTE, _BYTES_PER_BYTE = 128, 256
_LEAST_CELLS, _LEAST_BYTES = 5_000_000, 256 * 2**20
"""What the smallest file may hold."""

_TYPES = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    list: pa.list_(pa.string()),
    tuple: pa.list_(pa.float32()),
}


def schema_of(kind: RowKind[Any]) -> pa.Schema:
    """The Parquet schema of a kind, derived from the type of its rows."""
    return pa.schema([pa.field(column.name, _TYPES[column.type]) for column in columns_of(kind.row)])


def column_problem(kind: RowKind[Any], schema: pa.Schema) -> str | None:
    """Why a file's columns are not those of a kind; None where they are."""
    wanted = schema_of(kind)
    if absent := [name for name in wanted.names if name not in schema.names]:
        return f"it lacks {', '.join(map(repr, absent[:5]))}"
    for field in schema:
        if field.name not in wanted.names or schema.names.count(field.name) > 1:
            return f"it has the column {field.name[:80]!r}, which this version does not know"
        if field.type != wanted.field(field.name).type:
            return f"'{field.name}' is of the type {field.type}, and {wanted.field(field.name).type} in this version"
    return None if schema.names == wanted.names else "they are in another order"


@contextmanager
def opened(path: Path, *, again: bool = False) -> Iterator[pq.ParquetFile]:
    """An opened manifest of any columns, whose bytes are those that were written; these are not looked at `again`.

    Raises `ManifestError`, also for what fails while it is read.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):  # to open a pipe takes forever
        raise ManifestError(f"{path} is not a regular file")
    try:
        if not (again or path.is_dir()):
            _check_whole(path)
        with pq.ParquetFile(path) as file:
            _check_size(path, file.metadata)
            yield file
    except FileNotFoundError as error:
        raise ManifestError(f"no such manifest: {path}") from error
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        if path.is_dir():
            held = ", ".join(sorted(member.name for member in path.glob("*") if manifest_paths.is_manifest(member)))
            hint = f"; name a manifest in it: {held}" if held else ", not a manifest"
            raise ManifestError(f"{path} is a folder{hint}") from error
        if isinstance(error, PermissionError):
            raise ManifestError(f"{path} cannot be read: permission denied") from error
        way_out = f"; {_WAY_OUT}" if manifest_paths.is_manifest(path) else ""
        raise ManifestError(f"{path} cannot be read as Parquet: {error}{way_out}") from error


def _check_size(path: Path, about: pq.FileMetaData) -> None:
    """Raise `ManifestError` where a file's end says that it holds more than files of its size do. Decodes nothing."""
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    size = path.stat().st_size
    cells = max(about.num_rows * about.num_columns, sum(chunk.num_values for chunk in chunks))
    if cells > max(_LEAST_CELLS, _CELLS_PER_BYTE * size):
        raise ManifestError(f"{path} holds {about.num_rows:,} rows in {size:,} bytes, which no run writes")
    count = sum(chunk.total_uncompressed_size for chunk in chunks)
    if count > max(_LEAST_BYTES, _BYTES_PER_BYTE * size):
        raise ManifestError(f"{path} holds {count:,} bytes of text in {size:,} bytes, which no run writes")


@contextmanager
def opened_as(path: Path, kind: RowKind[Any]) -> Iterator[tuple[pq.ParquetFile, dict[str, Any]]]:
    """A file that has the columns of a kind, and what it says of itself. Raises `ManifestError` as `opened` does."""
    with opened(path) as file:
        about = metadata(path, file.schema_arrow)
        if about.get("kind") != kind.name:
            raise ManifestError(f"{path} is a manifest of {about.get('kind')}, not of {kind.name}")
        if problem := column_problem(kind, file.schema_arrow):
            raise ManifestError(f"{path} does not have the columns of {kind.name} manifests: {problem}; {_WAY_OUT}")
        yield file, about


def metadata(path: Path, schema: pa.Schema) -> dict[str, Any]:
    """What a manifest with this schema says of itself. Raises `ManifestError`."""
    raw = (schema.metadata or {}).get(_METADATA.encode())
    if raw is None:
        raise ManifestError(f"{path} is Parquet, but no manifest of this package")
    try:
        about = json.loads(raw)
        if not isinstance(about, dict):
            raise ValueError("no object")
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path} does not describe itself as manifests do: {error}") from error
    if about.get("schema_version") != SCHEMA_VERSION:
        version = f"schema version {str(about.get('schema_version'))[:80]}, this package reads {SCHEMA_VERSION}"
        raise ManifestError(f"{path} has {version}; {_WAY_OUT}")
    return about


def read_table(path: Path, kind: RowKind[Any]) -> pa.Table:
    """All rows of a manifest of a kind. Raises `ManifestError`."""
    with opened_as(path, kind) as (file, _):
        table = file.read()
        table.validate(full=True)
        return table.replace_schema_metadata(file.schema_arrow.metadata)


def tables(file: pq.ParquetFile) -> Iterator[pa.Table]:
    """The rows of an opened file, one row group at a time."""
    for number in range(file.num_row_groups):
        table = file.read_row_group(number)
        table.validate(full=True)
        yield table.replace_schema_metadata()


def in_groups(some: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of tables in tables of `GROUP` rows, and a last one of the rest."""
    held: list[pa.Table] = []
    for table in some:
        held.append(table)
        while sum(map(len, held)) >= GROUP:
            whole = pa.concat_tables(held)
            yield whole.slice(0, GROUP).combine_chunks()
            held = [whole.slice(GROUP)]
    if sum(map(len, held)):
        yield pa.concat_tables(held).combine_chunks()


def encode(groups: Iterable[pa.Table], kind: RowKind[Any], target: Path, about: Callable[[], Metadata] = dict) -> None:
    """Write tables as row groups, what the file says of itself, its counts among it, and its SHA-256.

    `about` is called once all rows are written.
    """
    rows, statuses = 0, Counter[str]()
    # The metadata stands at the file's end, so it is known in time; Arrow's own schema would stand in its place.
    with pq.ParquetWriter(
        target, schema_of(kind), compression="zstd", write_page_checksum=True, store_schema=False
    ) as writer:
        for table in groups:
            rows += table.num_rows
            statuses.update(table["status"].to_pylist() if "status" in table.column_names else ())
            writer.write_table(table)
        counted = {"rows": rows, STATUSES: dict(sorted(statuses.items()))} if statuses else {"rows": rows}
        described = {"kind": kind.name, "schema_version": SCHEMA_VERSION, **about(), **counted}
        text = json.dumps(described, sort_keys=True)
        writer.add_key_value_metadata({_METADATA: text, _SHA256: "0" * 64})
    write_sha256(target)


# --- the SHA-256 at a file's end --------------------------------------------------------------------------------------

_SHA256 = "sha256"
_PLACE = re.compile(rb"sha256\x18@([0-9a-f]{64})")  # as Parquet writes a key and its value of 64 letters
_END = 2**12
"""Bytes: more than what follows this value."""


def write_sha256(path: Path) -> None:
    """Write the SHA-256 of a file's other bytes into the file, in the place of zeros."""
    digests = _digests(path)
    assert digests is not None, "its writer has left a place for it"
    place, _, digest = digests
    with path.open("r+b") as file:
        file.seek(place)
        file.write(digest)


def _digests(path: Path) -> tuple[int, bytes, bytes] | None:
    """The SHA-256 that a file says it has, before it the place of that, and the one that it has; None without one."""
    with path.open("rb") as file:
        begin = max(0, file.seek(0, os.SEEK_END) - _END)
        file.seek(begin)
        end = file.read()
        *_, match = [None, *_PLACE.finditer(end)]
        if match is None:
            return None
        digest, left = hashlib.sha256(), begin
        file.seek(0)
        while block := file.read(min(left, 2**20)):
            digest.update(block)
            left -= len(block)
        digest.update(end[: match.start(1)] + b"0" * 64 + end[match.end(1) :])
        return begin + match.start(1), match[1], digest.hexdigest().encode()


def _check_whole(path: Path) -> None:
    """Raise `ManifestError` for a file of other bytes than were written: Arrow crashes on some damaged files."""
    digests = _digests(path)
    if digests is not None and digests[1] == digests[2]:
        return
    if digests is not None:
        raise ManifestError(f"{path} was changed after it was written: its SHA-256 is another")
    with path.open("rb") as file:
        begin = file.read(4)
        file.seek(max(0, path.stat().st_size - 4))
        is_parquet = begin == file.read(4) == b"PAR1"
    problem = "is Parquet, but no manifest of this package, or its end was changed"
    if not is_parquet:
        problem = "cannot be read as Parquet: it does not begin and end as such files do"
    raise ManifestError(f"{path} {problem}" + (f"; {_WAY_OUT}" if manifest_paths.is_manifest(path) else ""))


# --- columns and Python's values -------------------------------------------------------------------------------------
# By the columns' buffers: Arrow's own way imports pandas, which took a quarter of the time of a small job.


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A column of values, None for an empty cell. Raises `TypeError` for a value of another kind."""
    if pa.types.is_string(kind):
        builder = pa.lib.StringBuilder()
        builder.append_values(values)
        return builder.finish()
    filled = np.array([value is not None for value in values], bool)
    if pa.types.is_list(kind):
        ends = np.cumsum([0, *(len(value or ()) for value in values)]).astype(np.int32)
        inner = column_of([cell for value in values for cell in value or ()], kind.value_type)
        buffers = [_packed(filled), pa.py_buffer(ends)]
        return pa.Array.from_buffers(kind, len(values), buffers, children=[inner])
    number = operator.index if pa.types.is_integer(kind) else operator.pos
    numbers = np.array([0 if value is None else number(value) for value in values], kind.to_pandas_dtype())
    data = _packed(numbers) if pa.types.is_boolean(kind) else pa.py_buffer(numbers)
    return pa.Array.from_buffers(kind, len(values), [_packed(filled), data])


def _packed(truths: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(truths, bitorder="little"))
