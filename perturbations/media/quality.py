"""The distance between two videos: PSNR over all their frames, and the mean SSIM of these."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image

_Plane = NDArray[np.float32]

_WINDOW = (7, 7)
_UNBIASED = 49 / 48  # sample variances and covariance, of the window's 49 pixels
_C1 = (0.01 * 255) ** 2
_C2 = (0.03 * 255) ** 2


class Distortion:
    """PSNR over all added pairs of frames, and their mean SSIM; frames are RGB uint8 H x W x 3."""

    def __init__(self, *, structural: bool) -> None:
        self._structural = structural
        self._squared = 0
        self._values = 0
        self._similarity: list[float] = []

    def add(self, image: Image, other: Image) -> None:
        """Add a pair of frames of one shape. Raises `ValueError` when the shapes differ."""
        if image.shape != other.shape:
            raise ValueError(f"frames of {image.shape} and {other.shape} cannot be compared")
        # The sum is a whole number, but OpenCV may compute it as the square of a root.
        self._squared += round(cv2.norm(image, other, cv2.NORM_L2SQR))
        self._values += image.size
        if self._structural:
            self._similarity.append(ssim(image, other))

    @property
    def psnr_db(self) -> float | None:
        """10 log10(255^2 / mean squared error); infinite for equal frames, None without frames."""
        if not self._values:
            return None
        if not self._squared:
            return math.inf
        return 10 * math.log10(255**2 * self._values / self._squared)

    @property
    def ssim(self) -> float | None:
        """Mean SSIM of the luma planes, None without any frame."""
        return float(np.mean(self._similarity)) if self._similarity else None


def ssim(image: Image, other: Image) -> float:
    """Structural similarity of the luma of two RGB uint8 images (Wang et al. 2004), 7 x 7 windows.

    Computed as scikit-image does by default. The mean is over the pixels whose window lies inside the image; over all
    pixels if no window does.
    """
    x, y = _luma(image), _luma(other)
    mean_x, mean_y = _blur(x), _blur(y)
    variance_x = _UNBIASED * (_blur(x * x) - mean_x * mean_x)
    variance_y = _UNBIASED * (_blur(y * y) - mean_y * mean_y)
    covariance = _UNBIASED * (_blur(x * y) - mean_x * mean_y)
    similarity = ((2 * mean_x * mean_y + _C1) * (2 * covariance + _C2)) / (
        (mean_x * mean_x + mean_y * mean_y + _C1) * (variance_x + variance_y + _C2)
    )
    border = _WINDOW[0] // 2
    inside = similarity[border:-border, border:-border]
    return float(np.mean(inside if inside.size else similarity, dtype=np.float64))


def _luma(image: Image) -> _Plane:
    return cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32)


def _blur(plane: _Plane) -> _Plane:
    blurred: _Plane = cv2.blur(plane, _WINDOW)  # type: ignore[assignment]
    return blurred
