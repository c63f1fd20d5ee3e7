"""Frames as CLIP needs them: the shorter side resized bicubically, the centre cropped, channels normalized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

Pixels = npt.NDArray[np.uint8]

MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
"""Of CLIP's training images, RGB in [0, 1]."""


def resized(
    frames: Pixels, size: int, *, crop: bool = True, resample: Literal["bicubic", "bilinear"] = "bicubic"
) -> Pixels:
    """Frames T x H x W x 3 as T x 3 x size x size, uint8; the default is CLIP's own transform.

    With `crop`, the shorter side is resized and the centre cropped; otherwise both sides are resized. Bytes are resized
    with antialiasing as Pillow does; levels may differ by one.
    """
    pixels = torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 3, 1, 2)
    if crop:
        return _fitted(pixels, size, resample).numpy()
    return _scaled(pixels, (size, size), resample).numpy()


def transformed(frames: Pixels, size: int) -> torch.Tensor:
    """Frames T x H x W x 3 as X-Pool and vtr_tta transform them: float32 T x 3 x size x size, normalized.

    As `resized` and `normalize`, but floats are resized, not bytes, so that no value is rounded or clipped.
    """
    numbers = torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 3, 1, 2).float() / 255
    return _normalized(_fitted(numbers, size).clone())


def normalize(pixels: torch.Tensor, mean: Sequence[float] = MEAN, std: Sequence[float] = STD) -> torch.Tensor:
    """uint8 ... x 3 x S x S as float32: each channel minus its mean (CLIP's), divided by its standard deviation."""
    return _normalized(pixels.float().div_(255), mean, std)


def _scaled(pixels: torch.Tensor, sides: tuple[int, int], resample: str) -> torch.Tensor:
    if sides == tuple(pixels.shape[2:]):
        return pixels
    return functional.interpolate(pixels, size=sides, mode=resample, antialias=True, align_corners=False)


def _fitted(pixels: torch.Tensor, size: int, resample: str = "bicubic") -> torch.Tensor:
    height, width = pixels.shape[2:]
    scale = size / min(height, width)
    # As in torchvision, the longer side is truncated.
    sides = (max(size, int(height * scale + 1e-6)), max(size, int(width * scale + 1e-6)))
    pixels = _scaled(pixels, sides, resample)
    top, left = (round((side - size) / 2) for side in sides)
    return pixels[:, :, top : top + size, left : left + size]


def _normalized(numbers: torch.Tensor, mean: Sequence[float] = MEAN, std: Sequence[float] = STD) -> torch.Tensor:
    less, by = (torch.tensor(values, device=numbers.device).view(3, 1, 1) for values in (mean, std))
    return numbers.sub_(less).div_(by)  # in place: filling new megabytes takes longer than the arithmetic
