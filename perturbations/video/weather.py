"""Fog, snow that falls or keeps its place, and bright daylight."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypedDict, Unpack

import cv2
import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import SAMPLED, Image, uniform_indices
from perturbations.base.bounds import REACH, SHARE, SIGMA_OF_TAPS, Bounds, Range
from perturbations.base.kernel import Apply, Kernel
from perturbations.video.blur import line_taps

_Plane = NDArray[np.float64]

# --- fog -------------------------------------------------------------------------------------------------------------


def draw_plasma(rng: np.random.Generator, num_frames: int, height: int, width: int) -> NDArray[np.float32]:
    """Uniform numbers in [-1, 1), in the order in which `plasma` consumes them."""
    return rng.random(plasma_side(height, width) ** 2 - 1, dtype=np.float32) * 2 - 1


def fog(
    uniform: NDArray[np.floating], num_frames: int, height: int, width: int, *, intensity: float, decay: float
) -> Apply:
    """`(x + intensity * p) * m / (m + intensity)`, x = frame / 255, p the plasma (MLVP, Tab. 37, App. E.1).

    m is the frame's largest x, 1 where that is 0. The result never exceeds m, so there is nothing to clip. Truncated
    to uint8.
    """
    density = plasma(uniform, plasma_side(height, width), decay)[:height, :width]
    return veiled(density, intensity=intensity, rounded=False)


def veiled(density: _Plane, *, intensity: float, rounded: bool) -> Apply:
    """The kernel that lays fog over a frame: `density`, height x width in [0, 1]; truncated or rounded."""
    veil = np.repeat((255 * intensity * density).astype(np.float32)[:, :, None], 3, axis=2)
    values = np.empty_like(veil)

    def apply(frame: Image, index: int) -> Image:
        largest = int(frame.max()) / 255 or 1.0
        np.copyto(values, frame)
        np.add(values, veil, out=values)
        np.multiply(values, np.float32(largest / (largest + intensity)), out=values)
        # Nothing is negative. OpenCV rounds.
        return np.asarray(cv2.convertScaleAbs(values) if rounded else values, np.uint8)

    return apply


def plasma_side(height: int, width: int) -> int:
    """The smallest power of two that covers both sides."""
    return 1 << (max(height, width) - 1).bit_length()


def plasma(uniform: NDArray[np.floating], side: int, decay: float) -> _Plane:
    """A fractal map in [0, 1], side x side, by the diamond-square algorithm on a torus (ImageNet-C's fog).

    Every level halves the grid: first the squares' centres, then the middles of their top edges, then of their left
    edges become the mean of four neighbours plus amplitude^2 times a uniform number in [-1, 1). The amplitude is 100
    at first and is divided by `decay` after each level. `uniform` holds side^2 - 1 numbers, `side` is a power of two.
    """
    surface = np.zeros((side, side))
    for level in range(side.bit_length() - 1):
        cells = 1 << level
        step, half = side // cells, side // cells // 2
        # All levels before this one have used cells^2 - 1 numbers.
        drawn = uniform[cells**2 - 1 : 4 * cells**2 - 1].reshape(3, cells, cells)
        drawn = (100 / decay**level) ** 2 * drawn
        corners, centres = surface[::step, ::step], surface[half::step, half::step]
        tops, lefts = surface[::step, half::step], surface[half::step, ::step]
        right, below = np.roll(corners, -1, axis=1), np.roll(corners, -1, axis=0)
        centres[...] = (corners + right + below + np.roll(below, -1, axis=1)) / 4 + drawn[0]
        tops[...] = (centres + np.roll(centres, 1, axis=0) + corners + right) / 4 + drawn[1]
        lefts[...] = (centres + np.roll(centres, 1, axis=1) + corners + below) / 4 + drawn[2]
    surface -= surface.min()
    surface /= surface.max() or 1.0
    return surface


# --- snow ------------------------------------------------------------------------------------------------------------

_FALL = 3
"""Rows that the snow falls from one frame to the next."""

_SMALLEST_ZOOM = 2
_BAND = 256


class Snow(NamedTuple):
    """One clip's snow.

    Attributes:
        flakes: unit normal noise: the canvas, or as much of its centre as the zoom can show.
        angle: of the flakes' motion blur, in degrees.
    """

    flakes: NDArray[np.floating]
    angle: float


class Flakes(TypedDict):
    """What becomes of the flakes that were drawn: see `snow_curtain`."""

    loc: float
    scale: float
    zoom: float
    threshold: float
    radius: int
    sigma: float


def draw_snow(rng: np.random.Generator, num_frames: int, height: int, width: int) -> Snow:
    """Flakes that every severity shares, and one angle, uniform in [-135, -45] degrees.

    The canvas is as large as the curtain, but every severity zooms into its centre, so only the part that the smallest
    zoom shows is drawn: of an hour of video the canvas is the largest thing there is.
    """
    angle = float(rng.uniform(-135, -45))
    shape = math.ceil(curtain_rows(num_frames, height) / _SMALLEST_ZOOM), math.ceil(width / _SMALLEST_ZOOM)
    return Snow(rng.standard_normal(shape, dtype=np.float32), angle)


def snow(drawn: Snow, num_frames: int, height: int, width: int, *, blend: float, **flakes: Unpack[Flakes]) -> Apply:
    """A curtain of motion-blurred flakes falls over a whitened clip, 3 rows per frame (MLVP, Tab. 37, App. E.1).

    Frame i sees the curtain's rows 3i to 3i + height.
    """
    curtain = snow_curtain(drawn, curtain_rows(num_frames, height), width, **flakes)
    cover = snow_layer(height, width, blend=blend, grey=GREY, rounded=False)

    def apply(frame: Image, index: int) -> Image:
        return cover(frame, curtain[_FALL * index : _FALL * index + height])

    return apply


def draw_sampled_snow(rng: np.random.Generator, num_frames: int, height: int, width: int) -> Snow:
    """The flakes and the angle for as many frames as MLVP's models read."""
    return draw_snow(rng, min(num_frames, SAMPLED), height, width)


def sampled_snow(
    drawn: Snow, num_frames: int, height: int, width: int, *, blend: float, **flakes: Unpack[Flakes]
) -> Apply:
    """`snow` that falls 3 rows per sampled frame, as MLVP's code makes it: it perturbs 12 uniformly sampled frames.

    The sampled frames of a full-length clip see what the code's 12 frames see. Between two of them the snow falls
    evenly, to whole rows; before the first and after the last it keeps its place. A clip of up to 12 frames is sampled
    whole.
    """
    sampled = min(num_frames, SAMPLED)
    places = uniform_indices(sampled, num_frames)
    fallen = np.interp(np.arange(num_frames), places, np.arange(sampled) * _FALL).astype(np.int64)
    curtain = snow_curtain(drawn, curtain_rows(sampled, height), width, **flakes)
    cover = snow_layer(height, width, blend=blend, grey=GREY, rounded=False)
    return lambda frame, index: cover(frame, curtain[fallen[index] : fallen[index] + height])


def draw_still_snow(rng: np.random.Generator, num_frames: int, height: int, width: int) -> Snow:
    """The flakes and the angle of one frame, which all frames show."""
    return draw_snow(rng, 1, height, width)


def still_snow(
    drawn: Snow, num_frames: int, height: int, width: int, *, blend: float, **flakes: Unpack[Flakes]
) -> Apply:
    """`snow` that does not fall: every frame sees the same curtain (MM-Robustness, Tab. 7; ImageNet-C)."""
    fall = snow(drawn, 1, height, width, blend=blend, **flakes)
    return lambda frame, index: fall(frame, 0)


def curtain_rows(num_frames: int, height: int) -> int:
    """The curtain's height: a frame, and what falls past it."""
    return height + _FALL * (num_frames - 1)


def snow_curtain(
    drawn: Snow,
    rows: int,
    columns: int,
    *,
    loc: float,
    scale: float,
    zoom: float,
    threshold: float,
    radius: int,
    sigma: float,
) -> Image:
    """The curtain, uint8 rows x columns.

    The zoomed canvas times `scale` plus `loc`, 0 where it is below `threshold`, truncated to uint8, motion-blurred.
    Made a band of rows at a time, so that of the whole curtain only bytes are in memory.
    """
    curtain = np.empty((rows, columns), np.uint8)
    reach = 2 * radius  # of the blur
    for start in range(0, rows, _BAND):
        stop = min(start + _BAND, rows)
        first, last = max(0, start - reach), min(rows, stop + reach)
        # Zooming is linear and its weights sum to 1, so scaling may follow it.
        band = zoomed_canvas(drawn.flakes, rows, columns, zoom, first, last) * np.float32(scale) + np.float32(loc)
        band[band < threshold] = 0
        flakes = (np.clip(band, 0, 1) * 255).astype(np.uint8)
        blurred = motion_blur(flakes, radius=radius, sigma=sigma, angle=drawn.angle)
        curtain[start:stop] = blurred[start - first : stop - first]
    return curtain


def zoomed_canvas(
    flakes: NDArray[np.floating], rows: int, columns: int, zoom: float, first: int, last: int
) -> NDArray[np.float32]:
    """Rows `first` to `last` of a rows x columns canvas after a bilinear zoom into its centre.

    `flakes` is the canvas or its centre. The same centre part is cut and enlarged as by `scipy.ndimage.zoom` of order
    1, and what is more than the canvas' size is trimmed on both sides.
    """
    upper, lower, down = (taps[first:last] for taps in _zoom_taps(rows, flakes.shape[0], zoom))
    left, right, across = _zoom_taps(columns, flakes.shape[1], zoom)
    tall = flakes[upper] * (1 - down)[:, None] + flakes[lower] * down[:, None]
    zoomed: _Plane = tall[:, left] * (1 - across) + tall[:, right] * across
    return zoomed.astype(np.float32)


def _zoom_taps(size: int, drawn: int, zoom: float) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.floating]]:
    """For each zoomed pixel of an axis: the two drawn ones it lies between, and the second one's share."""
    part = math.ceil(size / zoom)
    enlarged = round(part * zoom)
    trimmed = (enlarged - size) // 2
    places = (np.arange(size) + trimmed) * ((part - 1) / max(1, enlarged - 1))
    before: NDArray[np.int64] = np.minimum(places.astype(np.int64), max(0, part - 2))
    after = np.minimum(before + 1, part - 1)
    start = (size - part) // 2 - (size - drawn) // 2
    return start + before, start + after, places - before


def motion_blur(plane: Image, *, radius: int, sigma: float, angle: float) -> Image:
    """ImageMagick's motion blur of a uint8 plane: half a Gaussian of 2 radius + 1 taps along `angle` degrees.

    Borders are repeated, the result is truncated.
    """
    reach = 2 * radius + 1
    height, width = plane.shape
    padded = cv2.copyMakeBorder(plane, reach, reach, reach, reach, cv2.BORDER_REPLICATE).astype(np.float64)
    blurred = np.zeros((height, width))
    for down, across, weight in line_taps(radius, sigma, angle):
        top, left = reach + down, reach + across
        cv2.scaleAdd(padded[top : top + height, left : left + width], weight, blurred, dst=blurred)
    # ImageMagick rounds to its 16 bits, a grey level being 257 of them, before it truncates to 8.
    blurred += 0.5 / 257
    return blurred.astype(np.uint8)


GREY = (0.299, 0.587, 0.114)
"""The shares of red, green and blue in a grey level."""


def snow_layer(
    height: int, width: int, *, blend: float, grey: tuple[float, float, float], rounded: bool
) -> Callable[[Image, Image], Image]:
    """The function (frame, the curtain's rows) -> frame in the snow, all uint8.

    `blend * x + (1 - blend) * max(x, 1.5 * grey(x) + 0.5) + s + rot180(s)`, clipped, x = frame / 255, s = rows / 255.
    The snow is whole grey levels, so it is added last, with saturation. The maximum is taken over the whole first part
    instead, of x and `blend * x + (1 - blend) * (1.5 * grey(x) + 0.5)`: a linear map of the colours, which OpenCV
    computes in fixed point, within one grey level and the same on every processor. Truncated or rounded.
    """
    colours = blend * np.eye(3) + (1 - blend) * 1.5 * np.tile(grey, (3, 1))
    # OpenCV rounds the result: half a level less where the reference truncates. It also rounds the factors, to 1/1024:
    # what that adds to a middle grey is taken off again.
    added = 127.5 * (np.round(colours * 1024) / 1024 - colours).sum(axis=1)
    whiten = np.column_stack([colours, (1 - blend) * 127.5 - (0.0 if rounded else 0.5) - added])
    turned = np.empty((height, width), np.uint8)
    falling = np.empty((height, width, 3), np.uint8)

    def cover(frame: Image, rows: Image) -> Image:
        cv2.flip(rows, -1, dst=turned)
        cv2.add(rows, turned, dst=turned)
        cv2.cvtColor(turned, cv2.COLOR_GRAY2RGB, dst=falling)
        output = np.empty(frame.shape, np.uint8)
        cv2.transform(frame, whiten, dst=output)
        cv2.max(output, frame, dst=output)
        cv2.add(output, falling, dst=output)
        return output

    return cover


# --- brightness ------------------------------------------------------------------------------------------------------


def brightness(drawn: None, num_frames: int, height: int, width: int, *, added: float, rounded: bool = False) -> Apply:
    """V + `added`, clipped, in HSV with V in [0, 1] (ImageNet-C; MM-Robustness, Tab. 7). Truncated, or `rounded`.

    Hue and saturation stay, so every channel is multiplied by the same new V / V, and black turns grey: a table of
    V (rows) and the channel's level (columns).
    """
    values, levels = np.arange(256)[:, None], np.arange(256)[None, :]
    brighter = np.minimum(values / 255 + added, 1)
    share = np.minimum(levels / np.maximum(values, 1), 1)
    share[0] = 1
    bright = 255 * brighter * share
    # Whole numbers stay what they are.
    table = (np.rint(bright) if rounded else np.floor(bright + 1e-9)).astype(np.uint8).ravel()
    rows = np.empty((height, width), np.uint16)
    places = np.empty((height, width, 3), np.uint16)

    def apply(frame: Image, index: int) -> Image:
        red, green, blue = cv2.split(frame)
        np.multiply(cv2.max(cv2.max(red, green), blue), 256, out=rows, dtype=np.uint16)
        cv2.cvtColor(rows, cv2.COLOR_GRAY2RGB, dst=places)
        np.add(places, frame, out=places)
        output = np.empty(frame.shape, np.uint8)
        cv2.LUT(places, table, dst=output)
        return output

    return apply


# --- declarations ----------------------------------------------------------------------------------------------------

_SNOW: Bounds = {
    "loc": Range(0, 10),
    "scale": Range(0, 10),
    "zoom": Range(2, 100),  # of the canvas, only what a zoom of 2 shows is drawn
    "threshold": SHARE,
    "radius": REACH,
    "sigma": SIGMA_OF_TAPS,
    "blend": SHARE,
}
SNOW_OF_IMAGENET_C = tuple(
    dict(zip(_SNOW, row, strict=True))
    for row in (
        (0.1, 0.3, 3.0, 0.5, 10, 4.0, 0.8),
        (0.2, 0.3, 2.0, 0.5, 12, 4.0, 0.7),
        (0.55, 0.3, 4.0, 0.9, 12, 8.0, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8.0, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12.0, 0.55),
    )
)
"""Its five severities, which MLVP and MM-Robustness take."""
SNOW = Kernel(kernel=snow, realization=draw_snow, bounds=_SNOW)
SNOW_RELEASED = replace(SNOW, kernel=sampled_snow, realization=draw_sampled_snow, version=2)
STILL_SNOW = replace(SNOW, kernel=still_snow, realization=draw_still_snow)
FOG = Kernel(kernel=fog, realization=draw_plasma, bounds={"intensity": Range(0, 1000), "decay": Range(0.1, 100)})
BRIGHTNESS = Kernel(kernel=brightness, bounds={"added": SHARE})
