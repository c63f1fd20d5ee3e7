"""Blur: a camera that moves or zooms, frosted glass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.base.bounds import REACH, SIGMA_OF_TAPS, Joint, Range, whole
from perturbations.base.kernel import Apply, Kernel

ALMOST_HALF = 0.4999
"""OpenCV rounds where the references truncate, so this is subtracted first.

It is slightly less than a half: whole numbers, and sums that are slightly below one, keep their value.
"""


def truncated_levels(values: NDArray[np.float32], lift: float = 0.0) -> Image:
    """uint8 levels, clipped, of height x width x 3 values plus `lift`; the values must not be negative."""
    return rounded_levels(values, lift - ALMOST_HALF)


def rounded_levels(values: NDArray[np.float32], lift: float = 0.0) -> Image:
    """uint8 levels of values that are not negative, plus `lift`: clipped, halves rounded to the even level."""
    output = np.empty(values.shape, np.uint8)
    cv2.convertScaleAbs(values, dst=output, alpha=1.0, beta=lift)  # a third of the time of subtracting
    return output


# --- in motion -------------------------------------------------------------------------------------------------------


def draw_angle(rng: np.random.Generator, num_frames: int, height: int, width: int) -> float:
    """Degrees, uniform in [-45, 45)."""
    return float(rng.uniform(-45, 45))


def motion_blur(angle: float, num_frames: int, height: int, width: int, *, radius: int, sigma: float) -> Apply:
    """ImageMagick's motion blur: half a Gaussian of 2 radius + 1 taps along `angle` degrees, borders repeated.

    Truncated to uint8 (MSRVTT-P, App. A.1; MM-Robustness, Tab. 7; both after ImageNet-C).
    """
    taps = _motion_taps(radius, sigma, angle)
    above, below = (max(0, max(sign * row for row, _, _ in taps)) for sign in (-1, 1))
    before, after = (max(0, max(sign * column for _, column, _ in taps)) for sign in (-1, 1))
    padded = np.empty((height + above + below, width + before + after, 3), np.float32)
    parts = []
    for row, column, kernel in _pieces(taps):
        top, left = above + row, before + column
        seen = padded[top : top + height + kernel.shape[0] - 1, left : left + width + kernel.shape[1] - 1]
        parts.append((seen, kernel, np.empty(seen.shape, np.float32)))
    blurred, *others = (summed[:height, :width] for _, _, summed in parts)

    def apply(frame: Image, index: int) -> Image:
        np.copyto(padded, cv2.copyMakeBorder(frame, above, below, before, after, cv2.BORDER_REPLICATE))
        for seen, kernel, summed in parts:
            cv2.filter2D(seen, cv2.CV_32F, kernel, dst=summed, anchor=(0, 0))
        for summed in others:
            cv2.add(blurred, summed, dst=blurred)
        # ImageMagick rounds to 16 bits, where a grey level is 257 steps, before it truncates to 8.
        return truncated_levels(blurred, lift=0.5 / 257)

    return apply


_PIECE = 11
"""The side of the largest kernel that OpenCV correlates tap by tap, without zeros, and not by Fourier transform."""


def _pieces(taps: list[tuple[int, int, float]]) -> list[tuple[int, int, NDArray[np.float32]]]:
    """Split taps along a line into small kernels: (first row, first column, weights) of each."""
    pieces = []
    while taps:
        row, column, _ = taps[0]
        near = [tap for tap in taps if max(abs(tap[0] - row), abs(tap[1] - column)) < _PIECE]
        rows, columns = [row for row, _, _ in near], [column for _, column, _ in near]
        top, left = min(rows), min(columns)
        kernel = np.zeros((max(rows) - top + 1, max(columns) - left + 1), np.float32)
        for row, column, weight in near:
            kernel[row - top, column - left] = weight
        pieces.append((top, left, kernel))
        taps = [tap for tap in taps if tap not in near]
    return pieces


_NEGLIGIBLE = 1e-6


def _motion_taps(radius: int, sigma: float, angle: float) -> list[tuple[int, int, float]]:
    """The taps of `line_taps` that count: (row, column, weight).

    Two taps in one place become one with both weights. Taps of less than a thousandth of a level are left out.
    """
    taps: dict[tuple[int, int], float] = {}
    for row, column, weight in line_taps(radius, sigma, angle):
        taps[row, column] = taps.get((row, column), 0.0) + weight
    return [(row, column, weight) for (row, column), weight in taps.items() if weight > _NEGLIGIBLE]


def line_taps(radius: int, sigma: float, angle: float) -> Iterator[tuple[int, int, float]]:
    """(row, column, weight) of half a Gaussian's 2 radius + 1 taps along `angle` degrees; the weights sum to 1.

    Rows and columns count from the pixel itself, rounded as ImageMagick rounds them.
    """
    weights = np.exp(-(np.arange(2 * radius + 1) ** 2) / (2 * sigma**2))
    weights /= weights.sum()
    down, across = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    for tap, weight in enumerate(weights.tolist()):
        yield math.ceil(tap * down - 0.5), math.ceil(tap * across - 0.5), weight


# --- towards the centre ----------------------------------------------------------------------------------------------


def zoom_blur(
    drawn: None, num_frames: int, height: int, width: int, *, stop: float, step: float, rounded: bool = False
) -> Apply:
    """The mean of the frame and of its centre, enlarged 1, 1 + step, 1 + 2 step, ... times, below `stop`.

    MSRVTT-P, App. A.1; MM-Robustness, Tab. 7; both after ImageNet-C, whose factors come from `numpy.arange(1, stop,
    step)`: rounding lets some of its ranges reach `stop`. Each enlargement is bilinear and rounded to whole levels;
    the mean is truncated, or `rounded`.
    """
    factors = np.arange(1, stop, step)
    views = [_zoom_matrix(height, width, float(factor)) for factor in factors[1:]]
    # The frame counts twice: as itself, and enlarged once.
    sums = np.arange(255 * (len(factors) + 1) + 1)
    means = (np.rint(sums / (len(factors) + 1)) if rounded else sums // (len(factors) + 1)).astype(np.uint8)
    means = np.resize(means, 1 << 16)
    rgba, layer = np.empty((2, height, width, 4), np.uint8)
    total = np.empty((height, width, 4), np.uint16)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP

    def apply(frame: Image, index: int) -> Image:
        # Four channels, one of them unused, are enlarged more than twice as fast as three.
        cv2.cvtColor(frame, cv2.COLOR_RGB2RGBA, dst=rgba)
        np.multiply(rgba, 2, out=total, dtype=np.uint16)
        for view in views:
            # No place is outside the frame; this border mode is the fastest.
            cv2.warpAffine(rgba, view, (width, height), dst=layer, flags=flags, borderMode=cv2.BORDER_REPLICATE)
            np.add(total, layer, out=total)
        cv2.LUT(total, means, dst=layer)
        output = np.empty(frame.shape, np.uint8)
        cv2.cvtColor(layer, cv2.COLOR_RGBA2RGB, dst=output)
        return output

    return apply


def _zoom_matrix(height: int, width: int, factor: float) -> NDArray[np.float64]:
    """The 2 x 3 matrix from an enlarged frame's pixels (x, y) to those of the frame.

    The centre part, `ceil(side / factor)` pixels, is enlarged to `round(part * factor)` so that the centres of its
    corner pixels stay in the corners; pixels beyond the frame's size are trimmed (ImageNet-C).
    """
    matrix = np.zeros((2, 3))
    for axis, size in enumerate((width, height)):
        part = math.ceil(size / factor)
        enlarged = round(part * factor)
        shrink = (part - 1) / max(1, enlarged - 1)
        matrix[axis, axis] = shrink
        matrix[axis, 2] = (size - part) // 2 + shrink * ((enlarged - size) // 2)
    return matrix


# --- through frosted glass -------------------------------------------------------------------------------------------

_MOST_ITERATIONS = 3


def draw_glass(rng: np.random.Generator, num_frames: int, height: int, width: int) -> NDArray[np.uint16]:
    """Uniform whole numbers below 65,536 for each iteration's steps in y and x, iterations x 2 x height x width."""
    shape = _MOST_ITERATIONS, 2, height, width
    return rng.integers(0, 1 << 16, shape, dtype=np.uint16)


def glass_blur(
    steps: NDArray[np.uint16], num_frames: int, height: int, width: int, *, sigma: float, delta: int, iterations: int
) -> Apply:
    """A Gaussian blur, pixels replaced by near ones, and the blur again (ImageNet-C; MM-Robustness, Tab. 7).

    The Gaussian ends at 4 sigmas and repeats the border; both results are truncated to uint8.
    """
    sources = glass_sources(steps[:iterations], height, width, delta)
    # The nearest-neighbour map for `remap`: (x, y) in 16 bits.
    places = np.dstack([sources % width, sources // width]).astype(np.int16)
    no_fractions = np.empty(0, np.uint16)
    blur = gaussian_blur(height, width, sigma)
    moved = np.empty((height, width, 3), np.uint8)

    def apply(frame: Image, index: int) -> Image:
        cv2.remap(truncated_levels(blur(frame)), places, no_fractions, cv2.INTER_NEAREST, dst=moved)
        return truncated_levels(blur(moved))

    return apply


def gaussian_blur(height: int, width: int, sigma: float) -> Callable[[Image], NDArray[np.float32]]:
    """The function (picture) -> the picture blurred; the Gaussian ends at 4 sigmas and repeats the border.

    Its float32 result, height x width x 3, is overwritten by the next call.
    """
    taps = 2 * int(4 * sigma + 0.5) + 1
    values, blurred = np.empty((2, height, width, 3), np.float32)

    def blur(picture: Image) -> NDArray[np.float32]:
        np.copyto(values, picture)
        cv2.GaussianBlur(values, (taps, taps), sigma, dst=blurred, borderType=cv2.BORDER_REPLICATE)
        return blurred

    return blur


def glass_sources(steps: NDArray[np.uint16], height: int, width: int, delta: int) -> NDArray[np.int64]:
    """The pixel (an index into the flat frame) at each place of frosted glass, height x width.

    Pixels change one after another, the last first: each that is more than `delta` from the first row and column takes
    the current value of a pixel up to `delta` pixels away. The reference means to swap the two, but assigns through
    views of the same array, so that only one of them changes: kept, because it made the published numbers. `steps` is
    uint16, iterations x 2 x height x width; the number of iterations is its length.
    """
    places = np.arange(height * width)
    total = places
    rows, columns = np.meshgrid(*(np.arange(delta + 1, side - delta + 1) for side in (height, width)), indexing="ij")
    for drawn in steps if rows.size else ():
        down, right = ((drawn[axis][rows, columns].astype(np.int64) * (2 * delta) >> 16) - delta for axis in (0, 1))
        taken = places.copy()
        taken[rows * width + columns] = (rows + down) * width + columns + right
        # A pixel that is later in the frame has changed already: follow its sources to the end.
        link = np.maximum(taken, places)
        while not np.array_equal(link, further := link[link]):
            link = further
        total = total[taken[link]]
    return total.reshape(height, width)


# --- declarations ----------------------------------------------------------------------------------------------------

STREAK_BLUR = Kernel(
    kernel=motion_blur, realization=draw_angle, version=2, bounds={"radius": REACH, "sigma": SIGMA_OF_TAPS}
)
GLASS_BLUR = Kernel(
    kernel=glass_blur,
    realization=draw_glass,
    bounds={"sigma": Range(0.01, 50), "delta": whole(1, 200), "iterations": whole(1, 3)},
)
_MOST_VIEWS = 255  # their sum has 16 bits
ZOOM_BLUR = Kernel(
    kernel=zoom_blur,
    bounds={"stop": Range(1, 10, above=True), "step": Range(0.001, 10)},
    joint=(
        Joint(
            "step",
            lambda views: (views["stop"] - 1) / views["step"] <= _MOST_VIEWS,
            f"must take at most {_MOST_VIEWS} steps from 1 to `stop`",
        ),
    ),
)
