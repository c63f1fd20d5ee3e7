"""Noise that stands still: one pattern for every frame of a clip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Apply = Callable[[Image, int], Image]


def draw_normal(rng: np.random.Generator, num_frames: int, height: int, width: int) -> NDArray[np.float32]:
    """Unit normal noise, height x width x 3."""
    return rng.standard_normal((height, width, 3), dtype=np.float32)


def gaussian_noise(noise: NDArray[np.floating], num_frames: int, height: int, width: int, *, sigma: float) -> Apply:
    """Additive noise: `clip(x + sigma * noise, 0, 1)`, x = frame / 255 (MLVP, Tab. 37, App. E.1).

    Truncated to uint8, and equal to the last bit: a frame's values f are whole numbers, so
    `floor(f + 255 n) = f + floor(255 n)`, which is one saturating addition and one saturating subtraction.
    """
    levels = np.multiply(noise, 255 * sigma, dtype=np.float64)
    np.floor(levels, out=levels)
    brighter = _saturated(levels)
    darker = _saturated(np.negative(levels, out=levels))

    def apply(frame: Image, index: int) -> Image:
        output = np.empty(frame.shape, np.uint8)
        cv2.add(frame, brighter, dst=output)
        cv2.subtract(output, darker, dst=output)
        return output

    return apply


def draw_uniform(rng: np.random.Generator, num_frames: int, height: int, width: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), height x width: all channels of a pixel share one."""
    return rng.random((height, width))


def impulse_noise(uniform: NDArray[np.float64], num_frames: int, height: int, width: int, *, amount: float) -> Apply:
    """Salt and pepper: below amount / 2 a pixel turns 0, from 1 - amount / 2 on it turns 255 (MLVP, Tab. 37, App. E.1).

    The pixels that one amount hits are among those that a larger one hits.
    """
    kept = _three_channels(uniform >= amount / 2)
    salt = _three_channels(uniform >= 1 - amount / 2)

    def apply(frame: Image, index: int) -> Image:
        output = np.empty(frame.shape, np.uint8)
        cv2.bitwise_and(frame, kept, dst=output)
        cv2.bitwise_or(output, salt, dst=output)
        return output

    return apply


def _saturated(levels: NDArray[np.float64]) -> Image:
    output = np.empty(levels.shape, np.uint8)
    np.clip(levels, 0, 255, out=output, casting="unsafe")
    return output


def _three_channels(mask: NDArray[Any]) -> Image:
    """255 where the height x width mask is true, 0 elsewhere, in each of three channels."""
    return np.repeat(mask[:, :, None] * np.uint8(255), 3, axis=2)
