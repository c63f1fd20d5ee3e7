"""Manifests as Parquet files: how they are written, read and checked. The same rows give the same bytes.

A manifest may come from a stranger, and a few kilobytes of Parquet can stand for any number of rows. What a file may
hold grows with its size, because rows of runs differ from each other in ids and hashes: those of ranks, which compress
best, have 15 to 70 cells per byte, the most where nearly all ranks are 1, those of clips 0.3.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, compress, islice, pairwise
from pathlib import Path
from typing import Any, Generic, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.manifest import manifest_paths
from perturbations.manifest.columns import columns_of
from perturbations.manifest.rows import COMPLETE, RowKind, RowT

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
    array: pa.list_(pa.int32()),
}


def schema_of(kind: RowKind[Any]) -> pa.Schema:
    """The Parquet schema of a kind, derived from the type of its rows."""
    return pa.schema([pa.field(column.name, _TYPES[column.type]) for column in columns_of(kind.row)])


def column_problem(kind: RowKind[Any], schema: pa.Schema) -> str | None:
    """Why a file's columns are not those of a kind; None where they are."""
    wanted = schema_of(kind)
    if absent := [name for name in wanted.names if name not in schema.names]:
        return f"it lacks {', '.join(map(repr, absent[:5]))}"
    for own in schema:
        if own.name not in wanted.names or schema.names.count(own.name) > 1:
            return f"it has the column {own.name[:80]!r}, which this version does not know"
        if own.type != wanted.field(own.name).type:
            return f"'{own.name}' is of the type {own.type}, and {wanted.field(own.name).type} in this version"
    return None if schema.names == wanted.names else "they are in another order"


Numbers = NDArray[np.int64]

COUNTS = ("rows", STATUSES)
"""In metadata: how many rows there are, in all and per status."""

_PART = 2**13
"""Rows that are in memory as objects, which take more of it than tables."""

_SORT_MEMORY = "450MB"
"""Of the sort on the disk. For 6 million clips, 400 MB and one thread are enough, and 300 MB are not."""

_About = Metadata | Callable[[], Metadata] | None


def write(path: Path, kind: RowKind[RowT], rows: Iterable[RowT], about: _About = None) -> None:
    """Write rows of one kind, sorted by their key, whole or not at all; also millions of them.

    The metadata has the number of rows per status. A function `about` is called once all rows were read.
    """
    some = iter(rows)
    parts = iter(lambda: list(islice(some, _PART)), [])
    _write_tables(path, kind, (table_of(kind, part) for part in parts), about)


def write_part(path: Path, kind: RowKind[RowT], rows: Iterable[RowT]) -> None:
    """Write a shard's part. A lock makes sure that no orphan of a killed run writes it, too."""
    with storage.one_job(path):
        write(path, kind, rows)


def concatenate(parts: Sequence[Path], output: Path, kind: RowKind[RowT], about: Metadata | None = None) -> None:
    """Write the rows of parts that have no key in common as one manifest, as `write` does; for millions of them."""
    _write_tables(output, kind, (read_table(part, kind) for part in parts), about)


def table_of(kind: RowKind[RowT], rows: Iterable[RowT]) -> pa.Table:
    """Rows as a table, sorted by their key."""
    rows = sorted(rows, key=lambda row: _sort_key(row, kind))
    schema = schema_of(kind)
    arrays = [column_of([getattr(row, own.name) for row in rows], own.type) for own in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _sort_key(row: object, kind: RowKind[RowT]) -> tuple[tuple[bool, object], ...]:
    values = (getattr(row, name) for name in kind.key)
    return tuple((value is not None, value) for value in values)


def _write_tables(path: Path, kind: RowKind[RowT], tables: Iterable[pa.Table], about: _About) -> None:
    def described() -> Metadata:
        return (about() if callable(about) else about) or {}

    storage.remove_leftovers([path])  # of jobs that were killed
    with storage.scratch_directory() as folder, storage.output_errors(path), storage.atomic_path(path) as temporary:
        encode(_in_order(kind, tables, Path(folder)), kind, temporary, described)


def _in_order(kind: RowKind[Any], tables: Iterable[pa.Table], folder: Path) -> Iterator[pa.Table]:
    """The rows of tables in the order of their key, empty keys first, in tables of `GROUP` rows and the rest.

    One table is in this order; several are sorted on the disk, in an empty `folder`.
    """
    some = (table.replace_schema_metadata() for table in tables)
    first, second = next(some, None), next(some, None)
    in_order: Iterable[pa.Table] = [] if first is None else [first]
    if second is not None:
        in_order = _sorted_on_disk(kind, chain([first, second], some), folder)
    held: list[pa.Table] = []
    for table in in_order:
        held.append(table)
        while sum(map(len, held)) >= GROUP:
            whole = pa.concat_tables(held)
            yield whole.slice(0, GROUP).combine_chunks()
            held = [whole.slice(GROUP)]
    if sum(map(len, held)):
        yield pa.concat_tables(held).combine_chunks()


def _sorted_on_disk(kind: RowKind[Any], tables: Iterable[pa.Table], folder: Path) -> Iterator[pa.Table]:
    import duckdb

    spooled = folder / "rows.parquet"
    encode(tables, kind, spooled)
    settings: dict[str, Any] = {"memory_limit": _SORT_MEMORY, "temp_directory": str(folder), "threads": 1}
    key = ", ".join(f'"{name}" ASC NULLS FIRST' for name in kind.key)
    with duckdb.connect(config=settings) as database:
        for batch in database.read_parquet(str(spooled)).order(key).to_arrow_reader(_PART):
            yield pa.Table.from_batches([batch]).cast(schema_of(kind))


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
        if kind.value_type == pa.int32():  # millions of them: no Python object for each
            parts = [np.frombuffer(value, np.int32) for value in values if value]
            inner = pa.array(np.concatenate([np.empty(0, np.int32), *parts]))
        else:
            inner = column_of([cell for value in values for cell in value or ()], kind.value_type)
        buffers = [_packed(filled), pa.py_buffer(ends)]
        return pa.Array.from_buffers(kind, len(values), buffers, children=[inner])
    number = operator.index if pa.types.is_integer(kind) else operator.pos
    numbers = np.array([0 if value is None else number(value) for value in values], kind.to_pandas_dtype())
    data = _packed(numbers) if pa.types.is_boolean(kind) else pa.py_buffer(numbers)
    return pa.Array.from_buffers(kind, len(values), [_packed(filled), data])


def _packed(truths: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(truths, bitorder="little"))


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


# --- reading ---------------------------------------------------------------------------------------------------------


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


def read_rows(path: Path, kind: RowKind[RowT]) -> Sequence[RowT]:
    """The rows of a manifest; those of a file of several row groups are read when they are needed.

    Raises `ManifestError` when it is not a manifest of that kind, as it was written.
    """
    with opened_as(path, kind) as (file, _):
        if file.num_row_groups <= 1:
            return [row for table in tables(file) for row in _rows_of(path, kind, table)]
        return StoredRows(partial(_rows_at, path, kind), np.arange(file.metadata.num_rows))


def read_part(path: Path, kind: RowKind[RowT]) -> Sequence[RowT]:
    """The rows of a part, which a job wrote. A damaged part is removed, so that the next run makes it again.

    Raises `ManifestError` when it is missing or damaged.
    """
    try:
        return read_rows(path, kind)
    except ManifestError as error:
        raise ManifestError(f"{error}{removed(path)}") from None


def removed(path: Path) -> str:
    """Remove a part that cannot be used, and return words for a message. Only files below `work` are removed."""
    try:
        # As it is named: `work` may be a link to another disk.
        below = Path(os.path.abspath(path)).relative_to(Path.cwd()).parts
    except ValueError:
        return ""
    if below[:1] != (manifest_paths.WORK,) or not path.is_file():
        return ""
    path.unlink()
    return " (removed)"


def in_order(kind: RowKind[RowT], rows: Iterable[RowT]) -> Sequence[RowT]:
    """Rows in the order of their key: in memory, or many of them in a file that goes with the last user of the rows."""
    some = iter(rows)
    first = list(islice(some, GROUP + 1))
    if len(first) <= GROUP:
        return sorted(first, key=lambda row: _sort_key(row, kind))
    folder = storage.scratch_directory()
    path = Path(folder.name) / "in_order.parquet"
    write(path, kind, chain(first, some))
    return StoredRows(partial(_rows_at, path, kind, kept=folder), np.arange(stored_rows(path)))


def _rows_at(path: Path, kind: RowKind[RowT], numbers: Numbers, *, kept: object = None) -> list[RowT]:
    """The rows of these numbers; `kept` is what the file goes with."""
    rows: list[RowT] = []
    order = np.argsort(numbers, kind="stable")
    with opened(path, again=True) as file:
        sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        bounds = np.searchsorted(numbers[order], np.cumsum([0, *sizes]))
        for number, (first, last) in enumerate(pairwise(bounds)):
            if first < last:
                places = numbers[order[first:last]] - sum(sizes[:number])
                rows += _rows_of(path, kind, file.read_row_group(number).take(places))
    return [rows[place] for place in np.argsort(order).tolist()]


def _rows_of(path: Path, kind: RowKind[RowT], table: pa.Table) -> list[RowT]:
    columns = {name: _cells(table[name]) for name in table.column_names}
    _check_cells(path, kind, columns)
    if "vector" in columns:
        if any(None in value for value in columns["vector"] if value is not None):
            raise ManifestError(f"{path} has a row whose column 'vector' has an empty place")
        columns["vector"] = [None if value is None else tuple(value) for value in columns["vector"]]
    statuses = columns.get("status", [None] * table.num_rows)
    lines = zip(*columns.values(), strict=True)
    return [
        kind.type_of(status)(**dict(zip(columns, values, strict=True)))
        for status, values in zip(statuses, lines, strict=True)
    ]


def _cells(column: pa.ChunkedArray) -> list[Any]:
    """A column's values; texts that are equal are one object, because most columns repeat few texts.

    A list of whole numbers is an array, of four bytes per number.
    """
    if column.type == _TYPES[array]:
        return [array("i", part.values.to_numpy().tobytes()) for chunk in column.chunks for part in chunk]
    values = column.to_pylist()
    if not pa.types.is_string(column.type):
        return values  # type: ignore[no-any-return]
    texts: dict[str | None, str | None] = {}
    return [texts.setdefault(value, value) for value in values]


def _check_cells(path: Path, kind: RowKind[RowT], columns: Mapping[str, list[Any]]) -> None:
    """Raise `ManifestError` for an empty cell that must be filled, and for an unknown word."""
    for row, which in ((kind.row, "row"), (kind.complete, "complete row")):
        is_meant = [which == "row" or status == COMPLETE for status in columns.get("status", [])]
        for column in columns_of(row) if row is not None else ():
            cells = columns[column.name]
            if not column.optional and None in (compress(cells, is_meant) if is_meant else cells):
                raise ManifestError(f"{path} has a {which} whose column '{column.name}' is empty")
            if column.words is not None and (unknown := {*cells} - {*column.words, None}):
                raise ManifestError(
                    f"{path} has a row whose column '{column.name}' holds {str(min(map(str, unknown)))[:80]!r}; "
                    f"known: {', '.join(column.words)}"
                )


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata of a manifest's file: kind, schema version, package and tool versions, configuration hash."""
    with opened(path) as file:
        return metadata(path, file.schema_arrow)


def kind_of(path: Path) -> RowKind[Any]:
    """The kind of a manifest. Raises `ManifestError` when the file is not a manifest."""
    from perturbations.manifest.row_kinds import KINDS  # a job knows the kinds that it reads

    name = read_metadata(path).get("kind")
    if not isinstance(name, str) or name not in KINDS:
        raise ManifestError(f"{path} says it is a manifest of kind '{name}'; known: {sorted(KINDS)}")
    return KINDS[name]


def stored_rows(path: Path) -> int:
    """The number of rows of a manifest, from its end. Raises `ManifestError`."""
    with opened(path) as file:
        return int(file.metadata.num_rows)


def counts(path: Path) -> tuple[int, int]:
    """The number of complete and of other rows of a manifest or a part, from its metadata. Raises `ManifestError`."""
    statuses: dict[str, int] = read_metadata(path).get(STATUSES, {})
    complete = statuses.get(COMPLETE, 0)
    return complete, sum(statuses.values()) - complete


# --- single columns, without their rows ------------------------------------------------------------------------------


def columns_in(path: Path) -> list[str]:
    """The names of the columns that a file has. Raises `ManifestError`."""
    with opened(path) as file:
        return list(file.schema_arrow.names)


def read_columns(path: Path, *names: str) -> pa.Table:
    """Some columns of a manifest or a part, as they are stored; what it says of itself is not checked.

    Raises `ManifestError`.
    """
    with opened(path) as file:
        return file.read(columns=list(names)).select(list(names))


def stored_bytes(path: Path) -> int:
    """The bytes of the files that a manifest lists. Raises `ManifestError`."""
    import pyarrow.compute as pc

    return pc.sum(read_columns(path, "bytes")["bytes"]).as_py() or 0


def failed_rows(path: Path) -> list[dict[str, str | None]]:
    """The items of a manifest or a part that are not complete: `item_id`, `stage`, `error`. Raises `ManifestError`."""
    import pyarrow.compute as pc

    rows = read_columns(path, "item_id", "stage", "error", "status")
    return rows.filter(pc.not_equal(rows["status"], COMPLETE)).to_pylist()  # type: ignore[no-any-return]


# --- rows that are read when they are needed --------------------------------------------------------------------------

CHUNK = 2**14
"""Rows that are in memory at once."""


@dataclass(frozen=True, eq=False)
class StoredRows(Sequence[RowT], Generic[RowT]):
    """Rows that stay in a file until they are needed: `CHUNK` of them, one after the other, are read at once.

    Attributes:
        read: gives the rows of these numbers.
        numbers: of the chosen rows.
    """

    read: Callable[[Numbers], list[RowT]]
    numbers: Numbers
    _held: dict[int, list[RowT]] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> RowT: ...
    @overload
    def __getitem__(self, place: slice) -> StoredRows[RowT]: ...
    def __getitem__(self, place: int | slice) -> RowT | StoredRows[RowT]:
        """The row at a place, or the rows of a slice."""
        if isinstance(place, slice):
            return StoredRows(self.read, self.numbers[place])
        chunk, within = divmod(range(len(self))[place], CHUNK)
        if chunk not in self._held:
            self._held.clear()
            self._held[chunk] = self.read(self.numbers[chunk * CHUNK : (chunk + 1) * CHUNK])
        return self._held[chunk][within]

    def taken(self, places: Sequence[int] | Numbers) -> StoredRows[RowT]:
        """The rows at these places."""
        return StoredRows(self.read, self.numbers[np.asarray(places, np.int64)])

    def mapped(self, then: Callable[[RowT], Any]) -> StoredRows[Any]:
        """The same rows, each of which is given to a function when it is read."""
        return StoredRows(partial(_mapped, self.read, then), self.numbers)


def stored(rows: Sequence[RowT]) -> StoredRows[RowT]:
    """Rows in memory as such rows."""
    return rows if isinstance(rows, StoredRows) else StoredRows(partial(_of_memory, rows), np.arange(len(rows)))


def _of_memory(rows: Sequence[RowT], numbers: Numbers) -> list[RowT]:
    return [rows[number] for number in numbers.tolist()]


def _mapped(read: Callable[[Numbers], list[Any]], then: Callable[[Any], Any], numbers: Numbers) -> list[Any]:
    return list(map(then, read(numbers)))
