"""The fields of annotated rows: which must be there, and which are texts, numbers or seconds. Standard library only."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, SupportsFloat

from perturbations.base.errors import AnnotationError, short
from perturbations.datasets.listing import AnnotationPlace, Collector, at, is_unicode
from perturbations.datasets.parsing import Rows

_LONGEST_S = 10_000_000.0

Fields = dict[str, Any]
"""The columns of a checked row: required texts are str, other columns have the file's type."""


def checked(
    collector: Collector,
    rows: Rows,
    texts: Sequence[str],
    others: Sequence[str] = (),
    *,
    caption: str = "",
    item_id: str = "",
) -> Iterator[tuple[AnnotationPlace, Fields]]:
    """The rows that follow the format; the rest is rejected.

    A row must have the columns `texts`, which become str, and the columns `others`. A number may be an id, but no
    `caption`, which is one of `texts`. The column `item_id` names a row in messages; it is the first text by default.
    """
    for where, row in rows:
        try:
            fitting = _checked_row(row, texts, others, caption)
        except ValueError as error:
            name = row.get(item_id or texts[0]) if isinstance(row, dict) else None
            collector.reject_malformed(where, name if isinstance(name, str) else "", str(error))
        else:
            yield where, fitting


def checked_all(
    path: Path, rows: Rows, texts: Sequence[str] = (), *, caption: str = ""
) -> Iterator[tuple[str, Fields]]:
    """The places, in words, and the rows of a file. Raises `AnnotationError` for the first that `checked` rejects."""
    for where, row in rows:
        try:
            yield at(where), _checked_row(row, texts, (), caption)
        except ValueError as error:
            raise AnnotationError(f"{path}, {at(where)}: {error}") from None


def _checked_row(row: object, texts: Sequence[str], others: Sequence[str], caption: str) -> Fields:
    """A row that has the columns, as `checked` has it. Raises `ValueError` for any other row."""
    if not isinstance(row, dict):
        raise ValueError(f"an object is expected, not a {type(row).__name__}")
    if None in row:  # surplus fields, from an unquoted comma: the caption would be cut there
        number = len(row) - 1
        raise ValueError(
            f"{number + len(row[None])} fields, where the header has {number}: put a text with commas in quotes"
        )
    if lacking := [key for key in (*texts, *others) if key not in row]:
        raise ValueError(f"no {' or '.join(map(short, lacking))}")
    for key in texts:
        if type(row[key]) is not str:
            row[key] = _as_text(key, row[key], numbers=key != caption)
    return row


def _as_text(key: str, value: object, *, numbers: bool) -> str:
    text = text_of(value)
    if text and (isinstance(value, bool) or not isinstance(value, (str, int, float) if numbers else str)):
        raise ValueError(f"{short(key)} must be text, not a {type(value).__name__}")
    return text


def text_of(value: object) -> str:
    """A field as a text; "" where it is empty, which in a Parquet table is null or NaN."""
    if value is None or value != value:
        return ""
    # pandas holds whole numbers as floats in a column with a gap.
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def list_in(text: str) -> list[Any] | None:
    """The list that a field holds as JSON or as Python writes it; None where it holds none."""
    readers: tuple[Callable[[str], object], ...] = (json.loads, ast.literal_eval)
    for read in readers:
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            value = read(text)
            return list(value) if isinstance(value, list | tuple) else None
    return None


def seconds(value: object) -> float | None:
    """A time in seconds; None where the field is empty. Raises `ValueError`."""
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return None
    try:
        number = float(value) if isinstance(value, SupportsFloat | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= _LONGEST_S:
        raise ValueError(
            f"{short(value)} is not a number of seconds, at most {_LONGEST_S:,.0f}: write 83.5, not 1:23.5"
        )
    return number


_MOST_DEPTH, _MOST_TEXT = 16, 100_000


def as_json(column: str, value: object, depth: int = 0) -> object:
    """A value of a further column, as JSON can hold it; None where it is empty. Raises `ValueError`."""
    if isinstance(value, str):
        return checked_text(column, value) or None
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth == _MOST_DEPTH:
        raise ValueError(f"the column {short(column)} is nested too deep")
    if isinstance(value, list):
        return [as_json(column, member, depth + 1) for member in value]
    if isinstance(value, dict):
        return {checked_text(column, key): as_json(column, own, depth + 1) for key, own in value.items()}
    return str(value)  # a date of Parquet


def checked_text(column: str, text: str) -> str:
    """A text of a further column. Raises `ValueError` for one that a manifest cannot hold."""
    if len(text) > _MOST_TEXT:
        raise ValueError(f"the column {short(column)} holds {len(text):,} letters, more than {_MOST_TEXT:,}")
    if not is_unicode(text):
        raise ValueError(f"the column {short(column)} is not valid Unicode text: {short(text)} has a lone surrogate")
    return text
