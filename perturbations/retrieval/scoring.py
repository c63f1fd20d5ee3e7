"""Retrieval from features: how queries rank a gallery by cosine."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

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

    Scores are float32, for 256 queries at a time: 10,000 x 10,000 take 10 MB. Ties are broken against the model.
    Raises ValueError for NaN, rows of zeros, shapes that do not fit, and targets as `ranks` refuses them.
    """
    rows, items = _unit_rows(queries, "the queries"), _unit_rows(gallery, "the gallery")
    if rows.shape[1] != items.shape[1]:
        raise ValueError(f"the queries have {rows.shape[1]} numbers each, the gallery's items {items.shape[1]}")
    targets: Any = relevant if isinstance(relevant, list | tuple | range) else as_array(cast("Any", relevant))
    if len(targets) != len(rows):
        raise ValueError(f"relevant has the targets of {len(targets)} queries; there are {len(rows)}")
    result = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        result[part] = ranks(rows[part] @ items.T, targets[part])
    return result


def feature_rows(values: Scores2D, name: str) -> _Floats:
    """Features as float32, rows x D. Raises ValueError for other than finite numbers, one row each."""
    rows = as_array(values)
    if rows.ndim != 2 or not rows.size or rows.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be numbers, one row each, not {rows.dtype} {rows.shape}")
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise ValueError(f"row {int(np.argmin(finite))} of {name} holds NaN or infinity")
    return np.asarray(rows, np.float32)


def _unit_rows(values: Scores2D, name: str) -> _Floats:
    """Features brought to unit length, float32. Raises ValueError as `feature_rows`, and for a row of zeros."""
    rows = feature_rows(values, name)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    if not length.all():
        raise ValueError(f"row {int(np.argmin(length))} of {name} is all zeros, which has no direction")
    return np.asarray(rows / length, np.float32)
