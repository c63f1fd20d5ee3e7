"""Manifests of millions of rows: put in order on the disk, and read by row groups, as small ones are in memory."""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perturbations.manifest.kinds import RowT

SMALL = 2**16
"""The most rows of a manifest of one row group."""

GROUP = 2**14
"""Rows of a row group of a larger manifest: 12 MB of clips."""

_RUN = 2
"""Groups that are put in order at once: six million rows are merged from 183 runs, each of which takes memory."""

_Key = TypeVar("_Key")

_BATCH = 64
"""Rows of each run that are in memory while runs are merged."""


def in_order(tables: Iterable[pa.Table], key: Sequence[str], scratch: Path) -> Iterator[pa.Table]:
    """The rows of tables in the order of their key, in tables of `GROUP` rows and a last one of fewer, or without rows.

    Empty keys come first. All tables are read before the first one is given. `scratch` is an empty folder.
    """
    runs: list[Path] = []
    held: list[pa.Table] = []
    for table in tables:
        if sum(map(len, held)) + len(table) > _RUN * GROUP and held:
            runs.append(_run(held, key, scratch / str(len(runs))))
            held = []
        held.append(table)
    if not runs:
        yield from _grouped([_ordered(held, key)])
        return
    runs.append(_run(held, key, scratch / str(len(runs))))
    held = []
    yield from _grouped(_merged(runs, key))


def _ordered(tables: Sequence[pa.Table], key: Sequence[str]) -> pa.Table:
    table = pa.concat_tables(tables)
    # A further column per key says which are empty.
    filled = [pc.is_valid(table[name]) for name in key]
    keyed = pa.table([*filled, *(table[name] for name in key)], [str(place) for place in range(2 * len(key))])
    pairs = [(str(place), "ascending") for at in range(len(key)) for place in (at, at + len(key))]
    return table.take(pc.sort_indices(keyed, sort_keys=pairs)).combine_chunks()


def _run(tables: Sequence[pa.Table], key: Sequence[str], path: Path) -> Path:
    """A file of rows in order, of which a few can be read at once."""
    table = _ordered(tables, key)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=_BATCH)
    return path


def _merged(runs: Sequence[Path], key: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of all runs in order, in tables of `GROUP` rows and a last one of fewer."""
    rows = heapq.merge(*(_keyed(number, run, key) for number, run in enumerate(runs)))
    while (table := _gathered(islice(rows, GROUP))) is not None:
        yield table
        del table  # before the next rows are read


def _gathered(rows: Iterable[tuple[Any, int, int, int, pa.Table]]) -> pa.Table | None:
    """The chosen rows of several batches as one table; None without any."""
    starts: dict[int, int] = {}
    tables: list[pa.Table] = []
    places: list[int] = []
    count = 0
    for _, _, _, row, table in rows:
        if id(table) not in starts:
            starts[id(table)] = count
            tables.append(table)
            count += len(table)
        places.append(starts[id(table)] + row)
    return pa.concat_tables(tables).take(places).combine_chunks() if tables else None


def _keyed(number: int, run: Path, names: Sequence[str]) -> Iterator[tuple[Any, int, int, int, pa.Table]]:
    """Each row of a run: its key, the run's number, the numbers of its batch and of the row there, and the batch."""
    with pa.OSFile(str(run)) as source, pa.ipc.open_stream(source) as batches:
        for count, batch in enumerate(batches):
            table = pa.Table.from_batches([batch])
            columns = ([(value is not None, value) for value in table[name].to_pylist()] for name in names)
            for row, values in enumerate(zip(*columns, strict=True)):
                yield values, number, count, row, table


def _grouped(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(map(len, held)) >= GROUP:
            whole = pa.concat_tables(held)
            while len(whole) >= GROUP:
                yield whole.slice(0, GROUP).combine_chunks()
                whole = whole.slice(GROUP)
            held = [whole.combine_chunks()]
    yield pa.concat_tables(held).combine_chunks()


def _after(first: Callable[[Any], Any], then: Callable[[Any], Any], row: Any) -> Any:
    return then(first(row))


@dataclass(frozen=True, eq=False)
class StoredRows(Sequence[RowT], Generic[RowT]):
    """The rows of a file of several row groups, which are read when they are needed; those of one group are held.

    Attributes:
        read: gives the rows of a row group, all of them for None, or those at these places in the group.
        sizes: the numbers of rows of the groups.
        places: the chosen rows, by their places in the file; None: all.
        then: called with each row.
    """

    read: Callable[[int, NDArray[np.int64] | None], list[RowT]]
    sizes: Sequence[int]
    places: NDArray[np.int64] | None = None
    then: Callable[[RowT], RowT] | None = None
    _held: dict[int, Mapping[int, RowT] | list[RowT]] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        """The number of rows."""
        return sum(self.sizes) if self.places is None else len(self.places)

    @overload
    def __getitem__(self, number: int) -> RowT: ...
    @overload
    def __getitem__(self, number: slice) -> StoredRows[RowT]: ...
    def __getitem__(self, number: int | slice) -> RowT | StoredRows[RowT]:
        """The row of a number, or the rows of a slice."""
        if isinstance(number, slice):
            return self.taken(np.arange(*number.indices(len(self))))
        place = range(len(self))[number]
        return self._at(place if self.places is None else int(self.places[place]))

    def __iter__(self) -> Iterator[RowT]:
        """The rows in order."""
        return map(self._at, range(len(self)) if self.places is None else map(int, self.places))

    def taken(self, numbers: Sequence[int] | NDArray[np.int64]) -> StoredRows[RowT]:
        """The rows of these numbers."""
        places = np.asarray(numbers, np.int64)
        return StoredRows(self.read, self.sizes, places if self.places is None else self.places[places], self.then)

    def mapped(self, then: Callable[[Any], Any]) -> StoredRows[Any]:
        """The same rows, each of which is given to one more function when it is read."""
        both = then if self.then is None else partial(_after, self.then, then)
        return StoredRows(self.read, self.sizes, self.places, both)

    def _at(self, place: int) -> RowT:
        group = bisect_right(self._ends, place)
        if group not in self._held:
            self._held.clear()
            self._held[group] = self._rows_of(group)
        row = self._held[group][place - (self._ends[group] - self.sizes[group])]
        return row if self.then is None else self.then(row)

    def _rows_of(self, group: int) -> Mapping[int, RowT] | list[RowT]:
        """The chosen rows of a group, by their places in it."""
        if self.places is None:
            return self.read(group, None)
        end = self._ends[group]
        start = end - self.sizes[group]
        first, last = np.searchsorted(self._in_file, [start, end])
        places = self._in_file[first:last] - start
        return dict(zip(places.tolist(), self.read(group, places), strict=True))

    @cached_property
    def _in_file(self) -> NDArray[np.int64]:
        """The chosen places, each once, in the order of the file."""
        return np.unique(np.asarray(self.places, np.int64))

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(self.sizes))


def stored(rows: Sequence[RowT]) -> StoredRows[RowT]:
    """Rows in memory as a single group."""
    return rows if isinstance(rows, StoredRows) else StoredRows(partial(_of_memory, rows), [len(rows)])


def by_key(rows: Sequence[RowT], key: Callable[[RowT], _Key | None]) -> dict[_Key, StoredRows[RowT]]:
    """The rows by their keys, in their order; those whose key is None are left out."""
    places: dict[_Key, array[int]] = defaultdict(lambda: array("q"))
    for place, row in enumerate(rows):
        if (of_row := key(row)) is not None:
            places[of_row].append(place)
    return {of_row: stored(rows).taken(members) for of_row, members in places.items()}


def _of_memory(rows: Sequence[RowT], _: int, places: NDArray[np.int64] | None) -> list[RowT]:
    return list(rows) if places is None else [rows[place] for place in places]
