"""The Parquet file of a manifest, as it may come from a stranger: its columns, what it says of itself, and its cells.

A few kilobytes of Parquet can stand for any number of rows. What a file may hold grows with its size, because rows of
runs differ from each other in ids and hashes: those of ranks, which compress best, have 15 to 70 cells per byte, the
most where nearly all ranks are 1, those of clips 0.3.
"""

from __future__ import annotations

import hashlib
import json
import operator
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
from perturbations.manifest import layout
from perturbations.manifest.columns import columns_of
from perturbations.manifest.kinds import RowKind

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
def opened(path: Path) -> Iterator[pq.ParquetFile]:
    """An opened file, of any columns. Raises `ManifestError`, also for what fails while it is read."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # to open a pipe takes forever
        raise ManifestError(f"{path} is not a regular file")
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            _check_size(path, file.metadata)
            yield file
    except FileNotFoundError as error:
        raise ManifestError(f"no such manifest: {path}") from error
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        if path.is_dir():
            held = ", ".join(sorted(member.name for member in path.glob("*") if layout.is_manifest(member)))
            hint = f"; name a manifest in it: {held}" if held else ", not a manifest"
            raise ManifestError(f"{path} is a folder{hint}") from error
        if isinstance(error, PermissionError):
            raise ManifestError(f"{path} cannot be read: permission denied") from error
        way_out = f"; {_WAY_OUT}" if layout.is_manifest(path) else ""
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


def encode(
    groups: Iterable[pa.Table], kind: RowKind[Any], target: Path, describe: Callable[[Content], Metadata] | None = None
) -> None:
    """Write tables as row groups, and what `describe` says of them once all are written."""
    content = Content()
    # The metadata stands at the file's end, so it is known in time; Arrow's own schema would stand in its place.
    with pq.ParquetWriter(
        target, schema_of(kind), compression="zstd", write_page_checksum=True, store_schema=False
    ) as writer:
        for table in groups:
            content.add(table)
            writer.write_table(table)
        if describe is not None:
            writer.add_key_value_metadata({_METADATA: json.dumps(describe(content), sort_keys=True)})


# --- cells -----------------------------------------------------------------------------------------------------------

_HASHED = 2**14
"""Rows that are hashed at once, column by column."""


class Content:
    """The rows of a manifest, counted and hashed table by table; the encoding of the file does not count."""

    def __init__(self) -> None:
        self._held: list[pa.Table] = []
        self._digest = hashlib.sha256()
        self._statuses: Counter[str] = Counter()
        self.rows = 0

    def add(self, table: pa.Table) -> None:
        """Add the next rows."""
        self.rows += table.num_rows
        if "status" in table.column_names:
            self._statuses.update(table["status"].to_pylist())
        self._held.append(table)
        while sum(map(len, self._held)) >= _HASHED:
            whole = pa.concat_tables(self._held)
            self._hash(whole.slice(0, _HASHED))
            self._held = [whole.slice(_HASHED)]

    def _hash(self, table: pa.Table) -> None:
        for name in table.column_names:
            column = table[name].combine_chunks()
            self._digest.update(f"{name}:{table.num_rows}".encode())
            self._digest.update(np.packbits(~_filled(column)).tobytes())
            _update(self._digest, column)

    def sha256(self) -> str:
        """A hash of every cell, once all rows are added."""
        if sum(map(len, self._held)):
            self._hash(pa.concat_tables(self._held))
        self._held = []
        return self._digest.hexdigest()

    def described(self) -> dict[str, object]:
        """For a manifest's metadata."""
        statuses = {STATUSES: dict(sorted(self._statuses.items()))} if self._statuses else {}
        return {"rows": self.rows, "content_sha256": self.sha256(), **statuses}


def _update(digest: hashlib._Hash, column: pa.Array) -> None:
    """Add a column: the lengths of texts and lists, then what the cells hold."""
    is_list = pa.types.is_list(column.type)
    if is_list or pa.types.is_string(column.type):
        lengths = np.diff(_places(column))
        filled = _filled(column)
        digest.update(np.where(filled, lengths, lengths.dtype.type(-1)).tobytes())
        if is_list:
            _update(digest, column.flatten())
            return
        texts = column.drop_null() if lengths[~filled].any() else column  # who writes the file may fill empty cells
        places = _places(texts)
        digest.update(memoryview(texts.buffers()[2] or b"")[places[0] : places[-1]] if len(texts) else b"")
    else:
        digest.update(_values(column, 0).tobytes())


# --- columns and Python's values -------------------------------------------------------------------------------------
# By the columns' buffers: of Arrow's own ways some import pandas, which took a quarter of the time of a small job, and
# others all functions of `pyarrow.compute`, a tenth.


def _values(column: pa.Array, empty: int) -> NDArray[Any]:
    """The numbers or truths of a column, `empty` in its empty cells."""
    _, data = column.buffers()
    cells = slice(column.offset, column.offset + len(column))
    if pa.types.is_boolean(column.type):
        values = _bits(data)[cells]
    else:
        values = np.frombuffer(data or b"", column.type.to_pandas_dtype())[cells]
    return np.where(_filled(column), values, values.dtype.type(empty))


def _filled(column: pa.Array) -> NDArray[np.bool_]:
    """Which cells of a column are not empty."""
    bits = column.buffers()[0]
    if bits is None:
        return np.ones(len(column), bool)
    return _bits(bits)[column.offset : column.offset + len(column)].view(np.bool_)


def _places(column: pa.Array) -> NDArray[np.int32]:
    """Where the cells of a column of texts or lists begin, and the end of the last."""
    return np.frombuffer(column.buffers()[1] or b"", np.int32)[column.offset : column.offset + len(column) + 1]


def _bits(buffer: pa.Buffer | None) -> NDArray[np.uint8]:
    return np.unpackbits(np.frombuffer(buffer or b"", np.uint8), bitorder="little")


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
