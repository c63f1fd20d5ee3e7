"""Parquet manifests: how they are written, read and checked. The same rows give the same bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, Generic, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.manifest import manifest_paths, parquet
from perturbations.manifest.columns import columns_of
from perturbations.manifest.parquet import Metadata
from perturbations.manifest.rows import COMPLETE, RowKind, RowT

Numbers = NDArray[np.int64]

COUNTS = ("rows", parquet.STATUSES)
"""In metadata: how many rows there are, in all and per status."""

_PART = 2**13
"""Rows that are in memory as objects, which take more of it than tables."""

_SORT_MEMORY = "450MB"
"""Of the sort on the disk. For 6 million clips, 400 MB and one thread are enough, and 300 MB are not."""

_About = Metadata | Callable[[], Metadata] | None


def write(path: Path, kind: RowKind[RowT], rows: Iterable[RowT], about: _About = None) -> None:
    """Write rows of one kind, sorted by their key, whole or not at all; also millions of them.

    The metadata has the number of rows per status, and a hash of their content. A function `about` is called once all
    rows were read.
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
    _write_tables(output, kind, (parquet.read_table(part, kind) for part in parts), about)


def table_of(kind: RowKind[RowT], rows: Iterable[RowT]) -> pa.Table:
    """Rows as a table, sorted by their key."""
    rows = sorted(rows, key=lambda row: _sort_key(row, kind))
    schema = parquet.schema_of(kind)
    arrays = [parquet.column_of([getattr(row, field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _sort_key(row: object, kind: RowKind[RowT]) -> tuple[tuple[bool, object], ...]:
    values = (getattr(row, name) for name in kind.key)
    return tuple((value is not None, value) for value in values)


def _write_tables(path: Path, kind: RowKind[RowT], tables: Iterable[pa.Table], about: _About) -> None:
    def described() -> Metadata:
        return (about() if callable(about) else about) or {}

    storage.remove_leftovers([path])  # of jobs that were killed
    with storage.scratch_directory() as folder, storage.output_errors(path), storage.atomic_path(path) as temporary:
        parquet.encode(_in_order(kind, tables, Path(folder)), kind, temporary, described)


def _in_order(kind: RowKind[Any], tables: Iterable[pa.Table], folder: Path) -> Iterator[pa.Table]:
    """The rows of tables in the order of their key, empty keys first, in tables of `parquet.GROUP` rows and the rest.

    One table is in this order; several are sorted on the disk, in an empty `folder`.
    """
    some = (table.replace_schema_metadata() for table in tables)
    first, second = next(some, None), next(some, None)
    if second is None:
        yield from parquet.in_groups([] if first is None else [first])
    else:
        yield from parquet.in_groups(_sorted_on_disk(kind, chain([first, second], some), folder))


def _sorted_on_disk(kind: RowKind[Any], tables: Iterable[pa.Table], folder: Path) -> Iterator[pa.Table]:
    import duckdb

    spooled = folder / "rows.parquet"
    parquet.encode(tables, kind, spooled)
    settings: dict[str, Any] = {"memory_limit": _SORT_MEMORY, "temp_directory": str(folder), "threads": 1}
    key = ", ".join(f'"{name}" ASC NULLS FIRST' for name in kind.key)
    with duckdb.connect(config=settings) as database:
        for batch in database.read_parquet(str(spooled)).order(key).to_arrow_reader(_PART):
            yield pa.Table.from_batches([batch]).cast(parquet.schema_of(kind))


# --- reading ---------------------------------------------------------------------------------------------------------


def read_rows(path: Path, kind: RowKind[RowT]) -> Sequence[RowT]:
    """The rows of a manifest; those of a file of several row groups are read when they are needed.

    Raises `ManifestError` when it is not a manifest of that kind, as it was written.
    """
    with parquet.opened_as(path, kind) as (file, _):
        if file.num_row_groups <= 1:
            return [row for table in parquet.tables(file) for row in _rows_of(path, kind, table)]
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
    first = list(islice(some, parquet.GROUP + 1))
    if len(first) <= parquet.GROUP:
        return sorted(first, key=lambda row: _sort_key(row, kind))
    folder = storage.scratch_directory()
    path = Path(folder.name) / "in_order.parquet"
    write(path, kind, chain(first, some))
    return StoredRows(partial(_rows_at, path, kind, kept=folder), np.arange(stored_rows(path)))


def _rows_at(path: Path, kind: RowKind[RowT], numbers: Numbers, *, kept: object = None) -> list[RowT]:
    """The rows of these numbers; `kept` is what the file goes with."""
    rows: list[RowT] = []
    order = np.argsort(numbers, kind="stable")
    with parquet.opened(path, again=True) as file:
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
    """A column's values; texts that are equal are one object, because most columns repeat few texts."""
    values = column.to_pylist()
    if not pa.types.is_string(column.type):
        return values  # type: ignore[no-any-return]
    texts: dict[str | None, str | None] = {}
    return [texts.setdefault(value, value) for value in values]


def _check_cells(path: Path, kind: RowKind[RowT], columns: Mapping[str, list[Any]]) -> None:
    """Raise `ManifestError` for an empty cell that must be filled, and for an unknown word."""
    for column in columns_of(kind.row):
        cells = columns[column.name]
        if not column.optional and None in cells:
            raise ManifestError(f"{path} has a row whose column '{column.name}' is empty")
        if column.words is not None and (unknown := {*cells} - {*column.words, None}):
            raise ManifestError(
                f"{path} has a row whose column '{column.name}' holds {str(min(map(str, unknown)))[:80]!r}; "
                f"known: {', '.join(column.words)}"
            )
    if kind.complete is not None:
        for column in columns_of(kind.complete):
            cells = columns[column.name]
            if not column.optional and any(
                cell is None and status == COMPLETE for cell, status in zip(cells, columns["status"], strict=True)
            ):
                raise ManifestError(f"{path} has a complete row whose column '{column.name}' is empty")


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata of a manifest's file: kind, schema version, package and tool versions, configuration hash."""
    with parquet.opened(path) as file:
        return parquet.metadata(path, file.schema_arrow)


def kind_of(path: Path) -> RowKind[Any]:
    """The kind of a manifest. Raises `ManifestError` when the file is not a manifest."""
    from perturbations.manifest.row_kinds import KINDS  # a job knows the kinds that it reads

    name = read_metadata(path).get("kind")
    if not isinstance(name, str) or name not in KINDS:
        raise ManifestError(f"{path} says it is a manifest of kind '{name}'; known: {sorted(KINDS)}")
    return KINDS[name]


def stored_rows(path: Path) -> int:
    """The number of rows of a manifest, from its end. Raises `ManifestError`."""
    with parquet.opened(path) as file:
        return int(file.metadata.num_rows)


def counts(path: Path) -> tuple[int, int]:
    """The number of complete and of other rows of a manifest or a part, from its metadata. Raises `ManifestError`."""
    statuses: dict[str, int] = read_metadata(path).get(parquet.STATUSES, {})
    complete = statuses.get(COMPLETE, 0)
    return complete, sum(statuses.values()) - complete


# --- single columns, without their rows ------------------------------------------------------------------------------


def columns_in(path: Path) -> list[str]:
    """The names of the columns that a file has. Raises `ManifestError`."""
    with parquet.opened(path) as file:
        return list(file.schema_arrow.names)


def read_columns(path: Path, *names: str) -> pa.Table:
    """Some columns of a manifest or a part, as they are stored; what it says of itself is not checked.

    Raises `ManifestError`.
    """
    with parquet.opened(path) as file:
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
