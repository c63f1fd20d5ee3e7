"""What a manifest says of its rows: how many there are per status, and a hash that does not depend on the encoding."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_GROUP = 2**14
"""Rows that are hashed at once, column by column: 12 MB of clips."""

STATUSES = "statuses"
"""In a description: the number of rows per status."""


class Content:
    """The rows of a manifest, counted and hashed table by table."""

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
        while sum(map(len, self._held)) >= _GROUP:
            whole = pa.concat_tables(self._held)
            self._hash(whole.slice(0, _GROUP))
            self._held = [whole.slice(_GROUP)]

    def _hash(self, table: pa.Table) -> None:
        for name in table.column_names:
            column = table[name].combine_chunks()
            self._digest.update(f"{name}:{table.num_rows}".encode())
            self._digest.update(np.packbits(np.asarray(column.is_null())).tobytes())
            _update(self._digest, column)

    def sha256(self) -> str:
        """A hash of every cell, once all rows are added; the file's encoding, pages and version do not count."""
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
    if pa.types.is_list(column.type):
        digest.update(np.asarray(pc.fill_null(pc.list_value_length(column), -1), "<i4").tobytes())
        _update(digest, column.flatten())
    elif pa.types.is_string(column.type):
        digest.update(np.asarray(pc.fill_null(pc.binary_length(column), -1), "<i4").tobytes())
        digest.update(_text(column))
    else:
        empty = False if pa.types.is_boolean(column.type) else 0
        digest.update(np.ascontiguousarray(pc.fill_null(column, empty)).tobytes())


def _text(column: pa.Array) -> memoryview:
    """The texts of a column, one after the other, without copying them one by one."""
    filled = pc.fill_null(column, "")
    _, ends, data = filled.buffers()
    places = np.frombuffer(ends, np.int32)[filled.offset : filled.offset + len(filled) + 1]
    return memoryview(data or b"")[places[0] : places[-1]] if len(filled) else memoryview(b"")
