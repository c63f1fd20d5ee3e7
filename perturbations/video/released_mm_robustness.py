"""MM-Robustness' own code, where it is not ImageNet-C's formula: what its published numbers were measured with.

Its frames are OpenCV's, blue first, and its pictures are written by OpenCV, which rounds halves to the even level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Unpack

import cv2
import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.base.bounds import Joint, whole
from perturbations.base.kernel import Apply, FrameFunction, Kernel, Shape
from perturbations.video import blur, defocus, digital, frost, noise, style, weather

_Places = NDArray[np.int64]

_SIDE = 224
"""The frame that the code was written for."""

# --- glass -----------------------------------------------------------------------------------------------------------


def glass_blur(
    steps: NDArray[np.uint16], num_frames: int, height: int, width: int, *, sigma: float, delta: int, iterations: int
) -> Apply:
    """A Gaussian blur, one row of pixels replaced by near ones, and the blur again; rounded to uint8.

    The code's loops overwrite their own bounds, so that neither a second row nor a second iteration moves: `iterations`
    changes nothing. The first blur is truncated. `steps` as `blur.draw_glass` draws them.
    """
    row, rows, columns = glass_row(steps[0], height, width, delta)
    gaussian = blur.gaussian_blur(height, width, sigma)

    def apply(frame: Image, index: int) -> Image:
        moved = blur.truncated_levels(gaussian(frame))
        moved[row] = moved[rows, columns]
        return blur.rounded_levels(gaussian(moved))

    return apply


def glass_row(steps: NDArray[np.uint16], height: int, width: int, delta: int) -> tuple[int, _Places, _Places]:
    """The row of the frame that moves, and the (rows, columns) that its pixels are taken from, `width` of each.

    From the right to the left, each pixel takes the current value of a pixel up to `delta` away, which may be one to
    its right that has changed already. Pixels that are `delta` or less from the left border, or further right than
    224 - `delta`, stay; in a frame of no more than 2 `delta` pixels, all do. `steps` is uint16, 2 (down, right) x
    height x width.
    """
    row = min(height, _SIDE) - delta
    if row <= delta:
        return 0, np.zeros(width, np.int64), np.arange(width)
    rows, columns = np.full(width, row), np.arange(width)
    down, right = (steps[:, row].astype(np.int64) * (2 * delta) >> 16) - delta
    for column in range(min(width, _SIDE) - delta, delta, -1):
        source = column + right[column]
        moved = down[column] == 0
        rows[column] = rows[source] if moved else row + down[column]
        columns[column] = columns[source] if moved else source
    return row, rows, columns


# --- pixels ----------------------------------------------------------------------------------------------------------


def pixelate(drawn: None, num_frames: int, height: int, width: int, *, scale: float) -> Apply:
    """The frame as a square of `scale` * 224 pixels per side, and that as a frame of exchanged sides: width x height.

    Both steps are OpenCV's INTER_AREA, which enlarges by a rule of its own: neither blocks nor bilinear. The picture is
    stretched, not turned.
    """
    side = max(1, int(_SIDE * scale))

    def apply(frame: Image, index: int) -> Image:
        coarse = cv2.resize(frame, (side, side), interpolation=cv2.INTER_AREA)
        return np.asarray(cv2.resize(coarse, (height, width), interpolation=cv2.INTER_AREA), np.uint8)

    return apply


def shape_of_pixelate(realizations: Sequence[None], num_frames: int, height: int, width: int, *, scale: float) -> Shape:
    """The frame's sides, exchanged."""
    return Shape(height=width, width=height)


# --- weather ---------------------------------------------------------------------------------------------------------

_FOG_SIDE = 1024


def draw_plasma(rng: np.random.Generator, num_frames: int, height: int, width: int) -> NDArray[np.float32]:
    """Uniform numbers in [-1, 1) for a map of side 1024, or of one that covers the frame.

    In the order in which `weather.plasma` consumes them: a map of a smaller side takes the first of them.
    """
    side = max(_FOG_SIDE, weather.plasma_side(height, width))
    return rng.random(side**2 - 1, dtype=np.float32) * 2 - 1


def fog(
    uniform: NDArray[np.floating],
    num_frames: int,
    height: int,
    width: int,
    *,
    intensity: float,
    decay: float,
    side: int,
) -> Apply:
    """`weather.fog` of the top left part of a map whose side does not depend on the frame; rounded to uint8.

    `side` is a power of two up to 1024: small frames see little but the map's coarse shapes. Where a frame is larger,
    which stops the code, the map covers it. `uniform` holds the numbers of the map, or more.
    """
    density = weather.plasma(uniform, max(side, weather.plasma_side(height, width)), decay)[:height, :width]
    return weather.veiled(density, intensity=intensity, rounded=True)


def frost_on_lens(
    pane: frost.Pane, photograph: Image | None, num_frames: int, height: int, width: int, *, kept: float, added: float
) -> Apply:
    """`frost.frost` under the top left part of `photograph`, RGB uint8, not resized; rounded to uint8.

    The photograph's red and blue are exchanged, those of the frame are not. Where it is smaller than the frame, which
    stops the code, it is enlarged; where there is none, synthetic ice is used.
    """
    ice = pane.ice if photograph is None else frost_corner(photograph, height, width)
    return frost.iced(cv2.cvtColor(ice, cv2.COLOR_RGB2BGR).astype(np.uint8), kept=kept, added=added, rounded=True)


def frost_corner(photograph: Image, height: int, width: int) -> Image:
    """The top left part of a photograph, height x width x 3; the photograph is enlarged where it is smaller."""
    scale = max(height / photograph.shape[0], width / photograph.shape[1])
    if scale > 1:
        size = max(width, round(photograph.shape[1] * scale)), max(height, round(photograph.shape[0] * scale))
        photograph = cv2.resize(photograph, size, interpolation=cv2.INTER_LINEAR).astype(np.uint8)
    return np.ascontiguousarray(photograph[:height, :width])


def still_snow(
    drawn: weather.Snow, num_frames: int, height: int, width: int, *, blend: float, **flakes: Unpack[weather.Flakes]
) -> Apply:
    """`weather.still_snow` over a grey in which blue has red's share, and red has blue's; rounded to uint8."""
    layer = weather.snow_curtain(drawn, height, width, **flakes)
    cover = weather.snow_layer(height, width, blend=blend, grey=weather.GREY[::-1], rounded=True)
    return lambda frame, index: cover(frame, layer)


# --- style -----------------------------------------------------------------------------------------------------------


def style_transfer(
    realization: None, painter: style.Painter, num_frames: int, height: int, width: int, *, alpha: float
) -> FrameFunction:
    """`style.style_transfer` with the style's picture at its own size; rounded to uint8."""
    released = painter if painter.as_released is None else painter.as_released()
    return style.style_transfer(realization, released, num_frames, height, width, alpha=alpha)


# --- declarations ----------------------------------------------------------------------------------------------------


def _rounded(kernel: Kernel) -> Kernel:
    """The formula's kernel, rounded to uint8."""
    return replace(kernel, kernel=partial(kernel.kernel, rounded=True))


GAUSSIAN_NOISE = _rounded(noise.GAUSSIAN_NOISE)
SHOT_NOISE = _rounded(noise.SHOT_NOISE)
SPECKLE_NOISE = _rounded(noise.SPECKLE_NOISE)
DEFOCUS_BLUR = _rounded(defocus.DEFOCUS_BLUR)
GLASS_BLUR = replace(blur.GLASS_BLUR, kernel=glass_blur)
ZOOM_BLUR = _rounded(blur.ZOOM_BLUR)
STILL_SNOW = replace(weather.STILL_SNOW, kernel=still_snow)
FROST = replace(frost.FROST, kernel=frost_on_lens)
FOG = Kernel(
    kernel=fog,
    realization=draw_plasma,
    bounds={**weather.FOG.bounds, "side": whole(1, 1024)},
    joint=(Joint("side", lambda drawn: int(drawn["side"]).bit_count() == 1, "must be a power of two"),),
)
BRIGHTNESS = _rounded(weather.BRIGHTNESS)
CONTRAST = _rounded(digital.CONTRAST)
ELASTIC = _rounded(digital.ELASTIC)
PIXELATE = replace(digital.PIXELATE, kernel=pixelate, shape=shape_of_pixelate)
STYLE_TRANSFER = replace(style.STYLE_TRANSFER, kernel=style_transfer)
