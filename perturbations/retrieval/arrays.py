"""Similarities as NumPy arrays, whoever made them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 22  # scores that are compared at a time: temporaries stay small however large the matrix is


def as_array(values: Any) -> NDArray[Any]:
    """`values` as a NumPy array: arrays as they are, tensors brought to this process's memory and off the graph."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if "bfloat16" in str(values.dtype):  # NumPy has no such type; float32 holds all of it
            values = values.float()
        values = values.numpy()
    return np.asarray(values)


def as_scores(similarities: Any) -> NDArray[Any]:
    """A queries x gallery matrix of real scores; raises ValueError for anything else or an empty one."""
    scores = as_array(similarities)
    if scores.ndim != 2 or not scores.size:
        raise ValueError(f"similarities have shape {scores.shape}; expected queries x gallery, neither of them 0")
    if scores.dtype.kind not in "fiub":
        raise ValueError(f"similarities are of type {scores.dtype}; expected real numbers")
    return scores


def blocks(scores: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Rows of `scores`, some at a time, with NaN replaced by minus infinity: a score that is none is the worst."""
    step = max(1, _BLOCK // scores.shape[1])
    for start in range(0, len(scores), step):
        rows = slice(start, start + step)
        block = scores[rows]
        yield rows, np.where(np.isnan(block), -np.inf, block) if block.dtype.kind == "f" else block
