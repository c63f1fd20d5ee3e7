"""Plans in time: which frame of the clip stands at each position. No pixels.

A plan is an int64 array of `num_frames` numbers of frames, from 0 on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Plan = NDArray[np.int64]


def draw_order(rng: np.random.Generator, num_frames: int, height: int, width: int) -> NDArray[np.float64]:
    """One uniform number in [0, 1) a frame: what is shuffled goes by their order."""
    return rng.random(num_frames)


def jumble(order: NDArray[np.float64], num_frames: int, height: int, width: int, *, length: int) -> Plan:
    """Frames shuffled inside each segment of `length` frames; the last may be shorter (MSRVTT-P, App. A.1)."""
    segments = np.arange(num_frames) // length
    return np.lexsort((order, segments)).astype(np.int64, copy=False)


def box_jumble(order: NDArray[np.float64], num_frames: int, height: int, width: int, *, length: int) -> Plan:
    """Segments of `length` frames, the last may be shorter, in shuffled order (MSRVTT-P, App. A.1)."""
    segments = np.arange(num_frames) // length
    return np.lexsort((np.arange(num_frames), order[segments])).astype(np.int64, copy=False)


def sampling(drawn: None, num_frames: int, height: int, width: int, *, rate: int) -> Plan:
    """Every `rate`-th frame, held `rate` frames (MSRVTT-P, App. A.1)."""
    return np.arange(num_frames, dtype=np.int64) // rate * rate


def reverse_sampling(drawn: None, num_frames: int, height: int, width: int, *, rate: int) -> Plan:
    """`sampling`, backwards (MSRVTT-P, App. A.1)."""
    return sampling(None, num_frames, height, width, rate=rate)[::-1].copy()


def freeze(order: NDArray[np.float64], num_frames: int, height: int, width: int, *, kept: float) -> Plan:
    """The first frame and a random share `kept` of all, each held until the next (MSRVTT-P, App. A.1).

    What a smaller share keeps, a larger one keeps too.
    """
    shown = np.zeros(num_frames, np.int64)
    chosen = np.argsort(order, kind="stable")[: int(kept * num_frames)]
    shown[chosen] = chosen
    return np.maximum.accumulate(shown)
