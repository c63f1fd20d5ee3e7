"""The `demo` dataset: captioned cartoon scenes that the package draws itself, so every command runs without any data.

Scene `i` is a function of `i` alone. Random choices come from splitmix64, shapes from an integer sine table, and pixels
from integer arithmetic and OpenCV's fixed-point polygon drawing, so a scene has the same bytes on every machine.
Nothing here blurs, resizes or warps: those differ in the last bit between processors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Image = NDArray[np.uint8]
    Wide = NDArray[np.uint16]
    Points = NDArray[np.int64]

SIZE = (240, 320)  # height, width in pixels
FPS = 24
NUM_FRAMES = 72

Colour = tuple[int, int, int]
Polygon = list[tuple[int, int]]

_HEIGHT, _WIDTH = SIZE
_FAR_PAN, _NEAR_PAN = 20, 64  # pixels a layer travels during a clip: the nearer layer faster, which reads as depth
_FAR, _NEAR = _WIDTH + _FAR_PAN, _WIDTH + _NEAR_PAN  # width of the two layers in pixels
_SHIFT = 4  # drawing coordinates are sixteenths of a pixel, so that slow motion does not jump from pixel to pixel
_ONE = 1 << _SHIFT
_UNIT = 1000  # shapes are drawn around the origin with this radius, then scaled
_OUTLINE, _RIM = 4, 7  # thickness in pixels of the dark outline and of the pale rim around it

# 1024 * sin of whole degrees. No entry before rounding is near a half, so every C library gives the same table.
_SIN = [round(1024 * math.sin(math.radians(degree))) for degree in range(360)]


def _sin(degrees: int) -> int:
    return _SIN[degrees % 360]


def _cos(degrees: int) -> int:
    return _SIN[(degrees + 90) % 360]


class _Dice:
    """splitmix64: unlike `random`, its sequence is fixed for good."""

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

    def noise(self, height: int, width: int) -> NDArray[np.int64]:
        """int64 (height, width) of independent values 0..255: the same generator, all steps at once."""
        import numpy as np

        z = np.arange(1, height * width + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(self.bits())
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z >> np.uint64(56)).astype(np.int64).reshape(height, width)

    def clouds(self, height: int, width: int, cell: int) -> NDArray[np.int64]:
        """int64 (height, width) of values 0..255 that change smoothly over about `cell` pixels."""
        import numpy as np

        grid = self.noise(height // cell + 2, width // cell + 2)
        ramp = np.arange(cell, dtype=np.int64)
        ease = ramp * ramp * (3 * cell - 2 * ramp) * 256 // cell**3  # smoothstep, 0..255
        y, x = np.arange(height), np.arange(width)
        wy, wx = ease[y % cell][:, None], ease[x % cell]
        rows = (grid[y // cell] * (256 - wy) + grid[y // cell + 1] * wy) >> 8
        mixed: NDArray[np.int64] = (rows[:, x // cell] * (256 - wx) + rows[:, x // cell + 1] * wx) >> 8
        return mixed


# ------------------------------------------------------------------------------------------------------------ drawing


def _mix(first: Colour, second: Colour, part: int) -> Colour:
    """`part` 256ths of the way from the first colour to the second."""
    red, green, blue = (a + ((b - a) * part >> 8) for a, b in zip(first, second, strict=True))
    return red, green, blue


def _rect(left: int, top: int, right: int, bottom: int) -> Polygon:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _oval(x: int, y: int, rx: int, ry: int, start: int = 0, stop: int = 360, step: int = 6) -> Polygon:
    """The points of an ellipse, or of its arc from `start` to `stop` degrees (0 is right, 90 is down)."""
    last = stop if stop - start < 360 else stop - step
    return [(x + (rx * _cos(a) >> 10), y + (ry * _sin(a) >> 10)) for a in range(start, last + 1, step)]


def _band(line: Polygon, thickness: int) -> Polygon:
    """`line`, which runs from left to right, made `thickness` high."""
    return [*line, *((x, y + thickness) for x, y in reversed(line))]


def _levels(values: NDArray[np.int64]) -> Image:
    """Clipped to 0..255, in the row-major layout that OpenCV draws on."""
    import numpy as np

    return np.clip(values, 0, 255).astype(np.uint8, order="C")


def _surface(dice: _Dice, width: int, stops: Sequence[tuple[int, Colour]], patches: int = 4, grain: int = 3) -> Image:
    """RGB uint8 (240, width, 3): a vertical gradient through `stops` (row, colour), with soft patches and fine grain.

    `patches` and `grain` are the largest changes of brightness, in levels.
    """
    import numpy as np

    rows = np.empty((_HEIGHT, 3), np.int64)
    rows[:] = stops[0][1]
    for (top, first), (bottom, second) in pairwise(stops):
        for row in range(top, bottom):
            rows[row] = _mix(first, second, (row - top) * 256 // (bottom - top))
    rows[stops[-1][0] :] = stops[-1][1]
    soft = dice.clouds(_HEIGHT, width, 46) * 2 + dice.clouds(_HEIGHT, width, 19) - 384
    texture = soft * patches // 384 + ((dice.noise(_HEIGHT, width) - 128) * grain >> 7)
    return _levels(rows[:, None, :] + texture[:, :, None])


def _weights(image: Image, mask: Image) -> tuple[Wide, Wide]:
    """`image` and its coverage `mask`, uint8 (h, w), as the last two arguments of `_blend`."""
    import numpy as np

    cover = np.repeat(mask[:, :, None], 3, axis=2).astype(np.uint16)
    cover += cover >> 7  # 0..255 to 0..256, so that full coverage is exact
    return image * cover, 256 - cover


def _blend(image: Image, colours: Wide, keep: Wide) -> None:
    """image = image * keep + colours in place; `keep` is 0..256, `colours` already multiplied by what `keep` leaves."""
    import numpy as np

    mixed = image.astype(np.uint16)
    mixed *= keep
    mixed += colours
    mixed >>= 8
    image[...] = mixed


class _Canvas:
    """A picture under construction: `image` RGB uint8 (h, w, 3), and what was drawn on it, `mask` uint8 (h, w).

    All coordinates are whole pixels, and all edges are antialiased.
    """

    def __init__(self, image: Image) -> None:
        import numpy as np

        self.image = image
        self.mask = np.zeros(image.shape[:2], np.uint8)

    def _draw(self, points: Polygon, colour: Colour, shift: int) -> None:
        import cv2
        import numpy as np

        outline = [np.array(points, np.int32)]
        cv2.fillPoly(self.image, outline, colour, cv2.LINE_AA, shift)
        cv2.fillPoly(self.mask, outline, (255,), cv2.LINE_AA, shift)

    def fill(self, points: Polygon, colour: Colour) -> None:
        self._draw(points, colour, 0)

    def dot(self, x: int, y: int, rx: int, ry: int, colour: Colour) -> None:
        """An ellipse; its outline is finer than a pixel, so that small ones are round."""
        self._draw(_oval(x * _ONE, y * _ONE, rx * _ONE, ry * _ONE, step=10), colour, _SHIFT)

    def land(self, points: Polygon, texture: Image) -> None:
        """A polygon filled with `texture`, which has the size of the picture."""
        import numpy as np

        shape = _Canvas(np.zeros_like(self.image))
        shape.fill(points, (0, 0, 0))
        _blend(self.image, *_weights(texture, shape.mask))
        np.maximum(self.mask, shape.mask, out=self.mask)


def _near(colour: Colour) -> _Canvas:
    """A near layer with nothing on it. `colour` shows through a little where edges are antialiased."""
    import numpy as np

    return _Canvas(np.full((_HEIGHT, _NEAR, 3), colour, np.uint8))


# ---------------------------------------------------------------------------------------------------------- backdrops

# Each gives a far layer (240, 340), opaque, and a near layer (240, 384), of which the mask says where it is.
_Backdrop = tuple[_Canvas, _Canvas]


def _ridge(dice: _Dice, width: int, top: int, rough: int) -> Polygon:
    """A rolling horizon around row `top`, closed along the bottom edge; `rough` is its height in pixels."""
    waves = [(rough, dice.between(60, 110)), (rough // 2, dice.between(150, 230)), (rough // 4, dice.between(380, 520))]
    phases = [dice.between(0, 359) for _ in waves]
    line = []
    for x in range(-4, width + 8, 4):
        lift = sum(high * _sin(x * often // 100 + p) for (high, often), p in zip(waves, phases, strict=True))
        line.append((x, top + lift // 1024))
    return [*line, (width + 8, _HEIGHT + 4), (-4, _HEIGHT + 4)]


def _sun(canvas: _Canvas, x: int, y: int, radius: int, colour: Colour, sky: Colour) -> None:
    for ring in range(4, -1, -1):
        canvas.dot(x, y, radius + ring * 5, radius + ring * 5, _mix(colour, sky, ring * 52))


def _clouds(canvas: _Canvas, dice: _Dice, number: int, lowest: int) -> None:
    for k in range(number):
        x, y = (2 * k + 1) * _FAR // (2 * number) + dice.between(-28, 28), dice.between(28, lowest)
        puffs = [(x + n * 13 - 26, y - dice.between(0, 7), dice.between(10, 15) - abs(n - 2) * 2) for n in range(5)]
        for lower, colour in ((3, (206, 224, 241)), (0, (255, 255, 255))):
            for px, py, radius in puffs:
                canvas.dot(px, py + lower, radius + 3, radius, colour)


def _pine(canvas: _Canvas, x: int, foot: int, tall: int, colour: Colour, snow: Colour | None = None) -> None:
    """A pine tree of three tiers whose trunk ends at row `foot`, with `snow` on its branches."""
    trunk = max(tall // 18, 1)
    canvas.fill(_rect(x - trunk, foot - 8, x + trunk, foot), _mix((72, 54, 46), colour, 128))
    for tier in range(3):
        low, top, wide = foot - 5 - tier * tall // 4, foot - tall // 2 - tier * tall // 4, tall * (7 - 2 * tier) // 22
        canvas.fill(
            [(x, top), (x + wide, low), (x, low + 2), (x - wide, low)], _mix(colour, (255, 255, 255), tier * 10)
        )
        if snow:
            side, down = wide * 5 // 9, top + (low - top) * 5 // 9
            hem = [(x + side, down), (x + side // 3, down - 4), (x, down + 2), (x - side // 2, down - 5)]
            canvas.fill([(x, top), *hem, (x - side, down)], snow)


def _hills(dice: _Dice) -> _Backdrop:
    far, near = _Canvas(_surface(dice, _FAR, [(0, (92, 168, 232)), (150, (214, 236, 250))])), _near((70, 120, 56))
    _sun(far, dice.between(40, 290), 38, 15, (255, 244, 196), (130, 192, 238))
    _clouds(far, dice, 3, 78)
    far.land(_ridge(dice, _FAR, 128, 20), _surface(dice, _FAR, [(90, (128, 162, 196)), (180, (178, 204, 216))]))
    far.land(_ridge(dice, _FAR, 160, 14), _surface(dice, _FAR, [(130, (118, 178, 128)), (210, (88, 152, 92))], 10))
    horizon = _ridge(dice, _NEAR, 194, 12)
    for x, y in horizon[3:-4:6]:  # a tree now and then, behind the crest of the nearest hill
        if dice.between(0, 2):
            tall = dice.between(8, 13)
            near.fill(_rect(x - 2, y - tall, x + 2, y + 6), (104, 78, 52))
            near.dot(x, y - tall - 3, tall - 1, tall, (48, 112, 60))
            near.dot(x - 2, y - tall - 5, tall - 5, tall - 4, (78, 146, 78))
    near.land(horizon, _surface(dice, _NEAR, [(176, (126, 190, 84)), (239, (68, 138, 52))], 14, 12))
    return far, near


def _brick(dice: _Dice) -> _Backdrop:
    import numpy as np

    wall = _surface(dice, _FAR, [(0, (206, 194, 180)), (239, (178, 166, 154))], 6, 8)
    base = ((186, 92, 70), (172, 104, 84), (160, 82, 72))[dice.between(0, 2)]
    for top in range(0, _HEIGHT, 15):
        for x in range(-36 + top // 15 % 2 * 18, _FAR, 36):
            light = dice.between(-24, 24)
            red, green, blue = (part + light + dice.between(-5, 5) for part in base)
            brick = (red, green, blue)
            left, right, bottom = max(x, 0), x + 34, top + 13  # lit from the upper left: two edges light, two dark
            wall[top:bottom, left:right] = _mix(brick, (0, 0, 0), 56)
            wall[top : bottom - 1, left : right - 1] = _mix(brick, (255, 240, 220), 52)
            wall[top + 1 : bottom - 1, max(x + 1, 0) : right - 1] = brick
    light_from_above = 16 - np.arange(_HEIGHT)[:, None] // 8
    stains = (dice.clouds(_HEIGHT, _FAR, 40) - 128) * 14 + (dice.noise(_HEIGHT, _FAR) - 128) * 11 >> 7
    far, near = _Canvas(_levels(wall + (stains + light_from_above)[:, :, None])), _near((120, 118, 116))
    paving = _surface(dice, _NEAR, [(206, (176, 172, 166)), (239, (136, 132, 128))], 8, 12)
    near.land(_rect(-2, 206, _NEAR + 2, 242), paving)
    near.image[206:209] = (212, 208, 200)
    near.image[209:211] = (104, 100, 98)
    for x in range(10, _NEAR, 48):
        near.fill([(x, 211), (x + 1, 211), (x - 7, 240), (x - 9, 240)], (112, 108, 106))
    return far, near


def _floor(dice: _Dice) -> _Backdrop:
    import numpy as np

    papers = ((238, 214, 186), (66, 84, 116)), ((198, 220, 214), (120, 66, 62)), ((226, 208, 226), (60, 96, 84))
    wall, tile = papers[dice.between(0, 2)]
    skirting, shade = 118, _mix(wall, (60, 40, 40), 100)
    far = _Canvas(
        _surface(dice, _FAR, [(0, _mix(wall, (255, 255, 255), 60)), (130, _mix(wall, (80, 60, 60), 36))], 4, 4)
    )
    for x in range(0, _FAR, 28):  # wallpaper: broad stripes, and a row of diamonds between two of them
        far.image[:skirting, x : x + 10] -= np.uint8(12)
        for y in range(14 + x // 28 % 2 * 16, 108, 32):
            far.fill([(x + 19, y - 6), (x + 23, y), (x + 19, y + 6), (x + 15, y)], _mix(wall, tile, 120))
    near, horizon = _near(tile), 130
    far.image[skirting:horizon] = _mix(wall, (255, 255, 255), 150)
    far.image[skirting : skirting + 2] = far.image[horizon - 2 : horizon] = shade
    # The tiles, sampled 4 x 4 times a pixel and averaged: they would flicker near the horizon otherwise.
    depth = _HEIGHT - horizon
    across, down = np.arange(_NEAR * 4) - _NEAR * 2, np.arange(depth * 4)[:, None] + 60
    odd = (across * 25 // (down * 12) + 1600 // down) & 1
    share = odd.reshape(depth, 4, _NEAR, 4).sum(axis=(1, 3)) * 16
    pale, dark = np.array((244, 238, 226)), np.array(tile)
    wear = (dice.clouds(depth, _NEAR, 20) - 128) * 8 + (dice.noise(depth, _NEAR) - 128) * 5 >> 7
    near.image[horizon:] = _levels(pale + ((dark - pale) * share[:, :, None] >> 8) + wear[:, :, None])
    near.mask[horizon:] = 255
    return far, near


def _sea(dice: _Dice) -> _Backdrop:
    stops = [(0, (96, 176, 236)), (120, (226, 242, 250)), (122, (52, 138, 190)), (239, (24, 92, 156))]
    far, near = _Canvas(_surface(dice, _FAR, stops)), _near((30, 104, 168))
    _clouds(far, dice, 3, 86)
    for _ in range(170):  # glints, longer towards the viewer
        x, y = dice.between(0, _FAR), dice.between(124, 205)
        long = 3 + (y - 120) // 8
        far.fill(
            [(x - long, y), (x + long, y), (x, y + 1)], _mix((150, 208, 232), (86, 160, 206), dice.between(0, 255))
        )
    for k, top in enumerate((176, 196, 216)):
        length, height, phase = 44 + 8 * k, 4 + k, dice.between(0, 359)
        crest = [(x, top - (height * abs(_sin(x * 180 // length + phase)) >> 10)) for x in range(-2, _NEAR + 4, 2)]
        deep = _mix((44, 132, 190), (14, 74, 140), k * 100)
        shades = [(top - 8, _mix(deep, (160, 220, 236), 80)), (top + 22, deep), (239, _mix(deep, (0, 30, 80), 70))]
        near.land([*crest, (_NEAR + 4, 244), (-2, 244)], _surface(dice, _NEAR, shades, 10, 6))
        near.fill(_band(crest, 3), (222, 242, 248))
    return far, near


def _night(dice: _Dice) -> _Backdrop:
    far = _Canvas(_surface(dice, _FAR, [(0, (16, 22, 62)), (120, (44, 48, 112)), (239, (112, 88, 150))], 8, 3))
    for _ in range(120):
        x, y = dice.between(0, _FAR - 1), dice.between(0, 185)
        far.image[y, x] = _mix((60, 64, 120), (255, 252, 230), dice.between(90, 255))
    for _ in range(22):  # the brighter stars have four rays
        x, y, ray = dice.between(4, _FAR - 4), dice.between(4, 160), dice.between(2, 4)
        far.fill([(x, y - ray), (x + 1, y), (x, y + ray), (x - 1, y)], (255, 250, 214))
        far.fill([(x - ray, y), (x, y - 1), (x + ray, y), (x, y + 1)], (255, 250, 214))
    x, y = dice.between(60, 280), dice.between(40, 60)
    _sun(far, x, y, 20, (250, 244, 214), (34, 40, 98))
    for dx, dy, radius in ((-7, -5, 5), (6, 3, 4), (-3, 9, 3), (8, -9, 2)):  # craters of the moon
        far.dot(x + dx, y + dy, radius, radius, (226, 216, 182))
    far.land(_ridge(dice, _FAR, 186, 16), _surface(dice, _FAR, [(160, (62, 58, 118)), (230, (86, 74, 134))], 6))
    near = _near((20, 26, 52))
    for _ in range(38):
        _pine(near, dice.between(0, _NEAR), dice.between(216, 232), dice.between(22, 46), (20, 28, 56))
    near.land(_ridge(dice, _NEAR, 220, 6), _surface(dice, _NEAR, [(210, (26, 34, 62)), (239, (14, 18, 40))], 8, 6))
    return far, near


def _meadow(dice: _Dice) -> _Backdrop:
    far, near = _Canvas(_surface(dice, _FAR, [(0, (120, 190, 240)), (110, (236, 244, 240))])), _near((96, 164, 72))
    _clouds(far, dice, 2, 60)
    for x in range(-6, _FAR + 6, 11):  # a wood along the horizon
        far.dot(x, 116, 10, dice.between(9, 20), _mix((92, 146, 104), (124, 172, 120), dice.between(0, 255)))
    grass = [(112, (168, 206, 112)), (175, (116, 182, 82)), (239, (84, 154, 66))]
    far.land(_ridge(dice, _FAR, 118, 4), _surface(dice, _FAR, grass, 14, 10))
    near.land(_ridge(dice, _NEAR, 150, 6), _surface(dice, _NEAR, grass, 14, 14))
    for y in range(156, 248, 2):  # from the back to the front, growing
        tall, petal = 3 + (y - 140) // 9, 1 + (y - 140) // 27
        for _ in range(5):
            x, lean = dice.between(0, _NEAR), dice.between(-3, 3)
            green = _mix((60, 128, 52), (150, 204, 92), dice.between(0, 255))
            near.fill([(x - 1, y), (x + 1, y), (x + lean, y - tall)], green)
        if y % 4 == 0:
            x = dice.between(0, _NEAR)
            colour = ((246, 246, 240), (250, 214, 96), (236, 110, 122), (176, 132, 214))[dice.between(0, 3)]
            near.fill(_rect(x, y, x + 1, y + 2 * petal), (70, 140, 56))
            for dx, dy in _oval(0, 0, petal * 5 // 4, petal * 5 // 4, step=72):
                near.dot(x + dx, y + dy, petal, petal, colour)
            near.dot(x, y, max(petal * 2 // 3, 1), max(petal * 2 // 3, 1), (240, 160, 40))
    return far, near


def _desert(dice: _Dice) -> _Backdrop:
    far, near = _Canvas(_surface(dice, _FAR, [(0, (250, 178, 112)), (130, (255, 230, 178))])), _near((222, 166, 96))
    _sun(far, dice.between(50, 280), dice.between(52, 78), 20, (255, 248, 208), (252, 206, 142))
    for x in range(dice.between(-20, 20), _FAR, 92):  # table mountains, their right side in the shade
        wide, top = dice.between(24, 40), dice.between(98, 118)
        slope = [(x + wide, top), (x + wide + 12, 150)]
        far.fill([(x - wide - 12, 150), (x - wide, top), *slope], (208, 138, 112))
        far.fill([(x + wide // 2, 150), (x + wide // 3, top), *slope], (184, 112, 98))
    far.land(_ridge(dice, _FAR, 146, 12), _surface(dice, _FAR, [(130, (246, 204, 140)), (190, (226, 168, 100))], 9, 7))
    for place in range(dice.between(10, 60), _NEAR, 104):
        x, tall = place + dice.between(-20, 20), dice.between(30, 48)
        for green, aside in (((60, 112, 74), 0), ((96, 154, 96), -1)):  # a cactus, and the light on its left side
            near.dot(x + aside, 196 - tall // 2, 5 + aside, tall, green)
            for side in (-1, 1):
                arm, high = x + side * 12 + aside, 190 - tall // 2 - side * 4
                near.fill(_rect(x, high, arm, high + 4), green)
                near.dot(arm, high - 5, 3 + aside, 10, green)
    sand = _Canvas(_surface(dice, _NEAR, [(166, (248, 208, 142)), (239, (214, 154, 86))], 10, 10))
    for k, top in enumerate(range(192, 244, 8)):  # wind ripples
        ripple = [(x, top + (3 * _sin(x * (4 - k % 3) + k * 70) >> 10)) for x in range(-4, _NEAR + 8, 6)]
        sand.fill(_band(ripple, 1), (206, 148, 84))
    near.land(_ridge(dice, _NEAR, 180, 8), sand.image)
    return far, near


def _forest(dice: _Dice) -> _Backdrop:
    far, near = _Canvas(_surface(dice, _FAR, [(0, (176, 204, 228)), (150, (232, 240, 246))])), _near((226, 236, 246))
    for x in range(-8, _FAR + 10, 17):
        _pine(far, x + dice.between(-6, 6), 182, dice.between(70, 108), (164, 190, 208))
    far.land(_ridge(dice, _FAR, 174, 5), _surface(dice, _FAR, [(160, (226, 236, 244)), (220, (206, 222, 236))]))
    for x in range(dice.between(0, 12), _FAR, 38):
        _pine(far, x + dice.between(-9, 9), 196, dice.between(84, 124), (96, 138, 140), (228, 238, 246))
    for x in range(dice.between(0, 40), _NEAR, 92):
        _pine(near, x + dice.between(-16, 16), 214, dice.between(104, 136), (44, 98, 84), (244, 250, 255))
    near.land(
        _ridge(dice, _NEAR, 202, 4), _surface(dice, _NEAR, [(196, (248, 252, 255)), (239, (204, 220, 238))], 10, 6)
    )
    return far, near


def _city(dice: _Dice) -> _Backdrop:
    dusk = [(0, (70, 62, 132)), (90, (206, 110, 138)), (170, (255, 194, 120)), (239, (255, 214, 150))]
    far, near = _Canvas(_surface(dice, _FAR, dusk)), _near((58, 48, 96))
    _sun(far, dice.between(60, 270), 150, 22, (255, 238, 180), (246, 168, 126))
    x = -6
    while x < _FAR:
        wide, top = dice.between(16, 34), dice.between(112, 168)
        far.fill(_rect(x, top, x + wide, 242), _mix((164, 96, 136), (142, 84, 134), top))
        x += wide
    x = -10
    while x < _NEAR:
        wide, top, roof = dice.between(26, 46), dice.between(150, 196), dice.between(0, 2)
        wall = _mix((64, 54, 104), (44, 40, 84), dice.between(0, 255))
        near.fill(_rect(x, top, x + wide - 1, 242), wall)
        if roof == 0:
            near.fill(_rect(x + 8, top - 16, x + 10, top), wall)
        elif roof == 1:
            near.fill([*_rect(x + 18, top, x + 6, top - 9), (x + 12, top - 13), (x + 18, top - 9)], wall)
        panes = ((255, 218, 128), (250, 190, 96), (255, 236, 176), *[_mix(wall, (120, 120, 180), 60)] * 3)
        for left in range(max(x + 5, 0), x + wide - 7, 9):
            for row in range(top + 7, 236, 11):
                near.image[row : row + 6, left : left + 5] = panes[dice.between(0, 5)]
        x += wide
    return far, near


# ------------------------------------------------------------------------------------------------------------ objects


class _Part(NamedTuple):
    """One polygon of an object: `points` int64 (n, 2) in thousandths of the radius. The silhouette gets the outline."""

    tone: str  # a key of `_tones`
    points: Points
    silhouette: bool


def _tones(colour: Colour) -> dict[str, Colour]:
    """What the parts of an object of that colour are painted with."""
    return {
        "main": colour,
        "dark": _mix(colour, (30, 10, 40), 80),
        "light": _mix(colour, (255, 255, 255), 120),
        "pale": _mix(colour, (255, 255, 255), 205),
        "ink": (44, 36, 48),
        "white": (255, 255, 255),
        "glass": (206, 232, 246),
        "wood": (164, 112, 70),
        "grey": (190, 192, 198),
        "gold": (250, 206, 84),
        "fire": (252, 142, 50),
    }


def _part(tone: str, points: Polygon, silhouette: bool = False) -> _Part:
    import numpy as np

    return _Part(tone, np.array(points, np.int64), silhouette)


def _mirrored(line: Polygon) -> Polygon:
    """`line`, and back again on the other side of the vertical axis."""
    return [*line, *((-x, y) for x, y in reversed(line))]


def _petal(x: int, y: int, length: int, breadth: int, angle: int) -> Polygon:
    """An ellipse with half axes `length` and `breadth`, turned by `angle` degrees."""
    turned = []
    for px, py in _oval(0, 0, length, breadth):
        turned.append(
            (x + (px * _cos(angle) - py * _sin(angle) >> 10), y + (px * _sin(angle) + py * _cos(angle) >> 10))
        )
    return turned


def _ball() -> list[_Part]:
    segments = [_part("pale", [(0, 0), *_oval(0, 0, _UNIT, _UNIT, start, start + 60)]) for start in (0, 120, 240)]
    return [_part("main", _oval(0, 0, _UNIT, _UNIT), True), *segments, _part("dark", _oval(0, 0, 200, 200))]


def _box() -> list[_Part]:
    return [
        _part("light", [(-90, -640), *_oval(-330, -780, 260, 170, 20, 340)], True),
        _part("light", [(90, -640), *_oval(330, -780, 260, 170, 200, 520)], True),
        _part("main", _rect(-780, -420, 780, 900), True),
        _part("main", _rect(-880, -640, 880, -260), True),
        _part("dark", _rect(420, -260, 780, 900)),
        _part("dark", _rect(-780, -260, 780, -160)),
        _part("pale", _rect(-170, -640, 170, 900)),
        _part("ink", _oval(0, -690, 110, 90)),
    ]


def _star() -> list[_Part]:
    rim = [
        _oval(0, 0, radius, radius, a, a)[0]
        for k in range(5)
        for radius, a in ((1000, 72 * k - 90), (430, 72 * k - 54))
    ]
    facets = [_part("dark", [(0, 0), rim[k], rim[k + 1]]) for k in range(0, 10, 2)]
    return [_part("main", rim, True), *facets]


def _triangle() -> list[_Part]:
    return [
        _part("main", [(0, -950), (960, 720), (-960, 720)], True),
        _part("dark", [(0, -950), (960, 720), (330, 720)]),
        _part("light", [(-70, -700), (-40, -620), (-560, 480), (-720, 560)]),
    ]


def _car() -> list[_Part]:
    roof = [(-1000, -40), (-860, -120), (-560, -160), (-380, -560), (240, -560), (540, -140), (900, -60), (1000, 80)]
    return [
        _part("main", [(-1000, 380), *roof, (1000, 380)], True),
        _part("dark", _rect(-1000, 160, 1000, 380)),
        _part("glass", [(-430, -170), (-300, -460), (-90, -460), (-90, -170)]),
        _part("glass", [(20, -170), (20, -460), (200, -460), (400, -170)]),
        _part("gold", _oval(900, 60, 90, 90)),
        _part("pale", _rect(-1000, 90, 760, 150)),
        *[_part("ink", _oval(x, 400, 250, 250), True) for x in (-530, 530)],
        *[_part("grey", _oval(x, 400, 120, 120)) for x in (-530, 530)],
    ]


def _fish() -> list[_Part]:
    return [
        _part("dark", [(-560, 0), (-1000, -480), (-880, 0), (-1000, 480)], True),
        _part("dark", [(-200, -380), (60, -760), (420, -420)], True),
        _part("dark", [(-100, 380), (-40, 700), (260, 420)], True),
        _part("main", _oval(140, 0, 840, 520), True),
        _part("light", _oval(140, 60, 780, 440, 10, 170)),
        _part("pale", [(-60, -505), (110, -518), (40, 0), (110, 518), (-60, 505), (-130, 0)]),
        _part("pale", [(-400, -390), (-280, -440), (-350, 0), (-280, 440), (-400, 390), (-460, 0)]),
        _part("white", _oval(610, -140, 150, 150)),
        _part("ink", _oval(650, -130, 80, 80)),
        _part("ink", [(960, 100), (760, 170), (940, 140)]),
    ]


def _kite() -> list[_Part]:
    tail = [(-2 * k - (110 * _sin(k * 6) >> 10), 280 + 7 * k) for k in range(0, 96, 5)]
    bows = [(x + side * 90, y) for x, y in tail[9::9] for side in (-1, 1)]
    return [
        _part("pale", [*((x - 26, y) for x, y in tail), *((x + 26, y) for x, y in reversed(tail))], True),
        *[_part("light", _petal(x, y, 100, 60, 0), True) for x, y in bows],
        _part("main", [(0, -1000), (600, -400), (0, 320), (-600, -400)], True),
        _part("pale", [(0, -1000), (600, -400), (0, -400)]),
        _part("pale", [(0, 320), (-600, -400), (0, -400)]),
    ]


def _balloon() -> list[_Part]:
    def gore(outer: int, inner: int, start: int) -> Polygon:
        """A stripe of the envelope from its top to its mouth: to the right from 270 degrees, to the left from 150."""
        mouth = [(x * 170 // 740 * (1 if start == 270 else -1), 520) for x in (outer, inner)]
        edges = [_oval(0, -280, x, 720, start, start + 120) for x in (outer, inner)]
        if start == 270:
            return [*edges[0], *mouth, *reversed(edges[1])]
        return [*edges[0], *reversed(edges[1]), *reversed(mouth)]

    return [
        _part("ink", [(-160, 500), (-120, 500), (-90, 760), (-130, 760)]),
        _part("ink", [(160, 500), (120, 500), (90, 760), (130, 760)]),
        _part("wood", [(-170, 720), (170, 720), (140, 1000), (-140, 1000)], True),
        _part("main", [*_oval(0, -280, 740, 720, 150, 390), (170, 520), (-170, 520)], True),
        _part("dark", gore(740, 520, 270)),
        _part("pale", gore(520, 200, 270)),
        _part("pale", gore(520, 200, 150)),
        _part("gold", _rect(-180, 780, 180, 830)),
    ]


def _rocket() -> list[_Part]:
    nose = [(k * 3 + 20, -1000 + k * k * 9 // 100) for k in range(0, 100, 12)]
    return [
        _part("fire", [(-180, 540), (180, 540), (110, 800), (0, 1000), (-110, 800)], True),
        _part("gold", [(-100, 540), (100, 540), (0, 820)]),
        *[_part("dark", [(x * 250, 60), (x * 620, 440), (x * 600, 720), (x * 200, 520)], True) for x in (-1, 1)],
        _part("pale", _mirrored([*nose, (330, 300), (240, 560)]), True),
        _part("main", _mirrored(nose)),
        _part("main", _mirrored([(310, 360), (240, 560)])),
        _part("ink", _oval(0, 0, 190, 190)),
        _part("glass", _oval(0, 0, 130, 130)),
    ]


def _butterfly() -> list[_Part]:
    wings = []
    for side in (-1, 1):
        tilt = 90 - side * 90  # the left wings are the right ones, turned about and tilted the other way
        wings += [_part("dark", _petal(side * 400, 400, 480, 330, tilt + side * 48), True)]
        wings += [_part("main", _petal(side * 500, -330, 640, 400, tilt - side * 42), True)]
        wings += [_part("pale", _petal(side * 640, -450, 250, 150, tilt - side * 42))]
        wings += [_part("light", _petal(side * 460, 460, 190, 130, tilt + side * 48))]
        wings += [_part("ink", [(0, -480), (side * 190, -830), (side * 240, -810), (side * 60, -440)])]
    return [*wings, _part("ink", _oval(0, 60, 110, 600)), _part("ink", _oval(0, -500, 130, 130))]


def _bird() -> list[_Part]:
    wings = [(-1000, -300), (-520, -520), (0, 60), (520, -520), (1000, -300)]
    return [_part("white", [*wings, (540, -260), (0, 420), (-540, -260)], True)]


def _bee() -> list[_Part]:
    return [
        _part("glass", _oval(-100, -480, 300, 480), True),
        _part("gold", _oval(0, 120, 820, 520), True),
        _part("ink", [(-300, -370), (-60, -400), (-60, 640), (-300, 610)]),
        _part("ink", [(220, -390), (440, -320), (440, 560), (220, 620)]),
    ]


def _leaf() -> list[_Part]:
    blade = [*_oval(0, 600, 1100, 1100, 210, 330), *_oval(0, -600, 1100, 1100, 30, 150)]
    return [_part("fire", blade, True), _part("wood", _rect(-1100, -40, 900, 40))]


# ------------------------------------------------------------------------------------------------------------- scenes


class _Object(NamedTuple):
    draw: Callable[[], list[_Part]]
    spin: int = 0  # degrees a frame
    sway: int = 0  # degrees to either side
    tilt: int = 0  # degrees towards where it goes
    foot: int = 0  # how far below its centre it stands, in thousandths of its radius; 0 for what flies
    faces: bool = False  # its front is on the right, so it is mirrored when it moves to the left
    flaps: bool = False


class _Place(NamedTuple):
    draw: Callable[[_Dice], _Backdrop]
    floor: int | None = None  # the row where things stand and cast a shadow; None where there is nothing to stand on
    snows: bool = False


_OBJECTS = {
    "ball": _Object(_ball, spin=5, foot=1000),
    "fish": _Object(_fish, sway=8, faces=True),
    "star": _Object(_star, spin=3),
    "car": _Object(_car, sway=2, foot=650, faces=True),
    "kite": _Object(_kite, sway=14),
    "box": _Object(_box, sway=4, foot=900),
    "balloon": _Object(_balloon, sway=5),
    "triangle": _Object(_triangle, sway=7, foot=750),
    "rocket": _Object(_rocket, sway=6, tilt=55),
    "butterfly": _Object(_butterfly, sway=10, flaps=True),
}
_COLOURS: dict[str, Colour] = {
    "red": (222, 52, 52),
    "yellow": (252, 206, 46),
    "blue": (48, 108, 222),
    "orange": (246, 136, 32),
    "green": (54, 168, 82),
    "pink": (246, 122, 174),
    "purple": (138, 76, 190),
    "turquoise": (38, 190, 184),
}
_PLACES = {
    "over green hills": _Place(_hills),
    "by a brick wall": _Place(_brick, floor=226),
    "under a starry sky": _Place(_night),
    "over a checkered floor": _Place(_floor, floor=212),
    "above the blue sea": _Place(_sea),
    "in a snowy forest": _Place(_forest, floor=220, snows=True),
    "over a city skyline": _Place(_city),
    "over a flower meadow": _Place(_meadow, floor=206),
    "in a sandy desert": _Place(_desert, floor=214),
}
_MOTIONS = (
    "moves to the right",
    "bounces along",
    "moves in circles",
    "zigzags along",
    "moves to the left",
    "comes closer",
    "rises slowly",
    "falls slowly",
)
_SIZES = {"large": 46, "small": 29}  # radius in pixels
_SECONDS = {"bird": _bird, "bee": _bee, "leaf": _leaf}

_COMBINATIONS = len(_OBJECTS) * len(_PLACES) * len(_MOTIONS) * len(_COLOURS) * len(_SIZES)
_STRIDE = 9461  # coprime to the number of combinations, and chosen so that neighbours differ in every respect


class _Scene(NamedTuple):
    thing: str
    place: str
    motion: str
    colour: str
    size: str
    second: str | None
    seed: int


class _Pose(NamedTuple):
    """Where an object is: centre and radius in sixteenths of a pixel, `angle` in degrees, mirrored and squeezed."""

    x: int
    y: int
    radius: int
    angle: int = 0
    width: int = 1024  # 1024ths; negative is mirrored


def _scene(index: int) -> _Scene:
    """What scene `index` shows. Two indices below 11520 never agree in everything that the caption names."""
    if index < 0:
        raise ValueError(f"scene index {index} is negative; scenes count from 0")
    rest = index * _STRIDE % _COMBINATIONS
    chosen = []
    for names in (_OBJECTS, _PLACES, _MOTIONS, _COLOURS, _SIZES):
        rest, digit = divmod(rest, len(names))
        chosen.append(list(names)[digit])
    dice = _Dice(index)
    second = list(_SECONDS)[dice.between(0, len(_SECONDS) - 1)] if dice.between(0, 2) == 0 else None
    thing, place, motion, colour, size = chosen
    return _Scene(thing, place, motion, colour, size, second, dice.bits())


def _caption(scene: _Scene) -> str:
    text = f"a {scene.size} {scene.colour} {scene.thing} {scene.motion} {scene.place}"
    return f"{text} near a {scene.second}" if scene.second else text


def items(clips: int) -> list[tuple[str, str]]:
    """The first `clips` items as (item_id, caption), such as ("demo-0000", "a large red ball bounces along ...").

    An item does not depend on `clips`. All captions are distinct up to 11520 clips. Raises ValueError below zero.
    """
    if clips < 0:
        raise ValueError(f"clips is {clips}; it must not be negative")
    return [(f"demo-{index:04d}", caption(index)) for index in range(clips)]


def caption(index: int) -> str:
    """What scene `index` shows, in words."""
    return _caption(_scene(index))


def _pose(scene: _Scene, t: int) -> _Pose:
    """Where the main object is in frame `t`. All of it stays inside the frame."""
    thing, floor = _OBJECTS[scene.thing], _PLACES[scene.place].floor
    size = _SIZES[scene.size]
    dice = _Dice(scene.seed)
    phase, aside = dice.between(0, 359), dice.between(-36, 36)
    # In sixteenths of a pixel: how far the centre may go, and where it is when the object stands on the floor.
    edge = (size * 9 // 8 + 8) * _ONE
    left, right, top = edge, _WIDTH * _ONE - edge, edge
    rest = min((floor or _HEIGHT - 14) * _ONE - size * _ONE * (thing.foot or 950) // 1000, _HEIGHT * _ONE - edge)
    done = t * 1024 // (NUM_FRAMES - 1)
    across = left + (right - left) * done // 1024
    radius, heading = size * _ONE, 0
    x, y = (_WIDTH // 2 + aside) * _ONE, 112 * _ONE
    if scene.motion in ("moves to the right", "moves to the left"):
        heading = 1 if scene.motion == "moves to the right" else -1
        x = across if heading > 0 else left + right - across
        y = rest if thing.foot and floor else y + (5 * _ONE * _sin(t * 10 + phase) >> 10)
    elif scene.motion == "bounces along":
        heading, beat = 1, (t + 12) % 24
        x, y = across, rest - min(rest - top, 104 * _ONE) * beat * (24 - beat) // 144
    elif scene.motion == "zigzags along":
        heading, beat = 1, t % 24
        x, y = across, top + (rest - top) * min(beat, 24 - beat) // 12
    elif scene.motion == "moves in circles":
        x += 62 * _ONE * _cos(t * 10 + phase) >> 10
        y += (112 * _ONE - top) * _sin(t * 10 + phase) >> 10
    elif scene.motion == "comes closer":
        ease = done * done * (3 * 1024 - 2 * done) >> 20
        x, y = (_WIDTH // 2 + (aside * (1024 - ease) >> 10)) * _ONE, (84 + (40 * ease >> 10)) * _ONE
        radius = radius * (384 + (640 * ease >> 10)) >> 10
    else:
        x += 20 * _ONE * _sin(t * 8 + phase) >> 10
        y = top + (rest - top) * (1024 - done if scene.motion == "rises slowly" else done) // 1024
    angle = thing.spin * t * (heading or 1) + thing.tilt * heading + (thing.sway * _sin(t * 9 + phase) >> 10)
    width = 760 + (264 * _cos(t * 45) >> 10) if thing.flaps else 1024
    return _Pose(x, y, radius, angle, -width if thing.faces and heading < 0 else width)


def _placed(part: _Part, pose: _Pose) -> NDArray[np.int32]:
    """The part's points in the frame, int32 (n, 2) in sixteenths of a pixel."""
    import numpy as np

    sine, cosine = _sin(pose.angle), _cos(pose.angle)
    x, y = part.points[:, 0] * pose.width >> 10, part.points[:, 1]
    moved = np.stack([x * cosine - y * sine, x * sine + y * cosine], axis=1) * pose.radius // (1024 * _UNIT)
    placed: NDArray[np.int32] = (moved + np.array((pose.x, pose.y))).astype(np.int32)
    return placed


def _draw(frame: Image, parts: Sequence[_Part], tones: dict[str, Colour], pose: _Pose, outline: int, rim: int) -> None:
    """Draw an object: a pale rim and a dark outline around its silhouette, then its parts in order."""
    import cv2

    placed = [_placed(part, pose) for part in parts]
    silhouette = [points for part, points in zip(parts, placed, strict=True) if part.silhouette]
    for thickness, tone in ((rim, "white"), (outline, "ink")):
        if thickness:
            cv2.polylines(frame, silhouette, True, tones[tone], thickness, cv2.LINE_AA, _SHIFT)
    for part, points in zip(parts, placed, strict=True):
        cv2.fillPoly(frame, [points], tones[part.tone], cv2.LINE_AA, _SHIFT)


def _shadow(frame: Image, pose: _Pose, floor: int) -> None:
    """Darken an ellipse on the floor below the object: the higher it is, the smaller and fainter."""
    import numpy as np

    height = max(floor - (pose.y + pose.radius) // _ONE, 0)
    rx = pose.radius * (256 - height) // 256 // _ONE
    x, ry = pose.x // _ONE, max(rx // 5, 2)
    top, left = floor - ry - 2, max(x - rx - 2, 0)
    patch = frame[top : floor + ry + 3, left : x + rx + 3]
    shape = _Canvas(np.zeros_like(patch))
    shape.dot(x - left, floor - top, rx, ry, (0, 0, 0))
    shade = shape.mask[:, :, None].astype(np.uint16) * np.uint16(max(110 - height // 2, 40)) >> 8
    patch[...] = patch * (256 - shade) >> 8


def _snow(frame: Image, flakes: NDArray[np.int64], t: int) -> None:
    """Draw `flakes` (2, n), numbers 0..255, where they have fallen to in frame `t`: the larger ones faster."""
    import numpy as np

    n = np.arange(flakes.shape[1])
    large = n % 3 == 0
    x = (flakes[0] * 5 // 4 + t * (n % 5 - 2) // 3) % (_WIDTH - 1)
    y = (flakes[1] + t * np.where(large, 2, 1)) % (_HEIGHT - 1)
    frame[y, x] = 255
    for dx, dy in ((1, 0), (0, 1), (1, 1)):
        frame[y[large] + dy, x[large] + dx] = 255


def frames(index: int, positions: Iterable[int] = range(NUM_FRAMES)) -> Iterator[Image]:
    """Frames of scene `index`, each a new RGB uint8 array (240, 320, 3); the same on every call.

    `positions` are the frames that are drawn, of 72. Raises ValueError where `index` is negative.
    """
    return _film(_scene(index), positions)


def _film(scene: _Scene, positions: Iterable[int] = range(NUM_FRAMES)) -> Iterator[Image]:
    dice = _Dice(scene.seed)
    place = _PLACES[scene.place]
    far, near = place.draw(dice)
    backwards = dice.between(0, 1) == 1
    # Above row `top` the near layer is empty; from row `solid` on it hides the far one, and needs no blending.
    top = int(near.mask.any(axis=1).argmax())
    solid = _HEIGHT - int((near.mask.min(axis=1) < 255)[::-1].argmax())
    colours, keep = _weights(near.image[top:solid], near.mask[top:solid])
    parts, tones = _OBJECTS[scene.thing].draw(), _tones(_COLOURS[scene.colour])
    second = _SECONDS[scene.second]() if scene.second else []
    second_x, second_y = dice.between(40, 120) * _ONE, dice.between(34, 80) * _ONE
    flakes = dice.noise(2, 110)
    for t in positions:
        p = NUM_FRAMES - 1 - t if backwards else t
        far_x, near_x = _FAR_PAN * p // (NUM_FRAMES - 1), _NEAR_PAN * p // (NUM_FRAMES - 1)
        frame = far.image[:, far_x : far_x + _WIDTH].copy()
        if second:
            drift = _Pose(second_x + 20 * t, second_y + (60 * _sin(t * 12) >> 10), 9 * _ONE, 12 * _sin(t * 15) >> 10)
            _draw(frame, second, tones, drift, 2, 0)
        view = slice(near_x, near_x + _WIDTH)
        _blend(frame[top:solid], colours[:, view], keep[:, view])
        frame[solid:] = near.image[solid:, view]
        if place.snows:
            _snow(frame, flakes, t)
        pose = _pose(scene, t)
        if place.floor:
            _shadow(frame, pose, place.floor)
        _draw(frame, parts, tones, pose, _OUTLINE, _RIM)
        yield frame


def boxes(index: int) -> list[tuple[int, int, int, int]]:
    """Where the main object is in each of the 72 frames: (left, top, right, bottom) in pixels, the last two exclusive.

    The pale rim around the object is part of it. Raises ValueError where `index` is negative.
    """
    import numpy as np

    scene = _scene(index)
    soft = _ONE  # antialiasing spreads an edge by about a pixel
    parts = [(part, soft + _RIM * _ONE // 2 * part.silhouette) for part in _OBJECTS[scene.thing].draw()]
    found = []
    for t in range(NUM_FRAMES):
        pose = _pose(scene, t)
        reach = np.concatenate([_placed(part, pose) + side * rim for part, rim in parts for side in (-1, 1)])
        left, top = (int(low) // _ONE for low in reach.min(axis=0))
        right, bottom = (-(-int(high) // _ONE) + 1 for high in reach.max(axis=0))
        found.append((max(left, 0), max(top, 0), min(right, _WIDTH), min(bottom, _HEIGHT)))
    return found
