"""Frames as CLIP needs them: the shorter side resized bicubically, the centre cropped, channels normalized."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

Pixels = npt.NDArray[np.uint8]

MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
"""Of CLIP's training images, RGB in [0, 1]."""


def resized(frames: Pixels, size: int) -> Pixels:
    """Frames T x H x W x 3 as T x 3 x size x size, uint8: antialiased bicubic, centre crop, as CLIP's own transform.

    Bytes are resized as Pillow does; levels may differ by one.
    """
    return _fitted(torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 3, 1, 2), size).numpy()


def transformed(frames: Pixels, size: int) -> torch.Tensor:
    """Frames T x H x W x 3 as X-Pool and vtr_tta transform them: float32 T x 3 x size x size, normalized.

    As `resized` and `normalized`, but floats are resized, not bytes, so that no value is rounded or clipped.
    """
    numbers = torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 3, 1, 2).float() / 255
    return _normalized(_fitted(numbers, size).clone())


def normalized(frames: Pixels) -> torch.Tensor:
    """uint8 ... x 3 x S x S as float32: each channel less CLIP's mean, divided by its standard deviation."""
    return _normalized(torch.from_numpy(np.ascontiguousarray(frames)).float().div_(255))


def _fitted(pixels: torch.Tensor, size: int) -> torch.Tensor:
    height, width = pixels.shape[2:]
    scale = size / min(height, width)
    # As in torchvision, the longer side is truncated.
    sides = (max(size, int(height * scale + 1e-6)), max(size, int(width * scale + 1e-6)))
    if sides != (height, width):
        pixels = functional.interpolate(pixels, size=sides, mode="bicubic", antialias=True, align_corners=False)
    top, left = (round((side - size) / 2) for side in sides)
    return pixels[:, :, top : top + size, left : left + size]


def _normalized(numbers: torch.Tensor) -> torch.Tensor:
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    return numbers.sub_(mean).div_(std)  # in place: filling new megabytes takes longer than the arithmetic
