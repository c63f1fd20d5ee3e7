"""Blur of a lens out of focus: the mean over a flat disk, computed by additions of whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.base.bounds import Range, whole
from perturbations.base.kernel import Apply, Kernel
from perturbations.video.blur import rounded_levels, truncated_levels

_Levels = NDArray[np.uint16] | NDArray[np.float32]
_Steps = list[Callable[[], object]]

_MOST_PIXELS = 257
"""Pixels of uint8 whose sum fits 16 bits."""


def defocus_blur(
    drawn: None, num_frames: int, height: int, width: int, *, radius: int, alias: float, rounded: bool = False
) -> Apply:
    """Convolution with a flat disk whose edge is smoothed, borders mirrored, truncated to uint8, or `rounded`.

    MSRVTT-P, App. A.1; MM-Robustness, Tab. 7; both after ImageNet-C. `alias` is the sigma of a Gaussian of 3 x 3 taps,
    5 x 5 where the radius is larger than 8. It smooths the disk on a grid that may end where the disk ends (17 x 17, or
    2 radius + 1) and mirrors it there, so the tips of a disk that fills its grid weigh more: kept, because that kernel
    made the published numbers.

    The flat disk's sum is computed first, in whole numbers, with some 25 additions of 16-bit arrays; then the Gaussian.
    """
    taps = 3 if radius <= 8 else 5
    smoothing = cv2.getGaussianKernel(taps, alias, cv2.CV_64F).ravel()
    halves = _half_lengths(radius)
    area = 2 * sum(2 * half + 1 for half in halves) - (2 * radius + 1)
    around = taps // 2
    reach = radius + around
    heavier = float(smoothing[around + 1]) / area if radius >= 8 else 0.0

    padded = np.empty((height + 2 * reach, width + 2 * reach, 3), np.uint16)
    summed, smoothed = np.empty((2, height + 2 * around, width + 2 * around, 3), np.float32)
    steps: _Steps = []
    wide = _add_disk(padded, halves, summed, steps)
    tips = _tip_sums(padded, wide, halves, height, width, steps) if heavier > 1e-6 else None
    inner = smoothed[around : around + height, around : around + width]
    more = np.empty((height, width, 3), np.float32)

    def apply(frame: Image, index: int) -> Image:
        np.copyto(padded, cv2.copyMakeBorder(frame, reach, reach, reach, reach, cv2.BORDER_REFLECT_101))
        for step in steps:
            step()
        cv2.sepFilter2D(summed, cv2.CV_32F, smoothing / area, smoothing, dst=smoothed)
        if tips is not None:
            np.copyto(more, tips)
            cv2.scaleAdd(more, heavier, inner, dst=inner)
            cv2.threshold(inner, 0, 0, cv2.THRESH_TOZERO, dst=inner)
        return rounded_levels(inner) if rounded else truncated_levels(inner)

    return apply


def disk_mean(height: int, width: int, *, radius: int) -> Callable[[Image], Image]:
    """The function that gives the mean over a flat disk about each pixel, borders mirrored, rounded to uint8."""
    halves = _half_lengths(radius)
    area = 2 * sum(2 * half + 1 for half in halves) - (2 * radius + 1)
    levels = np.uint16 if 2 * radius < _MOST_PIXELS else np.float32
    padded = np.empty((height + 2 * radius, width + 2 * radius, 3), levels)
    summed = np.empty((height, width, 3), np.float32)
    steps: _Steps = []
    _add_disk(padded, halves, summed, steps)

    def mean(frame: Image) -> Image:
        np.copyto(padded, cv2.copyMakeBorder(frame, radius, radius, radius, radius, cv2.BORDER_REFLECT_101))
        for step in steps:
            step()
        return np.asarray(cv2.convertScaleAbs(summed, alpha=1 / area), np.uint8)

    return mean


def _half_lengths(radius: int) -> list[int]:
    """How far each row of a disk, from its middle to its last, reaches to both sides."""
    return [math.isqrt(radius**2 - row**2) for row in range(radius + 1)]


def _plus(left: _Levels, right: _Levels, into: _Levels) -> Callable[[], object]:
    # Twice as fast as NumPy's addition where rows are parts of longer ones.
    return partial(cv2.add, left, right, dst=into)


def _add_disk(padded: _Levels, halves: list[int], summed: NDArray[np.float32], steps: _Steps) -> _Levels:
    """Append to `steps` the additions for the sum of a disk about each pixel, which is then in `summed`.

    Returns the running sums of its shortest row but one, each at the place of its first pixel.

    `summed` is as large as `padded` minus the radius on each side. Row r of the disk, up or down, reaches `halves[r]`
    pixels to both sides. Rows of the disk are running sums, and each longer one extends a shorter one; equal rows are
    added up first, and as many pixels as the levels' type holds before they are added to `summed`.
    """
    radius = len(halves) - 1
    height, width = summed.shape[:2]
    most = _MOST_PIXELS if padded.dtype == np.uint16 else (1 << 24) // 255  # whole numbers that floats hold exactly
    runs = {1: padded}  # number of neighbours in a row -> their sum, at the place of the first
    spare: list[_Levels] = []
    total = np.empty((height, width, 3), padded.dtype)
    held = 0
    line = kept = padded
    length = 1
    steps.append(partial(summed.fill, 0))
    for half in sorted(set(halves)):
        while length < 2 * half + 1:
            # The longest run of a power of two that is missing.
            more = 1 << ((2 * half + 1 - length).bit_length() - 1)
            added = _run(runs, more, steps)
            valid = padded.shape[1] - length - more + 1
            grown = np.empty_like(padded) if line is kept else line
            steps.append(_plus(line[:, :valid], added[:, length : length + valid], grown[:, :valid]))
            line, length = grown, length + more
        if half in halves[-2:]:
            kept = line
        columns = line[:, radius - half : radius - half + width]
        rows = [row for row, reaches in enumerate(halves) if reaches == half]
        tops = [-rows[-1]] if rows[0] == 0 else [-rows[-1], rows[0]]
        count = 2 * rows[-1] + 1 if rows[0] == 0 else len(rows)
        size = min(count, most // length)
        firsts = {size: [top + row for top in tops for row in range(0, count - size + 1, size)]}
        if rest := count % size:
            firsts[rest] = [top + count - rest for top in tops]
        for size in firsts:
            block = _summed(columns, size, steps, spare)
            for first in firsts[size]:
                part = block[radius + first : radius + first + height]
                if held + length * size > most:
                    steps.append(partial(cv2.accumulate, total, summed))
                    held = 0
                steps.append(_plus(total, part, total) if held else partial(np.copyto, total, part))
                held += length * size
    steps.append(partial(cv2.accumulate, total, summed))
    return kept


def _run(runs: dict[int, _Levels], length: int, steps: _Steps) -> _Levels:
    """The sums of `length` neighbours in a row, a power of two; kept in `runs`."""
    if length not in runs:
        half = _run(runs, length // 2, steps)
        runs[length] = np.empty((half.shape[0], half.shape[1] - length // 2, 3), half.dtype)
        steps.append(_plus(half[:, : -(length // 2)], half[:, length // 2 :], runs[length]))
    return runs[length]


def _summed(lines: _Levels, count: int, steps: _Steps, spare: list[_Levels]) -> _Levels:
    """The sums of `count` neighbours in a column, each at the place of the first; by doubling.

    `spare` holds the arrays that the call before used, to be used again.
    """
    if count == 1:
        return lines
    first = count // 2
    part = _summed(lines, first, steps, spare)
    size = lines.shape[0] - count + 1
    depth = first.bit_length()
    while len(spare) < depth:
        spare.append(np.empty(lines.shape, lines.dtype))
    total = spare[depth - 1][:size]
    steps.append(_plus(part[:size], part[first : first + size], total))
    if count % 2:
        steps.append(_plus(total, lines[count - 1 :], total))
    return total


def _tip_sums(
    padded: _Levels, wide: _Levels, halves: list[int], height: int, width: int, steps: _Steps
) -> NDArray[np.int16]:
    """Append to `steps` the additions for what the four tips of a disk that fills its grid gain, minus what they lose.

    Returns the array that is then filled; `wide` are the sums of `_add_disk`. Smoothing on such a grid adds the line
    inside the disk's outermost line (at the radius) a second time, and loses the line outside it, which is a single
    pixel. Both have the Gaussian's second weight.
    """
    radius = len(halves) - 1
    half = halves[radius - 1]
    top, left = (padded.shape[0] - height) // 2, (padded.shape[1] - width) // 2

    def at(array: _Levels, down: int, right: int) -> _Levels:
        return array[top + down : top + down + height, left + right : left + right + width]

    tall = _summed(padded, 2 * half + 1, steps, [])
    gained, lost = np.empty((2, height, width, 3), np.uint16)
    difference = np.empty((height, width, 3), np.int16)
    outside = radius + 1
    steps += [
        _plus(at(wide, -radius, -half), at(wide, radius, -half), gained),
        _plus(gained, at(tall, -half, -radius), gained),
        _plus(gained, at(tall, -half, radius), gained),
        _plus(at(padded, -outside, 0), at(padded, outside, 0), lost),
        _plus(lost, at(padded, 0, -outside), lost),
        _plus(lost, at(padded, 0, outside), lost),
        partial(cv2.subtract, gained.view(np.int16), lost.view(np.int16), dst=difference),
    ]
    return difference


DEFOCUS_BLUR = Kernel(
    kernel=defocus_blur,
    # A disk of more than 12 pixels does not fit the kernel's 16-bit sums.
    bounds={"radius": whole(0, 12), "alias": Range(0.01, 100)},
)
