"""Rows as Arrow's tables, and tables as rows: the schema of a kind, the order of its rows, and the check of cells."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perturbations.base.errors import ManifestError
from perturbations.manifest.columns import columns_of
from perturbations.manifest.rows import COMPLETE, RowKind, RowT

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
        return f"it does not have {', '.join(map(repr, absent[:5]))}"
    for own in schema:
        if own.name not in wanted.names or schema.names.count(own.name) > 1:
            return f"it has the column {own.name[:80]!r}, which this version does not know"
        if own.type != wanted.field(own.name).type:
            return f"'{own.name}' is of the type {own.type}, and {wanted.field(own.name).type} in this version"
    return None if schema.names == wanted.names else "they are in another order"


def table_of(kind: RowKind[RowT], rows: Iterable[RowT]) -> pa.Table:
    """Rows as a table, sorted by their key."""
    rows = sorted(rows, key=lambda row: sort_key(row, kind))
    schema = schema_of(kind)
    arrays = [column_of([getattr(row, own.name) for row in rows], own.type) for own in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def sort_key(row: object, kind: RowKind[Any]) -> tuple[tuple[bool, object], ...]:
    """What rows of a kind are sorted by: the values of its key, empty ones first."""
    values = (getattr(row, name) for name in kind.key)
    return tuple((value is not None, value) for value in values)


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
            lists = [np.frombuffer(value, np.int32) for value in values if value]
            inner = pa.array(np.concatenate([np.empty(0, np.int32), *lists]))
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


def rows_of(path: Path, kind: RowKind[RowT], table: pa.Table) -> list[RowT]:
    """The rows of a table of the manifest at a path. Raises `ManifestError` as `_check_cells` does."""
    for column in table.schema:
        if column.type in (_TYPES[array], _TYPES[tuple]) and any(
            chunk.flatten().null_count for chunk in table[column.name].chunks
        ):
            raise ManifestError(f"{path} has a row whose column '{column.name}' has an empty place")
    columns = {name: _cells(table[name]) for name in table.column_names}
    _check_cells(path, kind, columns)
    statuses = columns.get("status", [None] * table.num_rows)
    lines = zip(*columns.values(), strict=True)
    return [
        kind.type_of(status)(**dict(zip(columns, values, strict=True)))
        for status, values in zip(statuses, lines, strict=True)
    ]


def _cells(column: pa.ChunkedArray) -> list[Any]:
    """A column's values; texts that are equal are one object, because most columns repeat few texts.

    A list of whole numbers is an array, of four bytes per number; a list of other numbers is a tuple.
    """
    if column.type == _TYPES[array]:
        lists = (numbers.values for chunk in column.chunks for numbers in chunk)
        return [None if values is None else array("i", values.to_numpy().tobytes()) for values in lists]
    values = column.to_pylist()
    if column.type == _TYPES[tuple]:
        return [None if value is None else tuple(value) for value in values]
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
