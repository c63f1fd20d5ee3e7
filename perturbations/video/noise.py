"""Additive and salt-and-pepper noise."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Apply = Callable[[Image, int], Image]


def draw_normal(rng: np.random.Generator, num_frames: int, height: int, width: int) -> NDArray[np.float64]:
    """Unit normal noise, height x width x 3, one for the whole clip."""
    return rng.standard_normal((height, width, 3))


def gaussian_noise(noise: NDArray[np.float64], num_frames: int, height: int, width: int, *, sigma: float) -> Apply:
    """`clip(x + sigma * noise)` for x in [0, 1], truncated to uint8 (MLVP App. E; ImageNet-C).

    A frame's value f is whole, so floor(f + 255 n) = f + floor(255 n): two saturating additions are exact.
    """
    step = np.floor(255 * sigma * noise)
    brighter = np.clip(step, 0, 255).astype(np.uint8)
    darker = np.clip(-step, 0, 255).astype(np.uint8)

    def apply(frame: Image, index: int) -> Image:
        lifted = cv2.add(frame, brighter)
        return cv2.subtract(lifted, darker, dst=lifted)  # type: ignore[return-value]

    return apply


def draw_mask(rng: np.random.Generator, num_frames: int, height: int, width: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), height x width, one mask for all channels and frames."""
    return rng.random((height, width))


def impulse_noise(mask: NDArray[np.float64], num_frames: int, height: int, width: int, *, amount: float) -> Apply:
    """Salt and pepper: mask below amount/2 gives 0, at or above 1 - amount/2 gives 255 (MLVP App. E).

    The masks of two severities are nested: the mask is drawn once.
    """
    pepper, salt = mask < amount / 2, mask >= 1 - amount / 2
    kept = _three_channels(np.where(pepper, 0, 255))
    raised = _three_channels(np.where(salt, 255, 0))

    def apply(frame: Image, index: int) -> Image:
        cleared = cv2.bitwise_and(frame, kept)
        return cv2.bitwise_or(cleared, raised, dst=cleared)  # type: ignore[return-value]

    return apply


def _three_channels(plane: NDArray[np.int_]) -> Image:
    return np.repeat(plane.astype(np.uint8)[:, :, None], 3, axis=2)
