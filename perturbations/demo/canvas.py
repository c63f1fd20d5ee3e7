"""Tools for drawing scenes: random choices, shapes, surfaces, and a picture under construction.

Random choices come from splitmix64, shapes from an integer sine table, and pixels from integer arithmetic and OpenCV's
fixed-point polygon drawing, so a drawing has the same bytes on every machine. Nothing here blurs, resizes or warps,
because the last bit of those differs between processors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image

Wide = NDArray[np.uint16]

SIZE = (240, 320)  # height, width in pixels
HEIGHT, WIDTH = SIZE

Colour = tuple[int, int, int]
Polygon = list[tuple[int, int]]

SHIFT = 4  # drawing coordinates are sixteenths of a pixel, so that slow motion does not jump from pixel to pixel
PIXEL = 1 << SHIFT


# 1024 * sin of whole degrees. No entry before rounding is near a half, so every C library gives the same table.
_SIN = [round(1024 * math.sin(math.radians(degree))) for degree in range(360)]


def sin(degrees: int) -> int:
    """1024 times the sine, rounded."""
    return _SIN[degrees % 360]


def cos(degrees: int) -> int:
    """1024 times the cosine, rounded."""
    return _SIN[(degrees + 90) % 360]


class Dice:
    """splitmix64: unlike that of `random`, its sequence never changes."""

    def __init__(self, seed: int) -> None:
        self._state = (seed * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) & 0xFFFFFFFFFFFFFFFF

    def bits(self) -> int:
        """The next 64 random bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return z ^ (z >> 31)

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + (self.bits() >> 16) % (high - low + 1)

    def noise(self, height: int, width: int) -> NDArray[np.int32]:
        """int32 (height, width) of independent values 0..255: the same generator, all steps at once."""
        z = np.arange(1, height * width + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(self.bits())
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z >> np.uint64(56)).astype(np.int32).reshape(height, width)

    def clouds(self, height: int, width: int, cell: int) -> NDArray[np.int32]:
        """int32 (height, width) of values 0..255 that change smoothly over about `cell` pixels."""
        grid = self.noise(height // cell + 2, width // cell + 2)
        ramp = np.arange(cell, dtype=np.int64)
        ease = (ramp * ramp * (3 * cell - 2 * ramp) * 256 // cell**3).astype(np.int32)  # smoothstep, 0..255
        y, x = np.arange(height), np.arange(width)
        wy, wx = ease[y % cell][:, None], ease[x % cell]
        rows = (grid[y // cell] * (256 - wy) + grid[y // cell + 1] * wy) >> 8
        mixed: NDArray[np.int32] = (rows[:, x // cell] * (256 - wx) + rows[:, x // cell + 1] * wx) >> 8
        return mixed


def mix(first: Colour, second: Colour, part: int) -> Colour:
    """`part` 256ths of the way from the first colour to the second."""
    red, green, blue = (a + ((b - a) * part >> 8) for a, b in zip(first, second, strict=True))
    return red, green, blue


def rect(left: int, top: int, right: int, bottom: int) -> Polygon:
    """The corners of an upright rectangle."""
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def oval(x: int, y: int, rx: int, ry: int, start: int = 0, stop: int = 360, step: int = 6) -> Polygon:
    """The points of an ellipse, or of its arc from `start` to `stop` degrees (0 is right, 90 is down)."""
    last = stop if stop - start < 360 else stop - step
    return [(x + (rx * across >> 10), y + (ry * down >> 10)) for across, down in _directions(start, last, step)]


@cache
def _directions(start: int, last: int, step: int) -> list[tuple[int, int]]:
    """1024 times the cosine and the sine of some degrees."""
    return [(cos(degrees), sin(degrees)) for degrees in range(start, last + 1, step)]


def band(line: Polygon, thickness: int) -> Polygon:
    """A polygon `thickness` high below `line`, which runs from left to right."""
    return [*line, *((x, y + thickness) for x, y in reversed(line))]


def levels(values: NDArray[np.integer]) -> Image:
    """Clipped to 0..255, in the row-major layout that OpenCV draws on."""
    clipped: Image = np.clip(values, 0, 255).astype(np.uint8, order="C")
    return clipped


def surface(dice: Dice, width: int, stops: Sequence[tuple[int, Colour]], patches: int = 4, grain: int = 3) -> Image:
    """RGB uint8 (240, width, 3): a vertical gradient through `stops` (row, colour), with soft patches and fine grain.

    `patches` and `grain` are the largest changes of brightness, in levels.
    """
    rows = np.empty((HEIGHT, 3), np.int16)
    rows[:] = stops[0][1]
    for (top, first), (bottom, second) in pairwise(stops):
        parts = np.arange(bottom - top)[:, None] * 256 // (bottom - top)
        rows[top:bottom] = np.array(first) + ((np.array(second) - np.array(first)) * parts >> 8)  # as `mix`
    rows[stops[-1][0] :] = stops[-1][1]
    soft = dice.clouds(HEIGHT, width, 46) * 2 + dice.clouds(HEIGHT, width, 19) - 384
    texture = soft * patches // 384 + ((dice.noise(HEIGHT, width) - 128) * grain >> 7)
    # One channel after another: NumPy adds whole rows much faster than three numbers at a time.
    channels = [levels(rows[:, channel, None] + texture.astype(np.int16)) for channel in range(3)]
    return cv2.merge(channels).astype(np.uint8, copy=False)


def weights(image: Image, mask: Image) -> tuple[Wide, Wide]:
    """`image` and its coverage `mask`, uint8 (h, w), as the last two arguments of `blend`."""
    cover = np.repeat(mask[:, :, None], 3, axis=2).astype(np.uint16)
    cover += cover >> 7  # 0..255 to 0..256, so that full coverage is exact
    return image * cover, 256 - cover


def blend(image: Image, colours: Wide, keep: Wide) -> None:
    """image = image * keep + colours, in place; `keep` is 0..256, `colours` is already multiplied by 256 - keep."""
    mixed = image.astype(np.uint16)
    mixed *= keep
    mixed += colours
    mixed >>= 8
    image[...] = mixed


class Canvas:
    """A picture under construction: `image` RGB uint8 (h, w, 3), and the pixels drawn so far, `mask` uint8 (h, w).

    All coordinates are whole pixels, and all edges are antialiased.
    """

    def __init__(self, image: Image) -> None:
        self.image = image
        self.mask = np.zeros(image.shape[:2], np.uint8)

    def _draw(self, points: Polygon, colour: Colour, shift: int) -> None:
        outline = [np.array(points, np.int32)]
        cv2.fillPoly(self.image, outline, colour, cv2.LINE_AA, shift)
        cv2.fillPoly(self.mask, outline, (255,), cv2.LINE_AA, shift)

    def fill(self, points: Polygon, colour: Colour) -> None:
        """Draw a polygon of one colour."""
        self._draw(points, colour, 0)

    def dot(self, x: int, y: int, rx: int, ry: int, colour: Colour) -> None:
        """An ellipse; its outline is finer than a pixel, so that small ones are round."""
        self._draw(oval(x * PIXEL, y * PIXEL, rx * PIXEL, ry * PIXEL, step=10), colour, SHIFT)

    def land(self, points: Polygon, texture: Image) -> None:
        """A polygon filled with `texture`, which has the size of the picture."""
        shape = Canvas(np.zeros_like(self.image))
        shape.fill(points, (0, 0, 0))
        blend(self.image, *weights(texture, shape.mask))
        np.maximum(self.mask, shape.mask, out=self.mask)
