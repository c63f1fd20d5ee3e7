"""Fog and snow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Plane = NDArray[np.float32]
Apply = Callable[[Image, int], Image]

# --- fog -------------------------------------------------------------------------------------------------------------


def draw_plasma_noise(rng: np.random.Generator, num_frames: int, height: int, width: int) -> NDArray[np.float64]:
    """The uniform numbers in [-1, 1) that the diamond-square algorithm consumes, in its order."""
    side = plasma_side(height, width)
    return rng.uniform(-1, 1, max(0, side * side - 1))


def plasma_side(height: int, width: int) -> int:
    """The smallest power of two that covers both sides."""
    return 1 << math.ceil(math.log2(max(height, width)))


def plasma(noise: NDArray[np.float64], side: int, decay: float) -> NDArray[np.float64]:
    """A fractal map of side x side, in [0, 1], by the diamond-square algorithm on a torus.

    At each step size the centres of the squares are filled, then the middles of their top and left edges: the mean of
    four neighbours plus `amplitude^2` times uniform noise in [-1, 1). The amplitude starts at 100 and is divided by
    `decay` whenever the step is halved (ImageNet-C, as MLVP uses it). `noise` holds side^2 - 1 numbers.
    """
    surface = np.zeros((side, side))
    step, amplitude, used = side, 100.0, 0
    while step >= 2:
        half = step // 2
        corners = surface[::step, ::step]
        for rows, columns, neighbours in (
            (slice(half, None, step), slice(half, None, step), None),
            (slice(None, None, step), slice(half, None, step), 0),
            (slice(half, None, step), slice(None, None, step), 1),
        ):
            if neighbours is None:
                pairs = corners + np.roll(corners, -1, axis=0)
                total = pairs + np.roll(pairs, -1, axis=1)
            else:
                centres = surface[half::step, half::step]
                along = centres + np.roll(centres, 1, axis=neighbours)
                total = along + (corners + np.roll(corners, -1, axis=1 - neighbours))
            count = total.size
            drawn = noise[used : used + count].reshape(total.shape)
            surface[rows, columns] = total / 4 + amplitude * (amplitude * drawn)
            used += count
        step, amplitude = half, amplitude / decay
    surface -= surface.min()
    highest = surface.max()
    return surface / highest if highest else surface


def fog(
    noise: NDArray[np.float64], num_frames: int, height: int, width: int, *, intensity: float, decay: float
) -> Apply:
    """`(x + intensity * plasma) * m / (m + intensity)`, m the frame's largest x, 1 where it is 0 (MLVP App. E).

    The result never exceeds m, so nothing is clipped.
    """
    density = plasma(noise, plasma_side(height, width), decay)[:height, :width]
    veil = np.repeat((255 * intensity * density).astype(np.float32)[:, :, None], 3, axis=2)
    scratch = np.empty_like(veil)

    def apply(frame: Image, index: int) -> Image:
        largest = float(frame.max()) / 255 or 1.0
        np.add(frame, veil, out=scratch)
        np.multiply(scratch, np.float32(largest / (largest + intensity)), out=scratch)
        return scratch.astype(np.uint8)

    return apply


# --- snow ------------------------------------------------------------------------------------------------------------

FALL = 3
"""Rows that the curtain falls from one frame to the next."""

_SMALLEST_ZOOM = 2
_BAND = 1024


class Snow(NamedTuple):
    """One clip's snow: unit normal flakes (the canvas' centre, at the smallest zoom) and the wind's angle, degrees."""

    flakes: Plane
    angle: float


def draw_snow(rng: np.random.Generator, num_frames: int, height: int, width: int) -> Snow:
    """The flakes that every severity shares, and one angle uniform in [-135, -45] degrees.

    A canvas has the curtain's size, but zooming into its centre shows only a part; no more is drawn.
    """
    rows = _part(curtain_rows(num_frames, height), _SMALLEST_ZOOM)
    flakes = rng.standard_normal((rows, _part(width, _SMALLEST_ZOOM)), dtype=np.float32)
    return Snow(flakes, float(rng.uniform(-135, -45)))


def curtain_rows(num_frames: int, height: int) -> int:
    """The curtain's height: a frame's, and what falls past it."""
    return height + FALL * (num_frames - 1)


def snow(
    drawn: Snow,
    num_frames: int,
    height: int,
    width: int,
    *,
    loc: float,
    scale: float,
    zoom: float,
    threshold: float,
    radius: int,
    sigma: float,
    blend: float,
) -> Apply:
    """A falling curtain of motion-blurred flakes over a whitened frame (MLVP App. E; ImageNet-C's snow, moving).

    `b x + (1 - b) max(x, 1.5 grey(x) + 0.5) + s + rot180(s)`, clipped; frame i sees the curtain's rows 3i to 3i + H.
    """
    rows = curtain_rows(num_frames, height)
    canvas = _centre(drawn.flakes, (_part(rows, zoom), _part(width, zoom)), (rows, width)) * np.float32(scale)
    curtain = snow_curtain(
        canvas + np.float32(loc),
        (rows, width),
        zoom=zoom,
        threshold=threshold,
        radius=radius,
        sigma=sigma,
        angle=drawn.angle,
    )
    whiten = snow_layer(height, width, blend=blend)

    def apply(frame: Image, index: int) -> Image:
        return whiten(frame, curtain[FALL * index : FALL * index + height])

    return apply


def _part(size: int, zoom: float) -> int:
    return math.ceil(size / zoom)


def _centre(flakes: Plane, size: tuple[int, int], canvas: tuple[int, int]) -> Plane:
    """The centre part of a canvas, cut from the larger centre part that was drawn."""
    starts = []
    for axis in (0, 1):
        drawn_start = (canvas[axis] - flakes.shape[axis]) // 2
        starts.append(max(0, min((canvas[axis] - size[axis]) // 2 - drawn_start, flakes.shape[axis] - size[axis])))
    return flakes[starts[0] : starts[0] + size[0], starts[1] : starts[1] + size[1]]


def snow_curtain(
    part: Plane,
    size: tuple[int, int],
    *,
    zoom: float,
    threshold: float,
    radius: int,
    sigma: float,
    angle: float,
) -> Image:
    """A curtain of `size` (rows, columns), uint8, from the centre part of a canvas of normal noise.

    Zoomed bilinearly to the canvas' size, set to 0 below the threshold, truncated to uint8, motion blurred with
    ImageMagick's kernel. Made in bands of rows, so that memory holds bytes and not floats.
    """
    rows, columns = size
    curtain = np.empty(size, np.uint8)
    reach = 2 * radius
    zoomed_columns = _Zoom(part.shape[1], columns, zoom)
    zoomed_rows = _Zoom(part.shape[0], rows, zoom)
    for start in range(0, rows, _BAND):
        stop = min(start + _BAND, rows)
        above, below = max(0, start - reach), min(rows, stop + reach)
        band = zoomed_columns(zoomed_rows(part, above, below).T, 0, columns).T
        band = np.where(band < threshold, 0, np.minimum(band, 1))
        blurred = motion_blur((band * 255).astype(np.uint8), radius=radius, sigma=sigma, angle=angle)
        curtain[start:stop] = blurred[start - above : stop - above]
    return curtain


class _Zoom:
    """Bilinear zoom of the rows of an array about its centre, as scipy.ndimage.zoom of order 1 and a centred cut."""

    def __init__(self, size: int, full: int, zoom: float) -> None:
        zoomed = round(size * zoom)
        offset = (zoomed - full) // 2
        positions = (np.arange(full) + offset) * ((size - 1) / max(1, zoomed - 1))
        self._below = np.clip(np.floor(positions).astype(int), 0, max(0, size - 2))
        self._share = (positions - self._below)[:, None]
        self._next = min(1, size - 1)

    def __call__(self, array: NDArray[np.floating], start: int, stop: int) -> NDArray[np.float64]:
        below, share = self._below[start:stop], self._share[start:stop]
        zoomed: NDArray[np.float64] = array[below] * (1 - share) + array[below + self._next] * share
        return zoomed


def motion_blur(plane: Image, *, radius: int, sigma: float, angle: float) -> Image:
    """ImageMagick's motion blur of a uint8 plane: half a Gaussian along `angle` degrees, edges repeated, truncated."""
    taps = 2 * radius + 1
    weights = np.exp(-(np.arange(taps) ** 2) / (2 * sigma**2))
    weights /= weights.sum()
    padded = cv2.copyMakeBorder(plane, taps, taps, taps, taps, cv2.BORDER_REPLICATE).astype(np.float64)
    height, width = plane.shape
    blurred = np.zeros((height, width))
    for row, column, weight in _steps(angle, weights):
        blurred += weight * padded[taps + row : taps + row + height, taps + column : taps + column + width]
    # Weights sum to 1 only to rounding: a white plane must stay white.
    return np.floor(blurred + 1e-9).astype(np.uint8)


def _steps(angle: float, weights: NDArray[np.float64]) -> Iterator[tuple[int, int, float]]:
    direction = math.radians(angle)
    for tap, weight in enumerate(weights):
        yield math.ceil(tap * math.sin(direction) - 0.5), math.ceil(tap * math.cos(direction) - 0.5), float(weight)


def snow_layer(height: int, width: int, *, blend: float) -> Callable[[Image, Image], Image]:
    """The function (frame, curtain rows) -> frame with snow, all uint8.

    Both branches of the maximum are linear in the frame, so it is taken last: max(x, b x + (1 - b) (1.5 g + 0.5)),
    the snow added to both.
    """
    shape = (height, width)
    frame_values = np.empty((*shape, 3), np.float32)
    grey, veil = np.empty(shape, np.float32), np.empty(shape, np.float32)
    flakes = np.empty(shape, np.float32)
    veil_values, flake_values = np.empty((*shape, 3), np.float32), np.empty((*shape, 3), np.float32)

    def apply(frame: Image, rows: Image) -> Image:
        np.copyto(frame_values, frame)
        cv2.cvtColor(frame_values, cv2.COLOR_RGB2GRAY, dst=grey)
        np.add(rows, rows[::-1, ::-1], out=flakes, dtype=np.float32)
        # (1 - b)(1.5 g + 127.5) + s
        cv2.addWeighted(grey, 1.5 * (1 - blend), flakes, 1.0, 127.5 * (1 - blend), dst=veil)
        cv2.merge((veil, veil, veil), dst=veil_values)
        cv2.merge((flakes, flakes, flakes), dst=flake_values)
        cv2.add(frame_values, flake_values, dst=flake_values)
        cv2.scaleAdd(frame_values, blend, veil_values, dst=veil_values)
        cv2.max(flake_values, veil_values, dst=veil_values)
        np.minimum(veil_values, 255, out=veil_values)
        return veil_values.astype(np.uint8)

    return apply
