"""Parquet manifests: how they are written, read and checked. The same rows give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from perturbations.base import locking, storage
from perturbations.base.errors import ManifestError
from perturbations.manifest import cells, file_limits, parquet, row_groups
from perturbations.manifest.columns import columns_of
from perturbations.manifest.kinds import COMPLETE, FORMER, KINDS, RowKind, RowT
from perturbations.manifest.parquet import Metadata
from perturbations.manifest.schemas import completed, schema_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


METADATA_HASH = "metadata_sha256"
UNRECORDED = "unrecorded"
"""In metadata: the columns that parts of earlier versions did not have."""
COUNTS = ("rows", cells.STATUSES)
"""In metadata: how many rows there are, in all and per status."""

_Described = dict[str, object]


def write(
    path: Path, kind: RowKind[RowT], rows: Iterable[RowT], about: Metadata | Callable[[], Metadata] | None = None
) -> None:
    """Write rows of one kind, sorted by their key, whole or not at all; also millions of them.

    The metadata has the number of rows per status, and hashes of their keys and of their content. A function `about` is
    called once all rows were read.
    """
    some = iter(rows)
    _write_tables(path, kind, (table_of(kind, part) for part in _parts(some)), about)


_PART = 2**13


def _parts(rows: Iterator[RowT]) -> Iterator[list[RowT]]:
    """Rows in lists that are short, because they take more memory than tables; an empty list where there are none."""
    part = list(islice(rows, _PART))
    yield part
    while part := list(islice(rows, _PART)):
        yield part


def write_part(path: Path, kind: RowKind[RowT], rows: Iterable[RowT]) -> None:
    """Write a shard's part, and delete what killed jobs left of it. A lock makes sure that no other job writes it."""
    with locking.one_job(path):
        storage.remove_leftovers([path])
        write(path, kind, rows)


def table_of(kind: RowKind[RowT], rows: Iterable[RowT]) -> pa.Table:
    """Rows as a table, sorted by their key."""
    rows = sorted(rows, key=lambda row: _sort_key(row, kind))
    schema = schema_of(kind)
    arrays = [pa.array([getattr(row, field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def concatenate(parts: Sequence[Path], output: Path, kind: RowKind[RowT], about: Metadata | None = None) -> None:
    """Write the rows of parts that have no key in common as one manifest, as `write` does; for millions of them."""
    _write_tables(output, kind, (parquet.read_table(part, kind) for part in parts), about)


def _write_tables(
    path: Path, kind: RowKind[RowT], tables: Iterable[pa.Table], about: Metadata | Callable[[], Metadata] | None
) -> None:
    def described(cells_of: cells.Cells) -> _Described:
        own = (about() if callable(about) else about) or {}
        common = {"kind": kind.name, "schema_version": parquet.SCHEMA_VERSION}
        return _signed({**common, **own, **cells.describe(kind, cells_of)})

    with storage.scratch_directory() as folder, storage.output_errors(path):
        ordered = row_groups.in_order(tables, kind.key, Path(folder))
        first = next(ordered)  # before anything is written: all tables are read
        with storage.atomic_path(path) as temporary:
            _encode_described(chain([first], ordered), described, Path(folder), temporary)


def _encode_described(
    ordered: Iterator[pa.Table], described: Callable[[cells.Cells], _Described], folder: Path, target: Path
) -> _Described:
    """Write tables in order with the metadata of their cells, which is returned; many as row groups."""
    first = list(islice(ordered, row_groups.SMALL // row_groups.GROUP))
    rest = next(ordered, first[0].slice(0, 0))
    if not rest.num_rows:
        table = pa.concat_tables(first).combine_chunks()
        about = described(cells.of_table(table))
        parquet.encode([table], about, target)
        return about
    # Hashes are of whole columns, and stand in the file: the rows are written twice.
    spooled = folder / "rows.parquet"
    parquet.encode(chain(first, [rest], ordered), {}, spooled)
    schema = first.pop().schema
    first.clear()
    with file_limits.opened(spooled, schema) as file:
        about = described(parquet.cells_of(spooled, file, schema))
        groups = (file_limits.group(spooled, file, schema, number) for number in range(file.num_row_groups))
        parquet.encode(groups, about, target)
    return about


def _signed(described: Metadata) -> _Described:
    """What a manifest says of itself, with the hash of it."""
    return {**described, METADATA_HASH: metadata_sha256(described)}


def metadata_sha256(about: Metadata) -> str:
    """A hash of all that a manifest says of itself, the hash of its cells among it."""
    rest = {name: value for name, value in about.items() if name != METADATA_HASH}
    return storage.sha256_of(json.dumps(rest, sort_keys=True).encode())


def _sort_key(row: object, kind: RowKind[RowT]) -> tuple[tuple[bool, object], ...]:
    values = (getattr(row, name) for name in kind.key)
    return tuple((value is not None, value) for value in values)


def read_rows(path: Path, kind: RowKind[RowT]) -> Sequence[RowT]:
    """The rows of a manifest; those of a file of several row groups are read when they are needed.

    Raises `ManifestError` when it is not a complete manifest of that kind.
    """
    if not parquet.is_large(path):
        return _rows_of(path, kind, _checked(path, kind))
    check(path, kind)
    return rows_as_stored(path, kind)


def check(path: Path, kind: RowKind[RowT]) -> None:
    """Raise `ManifestError` when a file is not a complete manifest of that kind, as it was written."""
    about = read_metadata(path)
    if about.get(METADATA_HASH) != metadata_sha256(about):
        raise ManifestError(f"{path} was changed after it was written: the hash of its metadata is another")
    if not parquet.is_large(path):
        _checked(path, kind)
        return
    with parquet.stored_file(path, kind) as (file, schema):
        digest = cells.sha256(parquet.cells_of(path, file, schema), schema.names)
    parquet.check_content(path, schema, digest)


def _checked(path: Path, kind: RowKind[RowT]) -> pa.Table:
    table = parquet.stored_table(path, kind)
    parquet.check_content(path, table.schema, cells.sha256(cells.of_table(table), table.column_names))
    return completed(table, kind)


def rows_as_stored(path: Path, kind: RowKind[RowT]) -> Sequence[RowT]:
    """The rows of a manifest, even if they were changed after it was written. Raises `ManifestError`."""
    if not parquet.is_large(path):
        return _rows_of(path, kind, parquet.read_table(path, kind))
    with parquet.stored_file(path, kind) as (file, _):
        return _stored_rows(path, kind, file.metadata)


def in_order(kind: RowKind[RowT], rows: Iterable[RowT]) -> Sequence[RowT]:
    """Rows in the order of their key: in memory, or many of them in a file that goes with the last user of the rows."""
    some = iter(rows)
    first = list(islice(some, row_groups.SMALL + 1))
    if len(first) <= row_groups.SMALL:
        return sorted(first, key=lambda row: _sort_key(row, kind))
    folder = storage.scratch_directory()
    path = Path(folder.name) / "in_order.parquet"
    tables = (table_of(kind, part) for part in _parts(chain(first, some)))
    parquet.encode(row_groups.in_order(tables, kind.key, Path(folder.name)), {}, path)
    return _stored_rows(path, kind, pq.read_metadata(path), kept=folder)


def _stored_rows(path: Path, kind: RowKind[RowT], about: pq.FileMetaData, kept: object = None) -> Sequence[RowT]:
    sizes = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
    return row_groups.StoredRows(partial(_rows_of_group, path, kind, about, kept=kept), sizes)


def _rows_of_group(
    path: Path,
    kind: RowKind[RowT],
    about: pq.FileMetaData,
    number: int,
    places: NDArray[np.int64] | None,
    *,
    kept: object = None,
) -> list[RowT]:
    """Rows of a group of a checked file, whose end was read: of a large file that takes longer than a group.

    `kept` is what the file goes with.
    """
    schema = about.schema.to_arrow_schema()
    with parquet.unreadable(path), file_limits.opened(path, schema, about) as file:
        table = file_limits.group(path, file, schema, number)
    return _rows_of(path, kind, completed(table if places is None else table.take(places), kind))


def _rows_of(path: Path, kind: RowKind[RowT], table: pa.Table) -> list[RowT]:
    _check_cells(path, kind, table)
    names = table.column_names
    columns = [_cells(table[name].combine_chunks()) for name in names]
    if "vector" in names:
        place = names.index("vector")
        if any(None in value for value in columns[place] if value is not None):
            raise ManifestError(f"{path} has a row whose column 'vector' has an empty place")
        columns[place] = [None if value is None else tuple(value) for value in columns[place]]
    statuses = columns[names.index("status")] if "status" in names else [None] * table.num_rows
    lines = zip(*columns, strict=True)
    return [
        kind.type_of(status)(**dict(zip(names, values, strict=True)))
        for status, values in zip(statuses, lines, strict=True)
    ]


def _cells(column: pa.Array) -> list[Any]:
    """A column's values; texts that are equal are one object, because most columns repeat few texts."""
    if not pa.types.is_string(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    encoded = column.dictionary_encode()
    values = [*encoded.dictionary.to_pylist(), None]
    return [values[place] for place in pc.fill_null(encoded.indices, len(values) - 1).to_pylist()]


def _check_cells(path: Path, kind: RowKind[RowT], table: pa.Table) -> None:
    """Raise `ManifestError` for an empty cell that must be filled, and for an unknown word."""
    for column in columns_of(kind.row):
        cells = table[column.name]
        if cells.null_count and not column.optional:
            raise ManifestError(f"{path} has a row whose column '{column.name}' is empty")
        if column.words is not None:
            unknown = set(pc.unique(cells).to_pylist()) - {*column.words, None}
            if unknown:
                raise ManifestError(
                    f"{path} has a row whose column '{column.name}' holds {str(min(map(str, unknown)))[:80]!r}; "
                    f"known: {', '.join(column.words)}"
                )
    if kind.complete is not None:
        complete = table.filter(pc.equal(table["status"], "complete"))
        for column in columns_of(kind.complete):
            if complete[column.name].null_count and not column.optional:
                raise ManifestError(f"{path} has a complete row whose column '{column.name}' is empty")


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata of a manifest's file: kind, schema version, package and tool versions, configuration hash."""
    return parquet.metadata(path, parquet.schema_in(path))


def kind_of(path: Path) -> RowKind[Any]:
    """The kind of a manifest. Raises `ManifestError` when the file is not a manifest."""
    about = read_metadata(path)
    name = about.get("kind")
    if name in FORMER:
        raise ManifestError(f"{path} is of the kind {name}, which no job reads any more; {parquet.way_out(about)}")
    if not isinstance(name, str) or name not in KINDS:
        raise ManifestError(f"{path} says it is a manifest of kind '{name}'; known: {sorted(KINDS)}")
    return KINDS[name]


def is_former(path: Path) -> bool:
    """Whether a manifest is of a kind of earlier versions, which opens as a table. Raises `ManifestError`."""
    return read_metadata(path).get("kind") in FORMER


def check_former(path: Path) -> pa.Table:
    """The table of such a manifest. Raises `ManifestError` where it was changed after it was written."""
    schema = parquet.schema_in(path)
    with parquet.decoding(path, schema) as file:
        table = file_limits.group(path, file, schema)
    parquet.check_content(path, schema, cells.sha256(cells.of_table(table), table.column_names))
    return table


def stored_rows(path: Path) -> int:
    """The number of rows of a manifest, from its end. Raises `ManifestError`."""
    with parquet.opened(path) as file:
        return int(file.metadata.num_rows)


def counts(path: Path) -> tuple[int, int]:
    """The number of complete and of other rows of a manifest or a part, from its metadata. Raises `ManifestError`."""
    statuses: dict[str, int] = read_metadata(path).get(cells.STATUSES, {})
    complete = statuses.get(COMPLETE, 0)
    return complete, sum(statuses.values()) - complete


def unrecorded(paths: Iterable[Path], kind: RowKind[Any]) -> list[str]:
    """The columns that at least one manifest of the kind lacks, or says that its parts lacked."""
    known = set(schema_of(kind).names)
    absent: set[str] = set()
    for path in paths:
        try:
            schema = parquet.schema_in(path)
            described = parquet.metadata(path, schema)
        except ManifestError:
            continue  # a part of a run before, which nothing reads
        if described.get("kind") == kind.name:
            of_parts = described.get(UNRECORDED, [])
            absent |= known - {kind.renamed.get(name, name) for name in schema.names}
            absent |= {name for name in of_parts if name in known} if isinstance(of_parts, list) else set()
    return sorted(absent)
