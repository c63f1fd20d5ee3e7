"""Another picture's texture."""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Picture = NDArray[np.float32]
Apply = Callable[[Image, int], Image]

_STYLE_SIDE = 256
_STROKES = 900


def draw_painting(rng: np.random.Generator, num_frames: int, height: int, width: int) -> Image:
    """A style picture, uint8 256 x 256 x 3: brush strokes of a few colours that follow a swirling field."""
    palette = rng.integers(0, 256, (6, 3))
    canvas = np.full((_STYLE_SIDE, _STYLE_SIDE, 3), palette[0], np.uint8)
    field = cv2.resize(rng.random((4, 4)), (_STYLE_SIDE, _STYLE_SIDE), interpolation=cv2.INTER_CUBIC)
    places = rng.integers(0, _STYLE_SIDE, (_STROKES, 2)).tolist()
    colours = np.clip(palette[rng.integers(0, 6, _STROKES)] + rng.integers(-25, 26, (_STROKES, 3)), 0, 255).tolist()
    for (x, y), colour, size in zip(places, colours, rng.random(_STROKES).tolist(), strict=True):
        angle, length = 2 * math.pi * float(field[y, x]), 8 + 22 * size
        end = round(x + length * math.cos(angle)), round(y + length * math.sin(angle))
        cv2.line(canvas, (x, y), end, colour, 2 + round(4 * size), cv2.LINE_AA)
    return canvas


def filter_bank_adain(style: Image, num_frames: int, height: int, width: int, *, alpha: float) -> Apply:
    """AdaIN without learned weights: each band's mean and deviation become the style's (MM-Robustness, Sec. 2).

    The bands are a Laplacian pyramid's, which adds up to the frame again: `alpha * AdaIN + (1 - alpha) * content`, as
    for the features of a network (Huang & Belongie 2017, eq. 8 and 14). Not comparable with published numbers, which
    come from VGG features and a trained decoder. Rounded to uint8.
    """
    depth = max(1, min(5, (min(height, width) - 1).bit_length() - 1))
    targets = [_statistics(band) for band in _bands(np.asarray(style, np.float32), depth)]

    def apply(frame: Image, index: int) -> Image:
        restyled: Picture | None = None
        pairs = zip(_bands(frame.astype(np.float32), depth), targets, strict=True)
        for band, (mean, deviation) in reversed(list(pairs)):
            own_mean, own_deviation = _statistics(band)
            gain = 1 - alpha + alpha * deviation / np.maximum(own_deviation, 1.0)
            shift = own_mean * (1 - alpha) + alpha * mean - gain * own_mean
            # One linear map of a band; the channels stay apart.
            cv2.transform(band, np.column_stack([np.diag(gain), shift]), dst=band)
            restyled = band if restyled is None else band + _enlarged(restyled, band)
        assert restyled is not None
        return np.clip(np.rint(restyled), 0, 255).astype(np.uint8)

    return apply


def _bands(picture: Picture, depth: int) -> list[Picture]:
    """The Laplacian pyramid, finest first, and what is left; float32 height x width x 3 each."""
    bands = []
    for _ in range(depth):
        smaller = np.asarray(cv2.pyrDown(picture), np.float32).reshape(*_halved(picture), 3)
        bands.append(picture - _enlarged(smaller, picture))
        picture = smaller
    return [*bands, picture]


def _halved(picture: Picture) -> tuple[int, int]:
    return (picture.shape[0] + 1) // 2, (picture.shape[1] + 1) // 2


def _enlarged(picture: Picture, like: Picture) -> Picture:
    if min(like.shape[:2]) == 1:
        return np.asarray(cv2.resize(picture, (like.shape[1], like.shape[0])), np.float32).reshape(like.shape)
    return np.asarray(cv2.pyrUp(picture, dstsize=(like.shape[1], like.shape[0])), np.float32)


def _statistics(band: Picture) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Each channel's mean and standard deviation."""
    mean, deviation = cv2.meanStdDev(band)
    return np.asarray(mean, np.float64).ravel(), np.asarray(deviation, np.float64).ravel()
