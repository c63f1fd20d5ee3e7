"""Rows that stay in a file until they are needed: a corpus may have millions of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, overload

import numpy as np
from numpy.typing import NDArray

from perturbations.manifest.rows import RowT

Numbers = NDArray[np.int64]

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
        """The same rows; each is given to a function when it is read."""
        return StoredRows(partial(_mapped, self.read, then), self.numbers)


def stored(rows: Sequence[RowT]) -> StoredRows[RowT]:
    """Rows in memory as such rows."""
    return rows if isinstance(rows, StoredRows) else StoredRows(partial(_of_memory, rows), np.arange(len(rows)))


def _of_memory(rows: Sequence[RowT], numbers: Numbers) -> list[RowT]:
    return [rows[number] for number in numbers.tolist()]


def _mapped(read: Callable[[Numbers], list[Any]], then: Callable[[Any], Any], numbers: Numbers) -> list[Any]:
    return list(map(then, read(numbers)))
