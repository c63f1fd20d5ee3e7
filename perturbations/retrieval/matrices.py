"""Similarities as NumPy arrays, whichever library computed them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 22  # scores per comparison: temporaries stay small however large the matrix is

Numbers = NDArray[np.number | np.bool_]


Scores2D: TypeAlias = Any
"""Numbers, in an array, a tensor of torch (which need not be installed) or nested lists."""


def as_array(values: Scores2D) -> Numbers:
    """`values` as a NumPy array: arrays as they are, tensors brought to this process's memory and off the graph."""
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()
        # NumPy has no bfloat16; float32 holds all of it.
        values = (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()
    return np.asarray(values)


def as_scores(similarities: Scores2D) -> Numbers:
    """A queries x gallery matrix of real scores; raises ValueError for anything else or an empty one."""
    scores = as_array(similarities)
    if scores.ndim != 2 or not scores.size:
        raise ValueError(f"similarities have shape {scores.shape}; expected queries x gallery, neither of them 0")
    if scores.dtype.kind not in "fiub":
        raise ValueError(f"similarities are of type {scores.dtype}; expected real numbers")
    return scores


def blocks(scores: Numbers) -> Iterator[tuple[slice, Numbers]]:
    """Blocks of rows of `scores`, with NaN replaced by minus infinity: NaN is the worst score."""
    step = max(1, _BLOCK // scores.shape[1])
    for start in range(0, len(scores), step):
        rows = slice(start, start + step)
        block = scores[rows]
        yield rows, np.where(np.isnan(block), -np.inf, block) if block.dtype.kind == "f" else block
