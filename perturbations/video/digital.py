"""Distortions of the digital picture: moved pixels, coarse pixels, flat contrast, JPEG."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.base.bounds import Range, whole
from perturbations.base.kernel import Apply, Kernel

_Matrix = NDArray[np.float64]

# --- elastic distortion ----------------------------------------------------------------------------------------------

_TRUNCATE = 3
"""The Gaussian ends at this many sigmas."""


class Elastic(NamedTuple):
    """One clip's distortion, all values uniform in [-1, 1).

    Attributes:
        jitter: of the affine transform's three points (x, y), 3 x 2.
        across: of the pixels in x, height x width, before it is smoothed.
        down: the same in y.
    """

    jitter: NDArray[np.floating]
    across: NDArray[np.floating]
    down: NDArray[np.floating]


def draw_elastic(rng: np.random.Generator, num_frames: int, height: int, width: int) -> Elastic:
    """The distortion that every severity scales and smooths."""

    def unit(shape: tuple[int, int]) -> NDArray[np.float32]:
        return rng.random(shape, dtype=np.float32) * 2 - 1

    return Elastic(unit((3, 2)), unit((height, width)), unit((height, width)))


def elastic_distortion(
    drawn: Elastic,
    num_frames: int,
    height: int,
    width: int,
    *,
    alpha: float,
    sigma: float,
    affine: float,
    rounded: bool = False,
) -> Apply:
    """One affine transform, then one smooth displacement field, each bilinear (MLVP, Tab. 37, App. E.1).

    The affine transform moves three points by up to `affine` pixels and reflects about the centres of the border's
    pixels. The displacement is uniform noise, smoothed with a Gaussian of `sigma` pixels, times `alpha`, and reflects
    about the outer edges of the border's pixels. Both as in ImageNet-C; truncated to uint8, or `rounded`.
    """
    columns, rows = np.arange(width)[None, :], np.arange(height)[:, None]
    back = cv2.invertAffineTransform(affine_matrix(affine * drawn.jitter, height, width))
    tilt_x, tilt_y = (
        reflected(by_x * columns + by_y * rows + shift, size, edge=0.0)
        for (by_x, by_y, shift), size in zip(back, (width, height), strict=True)
    )
    wobble_x = reflected(columns + alpha * smooth(drawn.across, sigma), width, edge=0.5)
    wobble_y = reflected(rows + alpha * smooth(drawn.down, sigma), height, edge=0.5)
    # Four channels, one of them unused, move more than twice as fast as three. Floats, because the reference truncates
    # once, after both steps.
    rgba = np.empty((height, width, 4), np.uint8)
    values, tilted = np.empty(rgba.shape, np.float32), np.empty(rgba.shape, np.float32)

    def apply(frame: Image, index: int) -> Image:
        np.copyto(values, cv2.cvtColor(frame, cv2.COLOR_RGB2RGBA, dst=rgba))
        # The maps hold no place outside the frame; this border mode is the fastest.
        cv2.remap(values, tilt_x, tilt_y, cv2.INTER_LINEAR, dst=tilted, borderMode=cv2.BORDER_REPLICATE)
        cv2.remap(tilted, wobble_x, wobble_y, cv2.INTER_LINEAR, dst=values, borderMode=cv2.BORDER_REPLICATE)
        if rounded:
            cv2.convertScaleAbs(values, dst=rgba)
        else:
            np.copyto(rgba, values, casting="unsafe")
        output = np.empty((height, width, 3), np.uint8)
        cv2.cvtColor(rgba, cv2.COLOR_RGBA2RGB, dst=output)
        return output

    return apply


def affine_matrix(jitter: NDArray[np.floating], height: int, width: int) -> _Matrix:
    """The 2 x 3 transform that moves three points about the centre by `jitter`, 3 x 2 pixels (x, y).

    The reference takes (height, width) / 2 for the centre's (x, y): kept, because it made the published numbers.
    Where a side is less than 3 pixels the points coincide, and nothing moves.
    """
    reach = min(height, width) // 3
    if reach == 0:
        return np.eye(2, 3)
    x, y = height // 2, width // 2
    points = np.array([[x + reach, y + reach], [x + reach, y - reach], [x - reach, y - reach]], np.float32)
    return np.asarray(cv2.getAffineTransform(points, points + jitter.astype(np.float32)), np.float64)


def reflected(positions: _Matrix, size: int, *, edge: float) -> NDArray[np.float32]:
    """Positions along an axis of `size` pixels, mirrored until they lie between the first and the last of them.

    The mirrors are `edge` pixels outside the border pixels' centres: 0 (dcb|abcd|cba) or 0.5 (dcba|abcd|dcba).
    Mirrored here and not by OpenCV, which mirrors one step at a time: a nearly singular transform of a small frame
    points millions of pixels away.
    """
    span = size - 1 + 2 * edge
    if span == 0:
        return np.zeros(positions.shape, np.float32)
    places = positions + edge
    far = (places < 0) | (places >= 2 * span)
    places[far] %= 2 * span  # not of the others: it would change nothing and take ten times as long
    places = np.minimum(places, 2 * span - places) - edge
    # Half a pixel inside a mirror at 0.5, the border pixel meets its own image.
    return np.clip(places, 0, size - 1).astype(np.float32)


def smooth(field: NDArray[np.floating], sigma: float) -> _Matrix:
    """Gaussian smoothing that ends at 3 sigma, borders mirrored at 0.5 (scipy.ndimage.gaussian_filter, truncate 3).

    Mirroring folds the kernel's tails back into the field, so each axis is one matrix product: for a sigma as large as
    a frame this is much faster than a thousand taps.
    """
    height, width = field.shape
    smoothed: _Matrix = _folded_gaussian(height, sigma) @ field @ _folded_gaussian(width, sigma).T
    return smoothed


@lru_cache(maxsize=2)  # the two axes: both fields, and all clips of one size, share them
def _folded_gaussian(size: int, sigma: float) -> _Matrix:
    """The size x size matrix: row i holds the weights of all pixels for smoothed pixel i."""
    radius = int(_TRUNCATE * sigma + 0.5)
    offsets = np.arange(-radius, radius + 1)
    weights = np.exp(-0.5 * (offsets / sigma) ** 2)
    weights /= weights.sum()
    pixels = np.arange(size)[:, None]
    sources = (pixels + offsets) % (2 * size)
    sources = np.minimum(sources, 2 * size - 1 - sources)
    places = pixels * size + sources
    matrix: _Matrix = np.bincount(places.ravel(), np.tile(weights, size), size * size).astype(np.float64, copy=False)
    matrix.flags.writeable = False
    return matrix.reshape(size, size)


# --- contrast, pixels, JPEG ------------------------------------------------------------------------------------------


def contrast(drawn: None, num_frames: int, height: int, width: int, *, factor: float, rounded: bool = False) -> Apply:
    """`(x - m) * factor + m`, m the mean of a channel over the frame (ImageNet-C; MM-Robustness, Tab. 7).

    x = frame / 255; clipped, truncated to uint8, or `rounded`.
    """
    levels = np.arange(256)[:, None] / 255
    whole = np.rint if rounded else np.floor

    def apply(frame: Image, index: int) -> Image:
        means = np.array(cv2.mean(frame)[:3]) / 255
        table = whole(np.clip((levels - means) * factor + means, 0, 1) * 255).astype(np.uint8)
        output = np.empty(frame.shape, np.uint8)
        cv2.LUT(frame, table[:, None, :], dst=output)
        return output

    return apply


def pixelate(drawn: None, num_frames: int, height: int, width: int, *, scale: float) -> Apply:
    """The frame with `scale` times as many pixels per side, shown as blocks (ImageNet-C; MM-Robustness, Tab. 7).

    Equal to the bit to the reference's Pillow with its filter BOX: a coarse pixel is the mean of the pixels whose
    centres it covers, along rows first, then along columns, halves rounded up each time. A fine pixel shows the coarse
    pixel that its centre is in. (Pillow 13 takes columns first where a frame is more than twice as high as wide; the
    package imagecorruptions enlarges by NEAREST, which shows another pixel where a centre lies between two.)
    """
    full = width, height
    size = coarse_width, coarse_height = max(1, int(width * scale)), max(1, int(height * scale))
    columns, across = _blocks(width, coarse_width)
    rows, down = _blocks(height, coarse_height)
    lines = np.arange(height, dtype=np.int16)
    picks = [np.dstack(np.meshgrid(sources.astype(np.int16), lines)) for sources in columns]
    shown = np.dstack(
        np.meshgrid(*(_blocks(coarse, fine)[0][0].astype(np.int16) for coarse, fine in zip(size, full, strict=True)))
    )
    no_fractions = np.empty(0, np.uint16)
    picked, wide_mean = np.empty((2, height, coarse_width, 3), np.uint8)
    wide = np.empty(picked.shape, np.uint16)
    # A further row of zeros, for places without a pixel.
    with_zeros = np.zeros((height + 1, coarse_width, 3), np.uint8)
    tall = np.empty((coarse_height, coarse_width, 3), np.uint16)
    tall_mean = np.empty(tall.shape, np.uint8)
    across_3 = np.repeat(np.tile(across, (height, 1))[:, :, None], 3, axis=2)
    down_3 = np.repeat(np.tile(down[:, None], (1, coarse_width))[:, :, None], 3, axis=2)

    def apply(frame: Image, index: int) -> Image:
        wide.fill(0)
        for pick in picks:
            # A place outside the frame counts as 0.
            cv2.remap(frame, pick, no_fractions, cv2.INTER_NEAREST, dst=picked)
            np.add(wide, picked, out=wide)
        cv2.multiply(wide, across_3, dst=wide_mean, dtype=cv2.CV_8U)
        with_zeros[:-1] = wide_mean
        tall.fill(0)
        for row in rows:
            np.add(tall, with_zeros[row], out=tall)
        cv2.multiply(tall, down_3, dst=tall_mean, dtype=cv2.CV_8U)
        output = np.empty(frame.shape, np.uint8)
        cv2.remap(tall_mean, shown, no_fractions, cv2.INTER_NEAREST, dst=output)
        return output

    return apply


def _blocks(size: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The pixels of `size` in each of `count` blocks, and one over their number.

    Row k of the first result holds every block's k-th pixel, -1 where the block has fewer. The second is slightly too
    large, so that halves round up. A block is at least one pixel wide; a centre at its end belongs to it, a centre at
    its start does not. The arithmetic follows Pillow's steps, which decide where a centre meets an end.
    """
    scale = size / count
    centres = (np.arange(count) + 0.5) * scale
    half = max(scale, 1.0) / 2
    first = (centres - half + 0.5).astype(np.int64)
    pixels = first + np.arange(int(2 * half) + 2)[:, None]
    places = (pixels - centres + 0.5) * (1 / max(scale, 1.0))
    inside = (places > -0.5) & (places <= 0.5) & (pixels < np.minimum((centres + half + 0.5).astype(np.int64), size))
    pixels[~inside] = -1
    # The pixels first, then the -1.
    pixels = -np.sort(-pixels, axis=0)[: inside.sum(axis=0).max()]
    return pixels, ((1 + 2**-16) / inside.sum(axis=0)).astype(np.float32)


def jpeg(drawn: None, num_frames: int, height: int, width: int, *, quality: int, exchanged: bool = False) -> Apply:
    """A baseline JPEG, 4:2:0, at libjpeg's `quality`, and back (MSRVTT-P, App. A.1; MM-Robustness, Tab. 7).

    With red and blue `exchanged` around it, as by programs that take OpenCV's BGR frames for RGB.
    """
    settings = [cv2.IMWRITE_JPEG_QUALITY, quality]
    order = cv2.IMREAD_COLOR if exchanged else cv2.IMREAD_COLOR_RGB

    def apply(frame: Image, index: int) -> Image:
        # OpenCV takes and gives blue, green, red.
        given = frame if exchanged else cv2.cvtColor(frame, cv2.COLOR_RGB2BGR)
        return np.asarray(cv2.imdecode(cv2.imencode(".jpg", given, settings)[1], order), np.uint8)

    return apply


# --- declarations ----------------------------------------------------------------------------------------------------

CONTRAST = Kernel(kernel=contrast, bounds={"factor": Range(0, 10)})
ELASTIC = Kernel(
    kernel=elastic_distortion,
    realization=draw_elastic,
    bounds={"alpha": Range(0, 10_000), "sigma": Range(0.01, 1000), "affine": Range(0, 1000)},
)
ELASTIC_OF_IMAGENET_C = tuple(
    {"alpha": 244 * alpha, "sigma": 244 * sigma, "affine": 244 * affine}
    for alpha, sigma, affine in (
        (2, 0.7, 0.1),
        (2, 0.08, 0.2),
        (0.05, 0.01, 0.02),
        (0.07, 0.01, 0.02),
        (0.12, 0.01, 0.02),
    )
)
"""Its five severities, which MLVP and MM-Robustness take; 244, not 224, is its constant."""
PIXELATE = Kernel(kernel=pixelate, bounds={"scale": Range(0, 1, above=True)})
JPEG = Kernel(kernel=jpeg, bounds={"quality": whole(1, 100)})
JPEG_OF_BGR = replace(JPEG, kernel=partial(jpeg, exchanged=True), version=2)
