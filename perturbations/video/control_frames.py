"""Kernels that remove what a question could be answered from: all pixels, motion, order, or the clip itself."""

from __future__ import annotations

import numpy as np

from perturbations.base.arrays import Image
from perturbations.base.kernel import Apply
from perturbations.video.temporal import FrameOrder


def blank(_: None, num_frames: int, height: int, width: int, *, grey: int) -> Apply:
    """Every frame is grey."""

    def apply(frame: Image, index: int) -> Image:
        return np.full(frame.shape, grey, np.uint8)

    return apply


def first_frame(_: None, num_frames: int) -> FrameOrder:
    """The first frame is shown all the time."""
    return np.zeros(num_frames, np.int64)


def draw_order(rng: np.random.Generator, num_frames: int, height: int, width: int) -> int:
    """The seed of a random order: kernels receive this number, not the order itself."""
    return int(rng.integers(2**32))


def shuffled(seed: int, num_frames: int) -> FrameOrder:
    """All frames in a random order, whose seed is drawn."""
    return np.random.default_rng(seed).permutation(num_frames).astype(np.int64)


def other_video(offset: float, donor: tuple[int, float], num_frames: int) -> FrameOrder:
    """Another clip, from a random frame on; where it ends, it begins again.

    Args:
        offset: where the other clip starts, in [0, 1).
        donor: how many frames the other clip has, and the clip's frame rate.
        num_frames: of the clip.
    """
    first = int(offset * max(1, donor[0] - num_frames + 1))
    return ~((np.arange(num_frames, dtype=np.int64) + first) % donor[0])
