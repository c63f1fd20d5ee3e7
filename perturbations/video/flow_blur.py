"""Blurs that depend on a clip's motion. Frames are RGB uint8, H x W x 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from perturbations.base.arrays import Image
from perturbations.base.bounds import Choice, Joint, whole
from perturbations.video.kernel import Apply, Kernel

_Floats = npt.NDArray[np.float32]

# A frame's motion: the pixels that move most (bool, H x W), the direction of the mean flow in degrees, and whether most
# of the frame stands still, so that no pixel moves less than the others.
_Motion = Callable[[int], tuple[npt.NDArray[np.bool_], float, bool]]

# OpenCV correlates float images tap by tap, without zeros, for kernels of fewer than 130 places, and by Fourier
# transform for larger ones. Blur kernels are mostly zeros, so a few small pieces are 3 to 10 times as fast.
_TILE = 11


class _Tile(NamedTuple):
    """A piece of a kernel, and the place of its first row and column in the kernel."""

    y: int
    x: int
    taps: _Floats


def motion_blur(
    realization: None, motion: _Motion, num_frames: int, height: int, width: int, *, low: int, high: int, still: str
) -> Apply:
    """Blur along the frame's mean motion: `high` pixels long where it moves most, `low` elsewhere.

    MLVP, App. E, Alg. 2. `still` says whether the pixels of a still frame count as "high" or as "low".
    """

    def apply(frame: Image, index: int) -> Image:
        mask, angle = _moving(motion(index), still)
        pad = high // 2
        padded = _padded(frame, pad, pad)
        short, long = (_blurred(padded, _line(length, angle), pad, frame.shape) for length in (low, high))
        return _where(mask, long, short)

    return apply


def video_defocus(
    realization: None, motion: _Motion, num_frames: int, height: int, width: int, *, radius: int, still: str
) -> Apply:
    """Blur with a disk of `radius` pixels, twice that where the frame moves most (MLVP, App. E).

    `still` says whether the pixels of a still frame count as "high" or as "low".
    """
    radii = (radius, 2 * radius)
    disks = [_disk_edges(reach) for reach in radii]
    areas = [sum(2 * half + 1 for half in _half_heights(reach)) for reach in radii]

    def apply(frame: Image, index: int) -> Image:
        mask, _ = _moving(motion(index), still)
        # Sums down the columns: a disk is then the difference of its lower and its upper edge, 2 taps per column
        # instead of 2 r. All sums are whole numbers below 2^24, which floats hold exactly.
        sums = _column_sums(_padded(frame, 2 * radius + 1, 2 * radius) - np.float32(128))
        sharp, soft = (
            _levels(_correlated(sums, tiles, 2 * radius - reach, frame.shape), alpha=1 / area, beta=128)
            for reach, tiles, area in zip(radii, disks, areas, strict=True)
        )
        return _where(mask, soft, sharp)

    return apply


def _moving(motion: tuple[npt.NDArray[np.bool_], float, bool], still: str) -> tuple[npt.NDArray[np.bool_], float]:
    mask, angle, stands = motion
    return (np.ones_like(mask) if stands and still == "high" else mask), angle


def _levels(values: _Floats, alpha: float = 1.0, beta: float = 0.0) -> Image:
    """Rounded to the nearest level of grey, as the references' filters do."""
    return np.asarray(cv2.convertScaleAbs(values, alpha=alpha, beta=beta), np.uint8)


def _where(mask: npt.NDArray[np.bool_], inside: Image, outside: Image) -> Image:
    return np.asarray(cv2.copyTo(inside, mask.view(np.uint8), outside), np.uint8)


def _padded(frame: Image, top: int, others: int) -> _Floats:
    padded = cv2.copyMakeBorder(frame, top, others, others, others, cv2.BORDER_REFLECT_101)
    return np.asarray(padded, np.float32)


def _blurred(padded: _Floats, kernel: _Floats, pad: int, shape: tuple[int, ...]) -> Image:
    offset = pad - kernel.shape[0] // 2
    return _levels(_correlated(padded, list(_tiles(kernel)), offset, shape))


def _line(length: int, angle: float) -> _Floats:
    """A line of ones through the middle of a length x length grid, turned by `angle` degrees, of sum 1."""
    kernel = np.zeros((length, length), np.float32)
    kernel[length // 2] = 1
    turn = cv2.getRotationMatrix2D((length / 2, length / 2), angle, 1)
    turned = cv2.warpAffine(kernel, turn, (length, length))
    return np.asarray(turned / turned.sum(), np.float32)


def _half_heights(radius: int) -> list[int]:
    """The height of a disk above and below its middle in each of its 2 radius + 1 columns."""
    return [int((radius**2 - x**2) ** 0.5) for x in range(-radius, radius + 1)]


def _disk_edges(radius: int) -> list[_Tile]:
    """The taps for a disk's sum from column sums.

    The papers smooth the disk with a Gaussian of sigma 0.1, whose neighbouring weights are exp(-50), practically 0.
    """
    edges = np.zeros((2 * radius + 2, 2 * radius + 1), np.float32)
    for x, reach in enumerate(_half_heights(radius)):
        edges[radius + 1 + reach, x] = 1
        edges[radius - reach, x] = -1
    return list(_tiles(edges))


def _column_sums(padded: _Floats) -> _Floats:
    for row in range(1, len(padded)):  # many times as fast as `cumsum`, which works column by column
        np.add(padded[row], padded[row - 1], out=padded[row])
    return padded


def _tiles(kernel: _Floats) -> Iterator[_Tile]:
    for top in range(0, kernel.shape[0], _TILE):
        for left in range(0, kernel.shape[1], _TILE):
            taps = kernel[top : top + _TILE, left : left + _TILE]
            rows, columns = np.flatnonzero(taps.any(1)), np.flatnonzero(taps.any(0))
            if len(rows):
                kept = taps[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
                yield _Tile(top + int(rows[0]), left + int(columns[0]), np.ascontiguousarray(kept))


def _correlated(padded: _Floats, tiles: list[_Tile], offset: int, shape: tuple[int, ...]) -> _Floats:
    """Correlate with a kernel given in pieces; its corner is `offset` pixels inside the padded image's corner."""
    height, width = shape[:2]
    total: _Floats | None = None
    for tile in tiles:
        top, left = offset + tile.y, offset + tile.x
        seen = padded[top : top + height + len(tile.taps) - 1, left : left + width + tile.taps.shape[1] - 1]
        # The anchor is the piece's corner, so the pixels that depend on the border are cut off again.
        part = cv2.filter2D(seen, cv2.CV_32F, tile.taps, anchor=(0, 0), borderType=cv2.BORDER_CONSTANT)
        part = part[:height, :width]
        total = np.asarray(part if total is None else cv2.add(total, part, dst=total), np.float32)
    assert total is not None
    return total


# --- declarations ----------------------------------------------------------------------------------------------------

_STILL = Choice(("high", "low"))
FLOW_BLUR = Kernel(
    kernel=motion_blur,
    guide="motion",
    several_frames=True,
    bounds={"low": whole(1, 301), "high": whole(1, 301), "still": _STILL},
    joint=(Joint("low", lambda lengths: bool(lengths["low"] <= lengths["high"]), "must be at most `high`"),),
)
FLOW_DEFOCUS = Kernel(
    kernel=video_defocus, guide="motion", several_frames=True, bounds={"radius": whole(1, 100), "still": _STILL}
)
