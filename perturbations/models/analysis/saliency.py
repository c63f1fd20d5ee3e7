"""Finds the main object of a clip without a trained model: what moves against the camera, near the middle.

Each cell of a frame has a probability of belonging to the object: a prior for the middle, times what moves there. The
chosen box has the largest expected overlap with the object. An object whose motion fills its box moves as a whole
(`motion`). Otherwise only parts move, as with people: a constant is added to the motion, so that the box is a central
region, shifted towards the motion (`centre`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, cast

import cv2
import numpy as np
import numpy.typing as npt

from perturbations.base.arrays import Image

_Floats = npt.NDArray[np.float32]

_SIDE = 150  # pixels of the shorter side that the search works at
_SMALLEST = 16  # pixels; in smaller frames nothing moves
_STILL = 0.5  # pixels of motion that are noise
_EDGE = 20.0  # gradient, in grey levels per pixel times Sobel's 8, at which the flow counts half
_FAST = 0.6  # of the fastest part's motion: from here on, a place certainly moves

_COLUMNS, _ROWS = 32, 24  # cells of a map; boxes begin and end between cells
_SPREAD = 0.35, 0.4  # standard deviations of the prior, in widths and heights
_ALONE = 0.1  # the probability in the middle where nothing moves
_WHOLE = 0.72  # of a box: motion that fills more of it is an object by itself


class Sighting(NamedTuple):
    """The main object in one frame: x0, y0, x1, y1 in pixels, the expected overlap, and the evidence for the box."""

    box: tuple[float, float, float, float]
    overlap: float
    source: Literal["motion", "centre"]


def neighbourhood(positions: Collection[int], num_frames: int) -> set[int]:
    """The frames that are needed to find the objects at `positions`: each of them, the one before and the one after."""
    return {at + step for at in positions for step in (-1, 0, 1) if 0 <= at + step < num_frames}


def shrunk(frame: Image) -> Image:
    """A frame, RGB uint8 H x W x 3, at the size that the search works at."""
    scale = _SIDE / min(frame.shape[:2])
    if scale >= 1:
        return frame.copy()
    size = max(1, round(frame.shape[1] * scale)), max(1, round(frame.shape[0] * scale))
    return np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA), np.uint8)


def sighting(frames: Mapping[int, Image], position: int, size: tuple[int, int]) -> Sighting:
    """The main object in the frame at `position`.

    Args:
        frames: shrunk frames by position; all of `neighbourhood([position], ...)` that exist.
        position: of the analysed frame.
        size: (height, width) of the clip.
    """
    moves = _moves(frames, position)
    (x0, y0, x1, y1), _ = _best(_prior() * moves)
    whole = float(moves[y0:y1, x0:x1].mean()) >= _WHOLE
    (x0, y0, x1, y1), overlap = _best(_prior() * (moves if whole else np.minimum(moves + _ALONE, 1)))
    width, height = size[1] / _COLUMNS, size[0] / _ROWS
    return Sighting((x0 * width, y0 * height, x1 * width, y1 * height), overlap, "motion" if whole else "centre")


def _moves(frames: Mapping[int, Image], position: int) -> _Floats:
    """How much each cell moves against the camera, 0 to 1.

    There are two speeds, from the frame before and to the frame after. The smaller counts, because background that is
    covered or uncovered seems to move in one of the two.
    """
    frame = frames[position]
    near = [frames[at] for at in (position - 1, position + 1) if at in frames]
    near = [other for other in near if other.shape == frame.shape]
    if not near or min(frame.shape[:2]) < _SMALLEST:
        return np.zeros((_ROWS, _COLUMNS), np.float32)
    grey, *others = (np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8) for image in (frame, *near))
    speed = np.minimum.reduce([_against_camera(grey, other) for other in others]) * _texture(grey)
    moves = np.clip(speed / max(_FAST * float(np.percentile(speed, 98)), _STILL), 0, 1)
    return np.asarray(cv2.resize(moves, (_COLUMNS, _ROWS), interpolation=cv2.INTER_AREA), np.float32)


def _texture(grey: Image) -> _Floats:
    """How reliable the flow is, 0 to 1: on a bare wall it comes only from the edges around it."""
    across, down = (cv2.Sobel(grey, cv2.CV_32F, *order, ksize=3) for order in ((1, 0), (0, 1)))
    strength = cv2.GaussianBlur(cv2.magnitude(across, down), (0, 0), 3)
    return np.asarray(strength / (strength + _EDGE), np.float32)


def _against_camera(grey: Image, near: Image) -> _Floats:
    """Speed in pixels, minus the flow that a moving, turning or zooming camera would cause."""
    flow = np.asarray(cv2.calcOpticalFlowFarneback(grey, near, cast(Image, None), 0.5, 4, 13, 3, 5, 1.1, 0), np.float32)
    height, width = grey.shape
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    places = np.stack([x, y], axis=2)
    step = max(1, min(height, width) // 24)
    some = (slice(step // 2, None, step),) * 2
    start = places[some].reshape(-1, 2)
    model, _ = cv2.estimateAffinePartial2D(
        start,
        start + flow[some].reshape(-1, 2),
        method=cv2.RANSAC,
        ransacReprojThreshold=1.0,
        maxIters=500,
        confidence=0.999,
    )
    if model is not None:
        flow -= places @ model[:, :2].T.astype(np.float32) + model[:, 2].astype(np.float32) - places
    return np.asarray(np.linalg.norm(flow, axis=2), np.float32)


@cache
def _prior() -> _Floats:
    """How likely each cell belongs to the main object, before anything is seen, as a part of the middle's."""
    y, x = np.mgrid[0:_ROWS, 0:_COLUMNS]
    across, down = ((x + 0.5) / _COLUMNS - 0.5) / _SPREAD[0], ((y + 0.5) / _ROWS - 0.5) / _SPREAD[1]
    return np.asarray(np.exp(-(across**2 + down**2) / 2), np.float32)


@cache
def _boxes() -> tuple[npt.NDArray[Any], ...]:
    """Every box between cells: its first column and row, the last ones (excluded), and its area in frames."""
    (x0, x1), (y0, y1) = (np.triu_indices(count + 1, 1) for count in (_COLUMNS, _ROWS))
    return x0, y0, x1, y1, np.outer(x1 - x0, y1 - y0) / (_COLUMNS * _ROWS)


def _best(probability: _Floats) -> tuple[tuple[int, int, int, int], float]:
    """The box with the largest expected overlap with the object, and this overlap: about the mean IoU."""
    x0, y0, x1, y1, area = _boxes()
    sums = np.pad(probability.astype(np.float64).cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0))) / probability.size
    # All pairs of columns by all pairs of rows; whole rows of a table are gathered, which is faster than single sums.
    low, high = (np.ascontiguousarray(sums[end].T) for end in (y0, y1))
    within = (high - low)[x1] - high[x0] + low[x0]
    overlaps = within / (area + sums[-1, -1] - within)
    x, y = np.unravel_index(overlaps.argmax(), overlaps.shape)
    corners = (int(x0[x]), int(y0[y]), int(x1[x]), int(y1[y]))
    return corners, float(np.clip(overlaps[x, y], 0, 1))
