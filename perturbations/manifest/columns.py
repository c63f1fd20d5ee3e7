"""The columns of rows, derived from their types: what a Parquet schema is made of, and rows from plain values."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from perturbations.base.errors import ManifestError
from perturbations.manifest.rows import MixRow, MultimodalRow, RowKind, RowT


@dataclass(frozen=True)
class Column:
    """A column of a manifest: its Python type, whether it may be empty, and the words it may hold (None: any)."""

    name: str
    type: type
    optional: bool
    words: tuple[str, ...] | None


_VIEWS = (MixRow, MultimodalRow)

_COLUMNS: dict[type[Any], tuple[Column, ...]] = {}


def columns_of(row: type[Any]) -> tuple[Column, ...]:
    """The columns of a type of rows, in their order. A view has its own columns before those of the rows it shows."""
    if row not in _COLUMNS:
        _COLUMNS[row] = _derived(row)
    return _COLUMNS[row]


def _derived(row: type[Any]) -> tuple[Column, ...]:
    hints = get_type_hints(row)
    names = [field.name for field in fields(row)]
    if row in _VIEWS:
        names.sort(key=lambda name: name not in row.__annotations__)
    return tuple(_column(name, hints[name]) for name in names)


def _column(name: str, hint: Any) -> Column:
    alternatives = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    (plain,) = (alternative for alternative in alternatives if alternative is not type(None))
    words = get_args(plain) if get_origin(plain) is Literal else None
    kind = str if words else get_origin(plain) or plain
    return Column(name, kind, len(alternatives) > 1, words)


def values_of(row: object) -> dict[str, Any]:
    """A row's columns by name."""
    return {column.name: getattr(row, column.name) for column in columns_of(type(row))}


def row_from(kind: RowKind[RowT], columns: Mapping[str, object]) -> RowT:
    """A row of a kind from columns by name; other columns are left out.

    Raises `ManifestError` where a column that must be filled is empty or has another type.
    """
    row = kind.type_of(columns.get("status"))
    values = {}
    for column in columns_of(row):
        value = columns.get(column.name)
        if value is None and not column.optional:
            raise ManifestError(f"a row of {kind.name} does not have the column '{column.name}'")
        values[column.name] = None if value is None else _typed(kind.name, column, value)
    return row(**values)


def _typed(kind: str, column: Column, value: Any) -> Any:
    """A value in its column's type: a DataFrame turns whole numbers into floats where others are missing."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_listed = not isinstance(value, str | bytes) and hasattr(value, "__iter__")
    fitting: dict[type, bool] = {
        int: is_number and value % 1 == 0 and abs(value) < 2**63,
        float: is_number,
        list: is_listed,
        tuple: is_listed,
        array: is_listed,
    }
    fits = fitting.get(column.type, isinstance(value, column.type))
    if not fits or (column.words is not None and value not in column.words):
        raise ManifestError(f"the column '{column.name}' of a row of {kind} cannot hold {str(value)[:80]!r}")
    return array("i", value) if column.type is array else column.type(value)
