"""The types of arrays, the uniform sampling of frames, and equal rows, once for all rooms."""

from __future__ import annotations

import hashlib
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


def distinct_rows(rows: NDArray[np.generic]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of the first of equal rows, and of each row its place among these; both in the rows' order, int64.

    Rows are equal where their bytes are. A product of matrices rounds equal rows differently in different blocks, so
    that only scores of distinct rows, computed once, tie where features are equal.
    """
    seen: dict[bytes, int] = {}
    hashes = (hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows)
    places = np.array([seen.setdefault(row, len(seen)) for row in hashes], np.int64)
    return np.unique(places, return_index=True)[1].astype(np.int64), places
