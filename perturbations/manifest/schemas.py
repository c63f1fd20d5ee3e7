"""The Parquet schema of each kind of rows, and whether a file of another version can be read by it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

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


def completed(table: pa.Table, kind: RowKind[RowT]) -> pa.Table:
    """A table with all columns of its kind: those that an earlier version did not have are empty.

    Columns that it wrote under other names have today's. Results without a `side` are of perturbed queries, or clean.
    """
    schema, metadata = schema_of(kind), table.schema.metadata
    table = table.rename_columns([kind.renamed.get(name, name) for name in table.column_names])
    if "side" in schema.names and "side" not in table.column_names:
        side = pc.if_else(pc.equal(table["suite"].cast(pa.string()), "clean"), "none", "query")
        table = table.append_column("side", side.cast(pa.string()))
    arrays = [
        table[field.name] if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema.with_metadata(metadata))


def column_problem(kind: RowKind[RowT], schema: pa.Schema) -> str | None:
    """Why a file's columns cannot be read as those of a kind; None where they can."""
    known = {column.name: column for column in columns_of(kind.row)}
    schema = pa.schema([field.with_name(kind.renamed.get(field.name, field.name)) for field in schema])
    for name, column in known.items():
        if not column.optional and name not in schema.names and name != "side":
            return f"it lacks '{name}', which every row must have"
    for place, field in enumerate(schema):
        if field.name not in known or field.name in schema.names[:place]:
            return f"it has the column {field.name[:80]!r}, which this version does not know"
        if field.type != _TYPES[known[field.name].type]:
            return f"'{field.name}' is of the type {field.type}, and {_TYPES[known[field.name].type]} in this version"
    return None
