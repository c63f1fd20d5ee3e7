"""Elastic distortion."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Field = NDArray[np.float64]
Apply = Callable[[Image, int], Image]

_TRUNCATE = 3


class Elastic(NamedTuple):
    """One clip's distortion: 3 x 2 unit jitter of the affine's points, and two unit fields, all uniform in [-1, 1)."""

    jitter: Field
    across: Field
    down: Field


def draw_elastic(rng: np.random.Generator, num_frames: int, height: int, width: int) -> Elastic:
    """What every severity shares; the parameters only scale and smooth it."""
    jitter = rng.uniform(-1, 1, (3, 2))
    across = rng.uniform(-1, 1, (height, width))
    return Elastic(jitter, across, rng.uniform(-1, 1, (height, width)))


def elastic_distortion(
    drawn: Elastic, num_frames: int, height: int, width: int, *, alpha: float, sigma: float, affine: float
) -> Apply:
    """One affine transform, then one smooth displacement field, both bilinear (MLVP App. E; ImageNet-C).

    The affine moves three points by up to `affine` pixels; the field is uniform noise, Gaussian-smoothed with `sigma`
    and scaled by `alpha`. Borders reflect.
    """
    matrix = affine_matrix(affine * drawn.jitter, height, width)
    columns, rows = np.meshgrid(np.arange(width), np.arange(height))
    map_x = (columns + alpha * smooth(drawn.across, sigma)).astype(np.float32)
    map_y = (rows + alpha * smooth(drawn.down, sigma)).astype(np.float32)
    # Four channels, one of them unused: OpenCV moves them more than twice as fast as three.
    values, moved = np.empty((height, width, 4), np.float32), np.empty((height, width, 4), np.float32)

    def apply(frame: Image, index: int) -> Image:
        # Floats, because the reference truncates once, after both steps.
        np.copyto(values, cv2.cvtColor(frame, cv2.COLOR_RGB2RGBA))
        cv2.warpAffine(
            values, matrix, (width, height), dst=moved, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101
        )
        cv2.remap(moved, map_x, map_y, cv2.INTER_LINEAR, dst=values, borderMode=cv2.BORDER_REFLECT)
        return cv2.cvtColor(values.astype(np.uint8), cv2.COLOR_RGBA2RGB)  # type: ignore[return-value]

    return apply


def affine_matrix(jitter: Field, height: int, width: int) -> Field:
    """The 2 x 3 transform that moves three points about the centre by `jitter` (3 x 2 pixels).

    The reference takes the centre as (height, width) / 2 and uses it as (x, y): kept, for the published numbers.
    """
    centre = np.array([height, width], np.float32) // 2
    reach = min(height, width) // 3
    points = np.array([centre + reach, [centre[0] + reach, centre[1] - reach], centre - reach], np.float32)
    if reach == 0:  # the points coincide; so small an image cannot be tilted
        return np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    return np.asarray(cv2.getAffineTransform(points, (points + jitter).astype(np.float32)), np.float64)


def smooth(field: Field, sigma: float) -> Field:
    """Gaussian smoothing, cut off at 3 sigma, borders reflected (as scipy.ndimage.gaussian_filter, truncate 3).

    Reflection folds the kernel back into the image, so each axis is a product with one matrix: for a sigma as large as
    the image, far cheaper than a thousand taps.
    """
    height, width = field.shape
    smoothed: Field = _smoothing_matrix(height, sigma) @ field @ _smoothing_matrix(width, sigma).T
    return smoothed


@lru_cache(maxsize=8)  # both fields, and every clip of that size, use the same
def _smoothing_matrix(size: int, sigma: float) -> Field:
    radius = int(_TRUNCATE * sigma + 0.5)
    offsets = np.arange(-radius, radius + 1)
    weights = np.exp(-0.5 * (offsets / sigma) ** 2)
    weights /= weights.sum()
    sources = np.arange(size)[:, None] + offsets
    folded = sources % (2 * size)
    folded = np.where(folded < size, folded, 2 * size - 1 - folded)
    places = np.arange(size)[:, None] * size + folded
    matrix: Field = np.bincount(places.ravel(), np.tile(weights, size), size * size).astype(np.float64)
    return matrix.reshape(size, size)
