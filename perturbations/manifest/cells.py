"""What a manifest says of its cells: their number, and hashes that do not depend on the file's encoding.

Columns are read one after the other and in chunks, so that a file of millions of rows takes little memory.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perturbations.manifest.kinds import RowKind

STATUSES = "statuses"
"""In a description: the number of rows per status."""


@dataclass(frozen=True)
class Cells:
    """The cells of a table or of a file.

    Attributes:
        rows: the number of rows.
        names: of the columns, in their order.
        chunks: gives a column's cells, chunk by chunk in the rows' order; it is called more than once.
    """

    rows: int
    names: Sequence[str]
    chunks: Callable[[str], Iterable[pa.Array]]


def of_table(table: pa.Table) -> Cells:
    """The cells of a table."""
    return Cells(table.num_rows, table.column_names, lambda name: [table[name].combine_chunks()])


def describe(kind: RowKind[Any], cells: Cells) -> dict[str, object]:
    """The number of rows, in all and per status, and hashes of the keys and of every cell."""
    names = {kind.renamed.get(name, name): name for name in cells.names}
    described: dict[str, object] = {
        "rows": cells.rows,
        # An earlier version's key may have fewer columns.
        "keys_sha256": sha256(cells, [names[name] for name in kind.key if name in names]),
        "content_sha256": sha256(cells, cells.names),
    }
    if "status" in cells.names:
        counts: Counter[str] = Counter()
        for chunk in cells.chunks("status"):
            counts.update({pair["values"]: pair["counts"] for pair in pc.value_counts(chunk).to_pylist()})
        described[STATUSES] = dict(sorted(counts.items()))
    return described


def sha256(cells: Cells, names: Iterable[str]) -> str:
    """A hash of columns' cells; the file's encoding, pages and version do not count."""
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name}:{cells.rows}".encode())
        empty = [np.asarray(chunk.is_null()) for chunk in cells.chunks(name)]
        digest.update(np.packbits(np.concatenate([np.zeros(0, bool), *empty])).tobytes())
        _update(digest, partial(cells.chunks, name))
    return digest.hexdigest()


def _update(digest: hashlib._Hash, chunks: Callable[[], Iterable[pa.Array]]) -> None:
    """Add a column: the lengths of all cells that have one, then what they hold."""
    is_list = False
    for chunk in chunks():
        is_list = pa.types.is_list(chunk.type)
        length = pc.list_value_length if is_list else pc.binary_length
        if is_list or pa.types.is_string(chunk.type):
            digest.update(np.asarray(pc.fill_null(length(chunk), -1), "<i4").tobytes())
    if is_list:
        _update(digest, lambda: (chunk.flatten() for chunk in chunks()))
        return
    for chunk in chunks():
        digest.update(_text(chunk) if pa.types.is_string(chunk.type) else _numbers(chunk))


def _text(column: pa.Array) -> memoryview:
    """The texts of a column, one after the other, without copying them one by one."""
    filled = pc.fill_null(column, "")
    _, ends, data = filled.buffers()
    places = np.frombuffer(ends, np.int32)[filled.offset : filled.offset + len(filled) + 1]
    return memoryview(data or b"")[places[0] : places[-1]] if len(filled) else memoryview(b"")


def _numbers(column: pa.Array) -> bytes:
    filled = pc.fill_null(column, False if pa.types.is_boolean(column.type) else 0)
    return np.ascontiguousarray(filled).tobytes()
