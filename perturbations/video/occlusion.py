"""Black rectangles over objects. Frames are RGB uint8, H x W x 3."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perturbations.arrays import Image
from perturbations.video.kernel import Apply

_MOST_MOVED = 5
"""Pixels: the largest step of a rectangle in a frame without a box."""


class Places(NamedTuple):
    """The places of a clip's rectangles, all values uniform in [0, 1).

    Attributes:
        by_frame: across and down, num_frames x 2.
        size: width and height of the rectangle before the first box.
    """

    by_frame: npt.NDArray[np.float64]
    size: npt.NDArray[np.float64]


def draw_places(rng: np.random.Generator, num_frames: int, height: int, width: int) -> Places:
    """The places that all severities share."""
    return Places(rng.random((num_frames, 2)), rng.random(2))


def main_object_occlusion(
    drawn: Places, boxes: npt.NDArray[np.floating], num_frames: int, height: int, width: int, *, ratio: float
) -> Apply:
    """Cover a part of the main object with a black rectangle (MLVP, Alg. 3).

    The rectangle's sides are the box's times sqrt(ratio); its place inside the box is random. In a frame without a box
    the last rectangle moves by at most 5 pixels; before the first box it is a centred one of W/8 to W/4 by H/8 to H/4.

    Args:
        drawn: the clip's places.
        boxes: num_frames x 4, (x0, y0, x1, y1) in pixels; NaN in a frame without a box.
        num_frames: of the clip.
        height: of its frames.
        width: of its frames.
        ratio: the part of the box's area that is covered.
    """
    corners = _rectangles(drawn, boxes, height, width, ratio**0.5)

    def apply(frame: Image, index: int) -> Image:
        x0, y0, x1, y1 = corners[index]
        covered = np.ascontiguousarray(frame).copy()
        covered[y0:y1, x0:x1] = 0
        return covered

    return apply


def _rectangles(
    drawn: Places, boxes: npt.NDArray[np.floating], height: int, width: int, scale: float
) -> npt.NDArray[np.int64]:
    """Each frame's rectangle (x0, y0, x1, y1), the ends excluded; in order, because each may need the last one."""
    frame_size = np.array([width, height])
    size = corner = None
    rectangles = np.empty((len(boxes), 4), np.int64)
    for index, (box, place) in enumerate(zip(boxes, drawn.by_frame, strict=True)):
        if not np.isnan(box).any():
            low, high = box[:2].astype(int), box[2:].astype(int)
            size = ((high - low) * scale).astype(int)
            corner = low + (place * (high - low - size + 1)).astype(int)
        elif size is None or corner is None:
            size = _between(frame_size // 8, frame_size // 4, drawn.size)
            corner = (frame_size - size) // 2
        else:
            corner = corner + _between(-_MOST_MOVED, _MOST_MOVED, place)
        corner = np.clip(corner, 0, np.maximum(frame_size - 1 - size, 0))
        # The reference draws both corners' pixels, so a rectangle is one pixel wider and higher than its size.
        rectangles[index] = (*corner, *np.minimum(corner + size + 1, frame_size))
    return rectangles


def _between(
    low: npt.NDArray[np.int64] | int, high: npt.NDArray[np.int64] | int, uniform: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Whole numbers from `low` to `high`, both included."""
    drawn: npt.NDArray[np.int64] = low + np.floor(uniform * (np.asarray(high) - low + 1)).astype(int)
    return drawn
