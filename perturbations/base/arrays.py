"""The types of arrays, and the uniform sampling of frames, once for all rooms."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
"""RGB, H x W x 3; several are T x H x W x 3."""

SAMPLED = 12
"""The frames per clip that MLVP's models read."""


def uniform_indices(num_frames: int, total: int) -> list[int]:
    """The positions of `num_frames` of `total` frames: the middle of each of `num_frames` equal spans.

    The sampling of X-Pool and MLVP; a clip with fewer frames gives all of them and repeats the last one.
    Raises `ValueError` when `num_frames` or `total` is below 1.
    """
    if num_frames < 1:
        raise ValueError(f"a sample has at least one frame, not {num_frames}")
    if total < 1:
        raise ValueError(f"a clip has at least one frame, not {total}")
    spans = min(num_frames, total)
    edges = np.linspace(0, total, spans + 1).astype(int).tolist()
    middles = [(start + end - 1) // 2 for start, end in pairwise(edges)]
    return middles + [middles[-1]] * (num_frames - spans)
