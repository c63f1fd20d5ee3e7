"""Black rectangles over objects. Frames are RGB uint8, H x W x 3."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perturbations.base.arrays import SAMPLED, Image, uniform_indices
from perturbations.base.bounds import SHARE
from perturbations.base.kernel import Apply, Kernel

_MOST_MOVED = 5
"""Pixels: the largest step of a rectangle in a frame without a box."""


class OcclusionPlaces(NamedTuple):
    """The places of a clip's rectangles, all values uniform in [0, 1).

    Attributes:
        by_frame: across and down, num_frames x 2.
        size: width and height of the rectangle before the first box.
    """

    by_frame: npt.NDArray[np.float64]
    size: npt.NDArray[np.float64]


def draw_places(rng: np.random.Generator, num_frames: int, height: int, width: int) -> OcclusionPlaces:
    """The places that all severities share."""
    return OcclusionPlaces(rng.random((num_frames, 2)), rng.random(2))


def main_object_occlusion(
    drawn: OcclusionPlaces, boxes: npt.NDArray[np.floating], num_frames: int, height: int, width: int, *, ratio: float
) -> Apply:
    """Cover a part of the main object with a black rectangle (MLVP, Alg. 3).

    The rectangle's sides are the box's times sqrt(ratio); its place inside the box is random. In a frame without a box
    the last rectangle moves by at most 5 pixels; before the first box it is a centred one of W/8 to W/4 by H/8 to H/4.
    `boxes` are num_frames x 4, (x0, y0, x1, y1) in pixels; NaN in a frame without a box.
    """
    return _black(_rectangles(drawn, boxes, height, width, ratio**0.5))


def occlusion_released(
    drawn: OcclusionPlaces, boxes: npt.NDArray[np.floating], num_frames: int, height: int, width: int, *, ratio: float
) -> Apply:
    """`main_object_occlusion` as MLVP's code does it: what leaves the frame is cut off.

    A box is cut to the frame first, and one that has no area then covers nothing. In a frame without a box the last
    rectangle, as it was cut off, moves: at a border it shrinks, and it never grows again. The code perturbs 12 sampled
    frames, so the rectangle moves in these and rests between them. Ranges exclude their ends: the rectangle's corner
    lies in [x0, x1 - width), the sides before the first box in [W/8, W/4).
    """
    return _black(_cut_rectangles(drawn, boxes, height, width, ratio**0.5))


def _black(corners: npt.NDArray[np.int64]) -> Apply:
    def apply(frame: Image, index: int) -> Image:
        x0, y0, x1, y1 = corners[index]
        covered = np.ascontiguousarray(frame).copy()
        covered[y0:y1, x0:x1] = 0
        return covered

    return apply


def _rectangles(
    drawn: OcclusionPlaces, boxes: npt.NDArray[np.floating], height: int, width: int, scale: float
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


def _cut_rectangles(
    drawn: OcclusionPlaces, boxes: npt.NDArray[np.floating], height: int, width: int, scale: float
) -> npt.NDArray[np.int64]:
    """Each frame's rectangle (x0, y0, x1, y1), the ends excluded; zeros where nothing is covered."""
    frame_size = np.array([width, height])
    last: npt.NDArray[np.int64] | None = None  # 2 x 2: both corners, both drawn
    steps = set(uniform_indices(SAMPLED, len(boxes))[1:])
    rectangles = np.zeros((len(boxes), 4), np.int64)
    for index, (box, place) in enumerate(zip(boxes, drawn.by_frame, strict=True)):
        if not np.isnan(box).any():
            low, high = np.clip(box.astype(np.int64).reshape(2, 2), 0, frame_size)
            if (high <= low).any():
                continue
            size = ((high - low) * scale).astype(np.int64)
            corner = _below(low, high - size, place)
            last = np.stack([corner, corner + size])
        elif last is None:
            size = _below(frame_size // 8, frame_size // 4, drawn.size)
            corner = (frame_size - size) // 2
            last = np.stack([corner, corner + size])
        elif index in steps:
            last = last + _between(-_MOST_MOVED, _MOST_MOVED, place)
        last = np.clip(last, 0, frame_size)
        rectangles[index] = (*last[0], *np.minimum(last[1] + 1, frame_size))
    return rectangles


def _below(
    low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], uniform: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Whole numbers from `low` to `high`, which is excluded unless there is no other."""
    return _between(low, np.maximum(low, high - 1), uniform)


def _between(
    low: npt.NDArray[np.int64] | int, high: npt.NDArray[np.int64] | int, uniform: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Whole numbers from `low` to `high`, both included."""
    drawn: npt.NDArray[np.int64] = low + np.floor(uniform * (np.asarray(high) - low + 1)).astype(int)
    return drawn


# --- declarations ----------------------------------------------------------------------------------------------------

MAIN_OBJECT_OCCLUSION = Kernel(
    kernel=main_object_occlusion, realization=draw_places, guide="main_object", bounds={"ratio": SHARE}
)
MAIN_OBJECT_OCCLUSION_RELEASED = replace(MAIN_OBJECT_OCCLUSION, kernel=occlusion_released, version=2)
