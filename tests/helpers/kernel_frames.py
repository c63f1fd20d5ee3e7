"""Frames of kernels in another rendition."""

from __future__ import annotations

import numpy as np
from kernel_scenes import (
    scene,
)


def frames_of(size: tuple[int, int]) -> np.ndarray:
    """Three pictures, noise among them, a black one and a white one."""
    noisy = np.random.default_rng(1).integers(0, 256, (1, *size, 3), dtype=np.uint8)
    plain = [np.full((1, *size, 3), level, np.uint8) for level in (0, 255)]
    return np.concatenate([scene(2, *size), noisy, *plain])
