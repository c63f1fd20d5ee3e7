"""Blurs that depend on a clip's motion. Frames are RGB uint8, H x W x 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cv2
import numpy as np
import numpy.typing as npt

from perturbations.base.arrays import Image
from perturbations.base.bounds import Choice, Joint, whole
from perturbations.base.kernel import Apply, Kernel
from perturbations.video.blur import rounded_levels
from perturbations.video.defocus import disk_mean

_Floats = npt.NDArray[np.float32]

# A frame's motion: the pixels that move most (bool, H x W), the direction of the mean flow in degrees, and whether most
# of the frame stands still, so that no pixel moves less than the others.
_Motion = Callable[[int], tuple[npt.NDArray[np.bool_], float, bool]]

# OpenCV correlates float images tap by tap, without zeros, for kernels of fewer than 130 places, and by Fourier
# transform for larger ones. Blur kernels are mostly zeros, so a few small pieces are 3 to 10 times as fast.
_TILE = 11


def motion_blur(
    realization: None, motion: _Motion, num_frames: int, height: int, width: int, *, low: int, high: int, still: str
) -> Apply:
    """Blur along the frame's mean motion: `high` pixels long where it moves most, `low` elsewhere.

    MLVP, App. E, Alg. 2. `still` says whether the pixels of a still frame count as "high" or as "low".
    """
    pad = high // 2
    padded, total, part = np.empty((3, height + 2 * pad, width + 2 * pad, 3), np.float32)

    def blurred(length: int, angle: float) -> Image:
        start = pad - length // 2
        summed = total[:height, :width]
        for number, (top, left, taps) in enumerate(_tiles(_line(length, angle))):
            rows, columns = start + top, start + left
            seen = padded[rows : rows + height + len(taps) - 1, columns : columns + width + taps.shape[1] - 1]
            into = (part if number else total)[: seen.shape[0], : seen.shape[1]]
            # The anchor is the piece's corner, so the pixels that depend on the border are cut off again.
            cv2.filter2D(seen, cv2.CV_32F, taps, dst=into, anchor=(0, 0), borderType=cv2.BORDER_CONSTANT)
            if number:
                cv2.add(summed, into[:height, :width], dst=summed)
        return rounded_levels(summed)

    def apply(frame: Image, index: int) -> Image:
        mask, angle, is_still = motion(index)
        np.copyto(padded, cv2.copyMakeBorder(frame, pad, pad, pad, pad, cv2.BORDER_REFLECT_101))
        return _by_motion(mask, is_still and still == "high", lambda: blurred(low, angle), lambda: blurred(high, angle))

    return apply


def video_defocus(
    realization: None, motion: _Motion, num_frames: int, height: int, width: int, *, radius: int, still: str
) -> Apply:
    """Blur with a disk of `radius` pixels, twice that where the frame moves most (MLVP, App. E).

    `still` says whether the pixels of a still frame count as "high" or as "low". The papers smooth the disk with a
    Gaussian of sigma 0.1, whose neighbouring weights are exp(-50), practically 0: the disk is flat.
    """
    sharp, soft = (disk_mean(height, width, radius=reach) for reach in (radius, 2 * radius))

    def apply(frame: Image, index: int) -> Image:
        mask, _, is_still = motion(index)
        return _by_motion(mask, is_still and still == "high", lambda: sharp(frame), lambda: soft(frame))

    return apply


def _by_motion(mask: npt.NDArray[np.bool_], is_all: bool, low: Callable[[], Image], high: Callable[[], Image]) -> Image:
    """The frame as `high` makes it where it moves most, or all of it, and as `low` makes it elsewhere."""
    if is_all or mask.all():
        return high()
    return np.asarray(cv2.copyTo(high(), mask.view(np.uint8), low()), np.uint8) if mask.any() else low()


def _line(length: int, angle: float) -> _Floats:
    """A line of ones through the middle of a length x length grid, turned by `angle` degrees, of sum 1."""
    kernel = np.zeros((length, length), np.float32)
    kernel[length // 2] = 1
    turn = cv2.getRotationMatrix2D((length / 2, length / 2), angle, 1)
    turned = cv2.warpAffine(kernel, turn, (length, length))
    return np.asarray(turned / turned.sum(), np.float32)


def _tiles(kernel: _Floats) -> Iterator[tuple[int, int, _Floats]]:
    """A kernel's pieces that are not empty: the place of the first row and column in the kernel, and the taps."""
    for top in range(0, kernel.shape[0], _TILE):
        for left in range(0, kernel.shape[1], _TILE):
            taps = kernel[top : top + _TILE, left : left + _TILE]
            rows, columns = np.flatnonzero(taps.any(1)), np.flatnonzero(taps.any(0))
            if len(rows):
                kept = taps[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
                yield top + int(rows[0]), left + int(columns[0]), np.ascontiguousarray(kept)


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
