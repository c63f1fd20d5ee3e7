"""Retrieval from features: how queries rank a gallery by cosine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import distinct_rows
from perturbations.retrieval.matrices import Scores2D, as_array
from perturbations.retrieval.metrics import Relevant, ranks

_BLOCK = 256  # queries whose scores are held at once

_Floats = NDArray[np.float32]


def score(queries: Scores2D, gallery: Scores2D, relevant: Relevant) -> NDArray[np.int64]:
    """The rank of each query's best target by cosine similarity, 1 first, int64 (queries,).

    Args:
        queries: features, queries x D, of any length; array, tensor or nested lists.
        gallery: features, items x D.
        relevant: each query's targets, positions in the gallery, as `ranks` takes them; `range(n)` where query i's
            target is item i.

    Scores are float32, for 256 queries at a time: 10,000 x 10,000 take 10 MB. Items with equal features tie, and ties
    are broken against the model.
    Raises ValueError for NaN, rows of zeros, shapes that do not fit, and targets as `ranks` refuses them.
    """
    blocks = cosines(queries, gallery)
    targets: Any = relevant if isinstance(relevant, list | tuple | range) else as_array(relevant)
    if len(targets) != (count := len(as_array(queries))):
        raise ValueError(f"relevant has the targets of {len(targets)} queries; there are {count}")
    return np.concatenate([ranks(block, targets[part]) for part, block in blocks])


def cosines(queries: Scores2D, gallery: Scores2D) -> Iterator[tuple[slice, _Floats]]:
    """The cosine similarities of each 256 queries with all items, float32, and which queries these are.

    Items with equal features have equal scores, to the last bit. Arguments and errors as in `score`.
    """
    rows, items = _unit_rows(queries, "the queries"), _unit_rows(gallery, "the gallery")
    if rows.shape[1] != items.shape[1]:
        raise ValueError(f"the queries have {rows.shape[1]} numbers each, the gallery's items {items.shape[1]}")
    return products(rows, items)


def products(rows: _Floats, items: _Floats) -> Iterator[tuple[slice, _Floats]]:
    """The products of each 256 rows with all items, and which rows these are; equal items have equal products."""
    firsts, places = distinct_rows(items)
    distinct = items[firsts].T
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        block = rows[part] @ distinct
        yield part, block if len(firsts) == len(places) else block[:, places]


def feature_rows(values: Scores2D, name: str) -> _Floats:
    """Features as float32, rows x D. Raises ValueError for other than finite numbers, one row each."""
    given = as_array(values)
    if given.ndim != 2 or not given.size or given.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be numbers, one row each, not {given.dtype} {given.shape}")
    with np.errstate(over="ignore"):
        rows = np.asarray(given, np.float32)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise ValueError(f"row {int(np.argmin(finite))} of {name} holds NaN or infinity, or numbers beyond float32")
    return rows


def unit(rows: _Floats) -> _Floats:
    """Rows brought to unit length; those of zeros stay.

    Rows are first divided by a power of two, which is exact: the squares of 1e30 and of 1e-30 leave float32.
    """
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = np.ldexp(rows, -np.frexp(largest)[1])
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(length == 0, np.float32(1), length), np.float32)


def _unit_rows(values: Scores2D, name: str) -> _Floats:
    """Features brought to unit length, float32. Raises ValueError as `feature_rows`, and for a row of zeros."""
    rows = feature_rows(values, name)
    some = rows.any(axis=1)
    if not some.all():
        raise ValueError(f"row {int(np.argmin(some))} of {name} is all zeros, which has no direction")
    return unit(rows)
