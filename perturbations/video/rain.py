"""Rain that falls through the clip."""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.base.kernel import Apply

_MOST_DROPS = 0.01
"""Per pixel: as many are drawn."""
_GREY = 220
_SKY = 0.5  # above the frame, in heights: drops enter from there


class _Rain(NamedTuple):
    """One clip's drops, the first ones first.

    Attributes:
        places: N x 2, (x, y) of the upper ends in the first frame, x in [0, 1) of the width, y in [-0.5, 1) of the
            height.
        speeds: N, heights per frame.
        slant: how far a drop moves sideways while it falls as far as 1.
    """

    places: NDArray[np.float64]
    speeds: NDArray[np.float64]
    slant: float


def draw_rain(rng: np.random.Generator, num_frames: int, height: int, width: int) -> _Rain:
    """The drops that all severities share; the slant is uniform in [-0.2, 0.2), speeds in [0.1, 0.2)."""
    count = math.ceil(_MOST_DROPS * height * width)
    places = rng.random((count, 2))
    places[:, 1] = places[:, 1] * (1 + _SKY) - _SKY
    return _Rain(places, rng.random(count) * 0.1 + 0.1, float(rng.random() * 0.4 - 0.2))


def rain(
    drawn: _Rain, num_frames: int, height: int, width: int, *, density: float, length: float, contrast: float
) -> Apply:
    """Grey streaks over a blurred, darker picture (after Mini Kinetics-C).

    `density`: drops per pixel, at least one. `length`: of a streak, in heights. `contrast`: the share that is left of
    each pixel's distance from the frame's mean. The brighter the frame, the less a streak hides. Drops fall;
    Mini Kinetics-C draws other ones in every frame. Truncated to uint8.
    """
    count = min(len(drawn.places), max(1, round(density * height * width)))
    places, speeds = drawn.places[:count], drawn.speeds[:count]
    streak = np.array([drawn.slant * length * height, length * height])
    thick = max(1, round(min(height, width) / 224))
    # All streaks have one grey, so each step is a table of a level, or concerns the pixels of streaks alone.
    share = np.float32(_GREY) / np.float32(255)
    levels = np.arange(256, dtype=np.float32)

    def apply(frame: Image, index: int) -> Image:
        fallen = index * speeds
        across = (places[:, 0] + drawn.slant * fallen * height / width) % 1 * width
        down = ((places[:, 1] + _SKY + fallen) % (1 + _SKY) - _SKY) * height
        tops = np.stack([across, down], axis=1)
        lines = np.rint(np.stack([tops, tops + streak], axis=1)).astype(np.int32)
        drops = np.zeros((height, width), np.uint8)
        cv2.polylines(drops, list(lines), isClosed=False, color=_GREY, thickness=thick)
        mean = (np.array(cv2.sumElems(frame)[:3]) / (height * width)).astype(np.float32)
        lit = levels + share * (255 - levels) * (1 - float(mean.mean()) / 255)
        light = cv2.copyTo(cv2.LUT(frame, lit), drops, frame.astype(np.float32))
        hit = np.nonzero(drops)
        blurred, picture = cv2.blur(light, (3, 3)).reshape(light.shape)[hit], levels[frame[hit]]
        dark = _clipped((levels[:, None] - mean) * np.float32(contrast) + mean)
        output = cv2.LUT(frame, dark[:, None, :])
        wet = picture + share * (blurred - picture)
        output[hit] = _clipped((wet - mean) * np.float32(contrast) + mean)
        return np.asarray(output, np.uint8)

    return apply


def _clipped(values: NDArray[np.float32]) -> Image:
    return np.asarray(np.clip(values, 0, 255), np.uint8)
