"""The Parquet schema of each kind of rows."""

from __future__ import annotations

import pyarrow as pa

from perturbations.manifest.columns import columns_of
from perturbations.manifest.kinds import RowKind, RowT

_TYPES = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    tuple: pa.list_(pa.float32()),
}


def schema_of(kind: RowKind[RowT]) -> pa.Schema:
    """The Parquet schema of a kind, derived from the type of its rows."""
    return pa.schema([pa.field(column.name, _TYPES[column.type]) for column in columns_of(kind.row)])


def column_problem(kind: RowKind[RowT], schema: pa.Schema) -> str | None:
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
