"""The rows of manifests of millions of rows, read by row groups."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from perturbations.manifest.kinds import RowT

_Key = TypeVar("_Key")


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
