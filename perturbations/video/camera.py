"""A camera that is tilted, turned or shaken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.base.bounds import Choice, Range, whole
from perturbations.base.kernel import Apply, Kernel, Shape, draw_unit


def static_rotate(drawn: None, num_frames: int, height: int, width: int, *, degrees: float) -> Apply:
    """Turn every frame counter-clockwise by one angle; its size stays, its corners get black (MSRVTT-P, App. A.1).

    The nearest pixel is taken, as in the reference's Pillow: equal but for 5 in 100,000 pixels of large frames.
    """
    view = _rotation_matrix(height, width, degrees)
    flags = cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP

    def apply(frame: Image, index: int) -> Image:
        output = np.empty(frame.shape, np.uint8)
        cv2.warpAffine(frame, view, (width, height), dst=output, flags=flags, borderMode=cv2.BORDER_CONSTANT)
        return output

    return apply


def rotate(unit: float, num_frames: int, height: int, width: int, *, most_degrees: int) -> Apply:
    """`static_rotate` by a whole angle, uniform from -most_degrees to most_degrees (MSRVTT-P, App. A.1).

    `unit` in [0, 1) chooses it; drawn for every frame.
    """
    degrees = math.floor(unit * (2 * most_degrees + 1)) - most_degrees
    return static_rotate(None, num_frames, height, width, degrees=float(degrees))


_TIES_UP = 1e-5
"""Where two pixels are equally near, Pillow takes the second."""


def _rotation_matrix(height: int, width: int, degrees: float) -> NDArray[np.float64]:
    """The 2 x 3 matrix from the turned frame's pixels (x, y) to those of the frame.

    The frame turns about its centre, (width, height) / 2; pixels' centres lie at halves. The matrix is in steps of
    1/65,536, as Pillow computes it.
    """
    # Rounded, so that right angles are exact.
    cos, sin = round(math.cos(math.radians(degrees)), 15), round(-math.sin(math.radians(degrees)), 15)
    turn = np.array([[cos, sin], [-sin, cos]])
    centre = np.array([width / 2, height / 2])
    shift = centre - turn @ centre + turn.sum(axis=1) / 2
    fixed = np.floor(np.column_stack([turn, shift]) * 65536 + 0.5) / 65536
    fixed[:, 2] += _TIES_UP - 0.5
    return fixed


def draw_origin(rng: np.random.Generator, num_frames: int, height: int, width: int) -> tuple[float, float]:
    """(x, y), each uniform in [0, 1)."""
    return float(rng.random()), float(rng.random())


def translate(origin: tuple[float, float], num_frames: int, height: int, width: int, *, reach: int) -> Apply:
    """A window of 7/8 of the frame, at a random place, enlarged to the frame's size (MSRVTT-P, App. A.1).

    The reference scales the shorter side to 256 and cuts 224 x 224 at whole (x, y) below `reach`. The same window here
    keeps the frame's own size and shape: 224/256 of both sides, (x, y) in 256ths of the shorter side. With the largest
    `reach` the window goes beyond the frame, where the border is repeated. `origin` in [0, 1) x [0, 1) chooses the
    place; drawn for every frame. Bilinear, rounded to uint8.
    """
    share = 224 / 256
    places = [math.floor(unit * reach) * min(height, width) / 256 for unit in origin]
    # A pixel's centre lies at a half.
    view = np.array([[share, 0, places[0] + (share - 1) / 2], [0, share, places[1] + (share - 1) / 2]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    rgba, moved = np.empty((2, height, width, 4), np.uint8)

    def apply(frame: Image, index: int) -> Image:
        # Four channels, one of them unused, move more than twice as fast as three.
        cv2.cvtColor(frame, cv2.COLOR_RGB2RGBA, dst=rgba)
        cv2.warpAffine(rgba, view, (width, height), dst=moved, flags=flags, borderMode=cv2.BORDER_REPLICATE)
        output = np.empty(frame.shape, np.uint8)
        cv2.cvtColor(moved, cv2.COLOR_RGBA2RGB, dst=output)
        return output

    return apply


_SIDE = 256
"""The shorter side, in pixels, that the reference scales frames to."""


def translate_released(
    origin: tuple[float, float], num_frames: int, height: int, width: int, *, reach: int, window: str
) -> Apply:
    """A window cut out of the frame, whose shorter side is scaled to 256 (MSRVTT-P's writer and its extractors).

    `origin` in [0, 1) x [0, 1) chooses the window's first row and column, whole numbers below `reach`: never the
    frame's far end. With `window` "lost" it has 224 x 224 pixels, and frames that leave less than that are lost, as
    `shape_of_translation` says; with "filled" black fills what is missing, and frames 288 wide get 256 x 256.
    Bilinear, as OpenCV resizes.
    """
    rows, columns = _scaled(height, width)
    row, column = (math.floor(unit * reach) for unit in origin)
    side = _window_side(width, window)
    down, right = rows / height, columns / width
    # What lies beyond the window is not scaled: a long, thin frame would become enormous.
    seen = slice(math.ceil((row + side) / down) + 2), slice(math.ceil((column + side) / right) + 2)

    def apply(frame: Image, index: int) -> Image:
        scaled = cv2.resize(frame[seen], None, fx=right, fy=down, interpolation=cv2.INTER_LINEAR)
        part = scaled[row : min(row + side, rows), column : min(column + side, columns)]
        output = np.zeros((side, side, 3), np.uint8)
        output[: part.shape[0], : part.shape[1]] = part
        return output

    return apply


def shape_of_translation(
    origins: Sequence[tuple[float, float]], num_frames: int, height: int, width: int, *, reach: int, window: str
) -> Shape:
    """The windows' size; with `window` "lost", without the frames that are smaller: the reference's writer skips them.

    `origins` are the frames' own, or the one of them all.
    """
    side = _window_side(width, window)
    rows, columns = _scaled(height, width)
    if window == "filled" or reach - 1 + side <= min(rows, columns):
        return Shape(side, side)
    origins = list(origins) * (num_frames if len(origins) == 1 else 1)
    kept = (
        index
        for index, (down, right) in enumerate(origins)
        if math.floor(down * reach) + side <= rows and math.floor(right * reach) + side <= columns
    )
    return Shape(side, side, tuple(kept))


def _scaled(height: int, width: int) -> tuple[int, int]:
    """Height and width of a frame whose shorter side is scaled to 256; the longer one is rounded down."""
    if height <= width:
        return _SIDE, int(width * _SIDE / height)
    return int(height * _SIDE / width), _SIDE


def _window_side(width: int, window: str) -> int:
    return 256 if window == "filled" and width == 288 else 224


# --- declarations ----------------------------------------------------------------------------------------------------

STATIC_ROTATE = Kernel(kernel=static_rotate, bounds={"degrees": Range(0, 360)})
ROTATE = Kernel(kernel=rotate, realization=draw_unit, bounds={"most_degrees": whole(0, 180)})
TRANSLATE = Kernel(kernel=translate, realization=draw_origin, bounds={"reach": whole(1, 256)})
# As the authors' writer: frames that are smaller than the window are lost.
TRANSLATE_RELEASED = Kernel(
    kernel=translate_released,
    realization=draw_origin,
    shape=shape_of_translation,
    version=2,
    bounds={"reach": whole(1, 256), "window": Choice(("lost", "filled"))},
)
TRANSLATE_ONCE = replace(TRANSLATE_RELEASED, once=True)
