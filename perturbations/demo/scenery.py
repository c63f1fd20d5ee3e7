"""The places of the scenes: each has a far and a near layer, drawn again for every scene."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from perturbations.demo.canvas import (
    HEIGHT,
    WIDTH,
    Canvas,
    Colour,
    Dice,
    Polygon,
    band,
    levels,
    mix,
    oval,
    rect,
    sin,
    surface,
)

FAR_PAN, NEAR_PAN = 20, 64  # pixels that each layer moves per clip: the nearer layer moves faster, as depth does
_FAR, _NEAR = WIDTH + FAR_PAN, WIDTH + NEAR_PAN  # width of the two layers in pixels


# An opaque far layer (240, 340), and a near layer (240, 384) whose mask says where it is drawn.
_Backdrop = tuple[Canvas, Canvas]


def _near(colour: Colour) -> Canvas:
    """A near layer with nothing on it. `colour` shows through a little where edges are antialiased."""
    return Canvas(np.full((HEIGHT, _NEAR, 3), colour, np.uint8))


def _ridge(dice: Dice, width: int, top: int, rough: int) -> Polygon:
    """A rolling horizon around row `top`, closed along the bottom edge; `rough` is its height in pixels."""
    waves = [(rough, dice.between(60, 110)), (rough // 2, dice.between(150, 230)), (rough // 4, dice.between(380, 520))]
    phases = [dice.between(0, 359) for _ in waves]
    line = []
    for x in range(-4, width + 8, 4):
        lift = sum(high * sin(x * often // 100 + p) for (high, often), p in zip(waves, phases, strict=True))
        line.append((x, top + lift // 1024))
    return [*line, (width + 8, HEIGHT + 4), (-4, HEIGHT + 4)]


def _sun(canvas: Canvas, x: int, y: int, radius: int, colour: Colour, sky: Colour) -> None:
    for ring in range(4, -1, -1):
        canvas.dot(x, y, radius + ring * 5, radius + ring * 5, mix(colour, sky, ring * 52))


def _clouds(canvas: Canvas, dice: Dice, number: int, lowest: int) -> None:
    for k in range(number):
        x, y = (2 * k + 1) * _FAR // (2 * number) + dice.between(-28, 28), dice.between(28, lowest)
        puffs = [(x + n * 13 - 26, y - dice.between(0, 7), dice.between(10, 15) - abs(n - 2) * 2) for n in range(5)]
        for lower, colour in ((3, (206, 224, 241)), (0, (255, 255, 255))):
            for px, py, radius in puffs:
                canvas.dot(px, py + lower, radius + 3, radius, colour)


def _pine(canvas: Canvas, x: int, foot: int, tall: int, colour: Colour, snow: Colour | None = None) -> None:
    """A pine tree of three tiers whose trunk ends at row `foot`, with `snow` on its branches."""
    trunk = max(tall // 18, 1)
    canvas.fill(rect(x - trunk, foot - 8, x + trunk, foot), mix((72, 54, 46), colour, 128))
    for tier in range(3):
        low, top, wide = foot - 5 - tier * tall // 4, foot - tall // 2 - tier * tall // 4, tall * (7 - 2 * tier) // 22
        canvas.fill([(x, top), (x + wide, low), (x, low + 2), (x - wide, low)], mix(colour, (255, 255, 255), tier * 10))
        if snow:
            side, down = wide * 5 // 9, top + (low - top) * 5 // 9
            hem = [(x + side, down), (x + side // 3, down - 4), (x, down + 2), (x - side // 2, down - 5)]
            canvas.fill([(x, top), *hem, (x - side, down)], snow)


def _hills(dice: Dice) -> _Backdrop:
    far, near = Canvas(surface(dice, _FAR, [(0, (92, 168, 232)), (150, (214, 236, 250))])), _near((70, 120, 56))
    _sun(far, dice.between(40, 290), 38, 15, (255, 244, 196), (130, 192, 238))
    _clouds(far, dice, 3, 78)
    far.land(_ridge(dice, _FAR, 128, 20), surface(dice, _FAR, [(90, (128, 162, 196)), (180, (178, 204, 216))]))
    far.land(_ridge(dice, _FAR, 160, 14), surface(dice, _FAR, [(130, (118, 178, 128)), (210, (88, 152, 92))], 10))
    horizon = _ridge(dice, _NEAR, 194, 12)
    for x, y in horizon[3:-4:6]:  # some trees, behind the crest of the nearest hill
        if dice.between(0, 2):
            tall = dice.between(8, 13)
            near.fill(rect(x - 2, y - tall, x + 2, y + 6), (104, 78, 52))
            near.dot(x, y - tall - 3, tall - 1, tall, (48, 112, 60))
            near.dot(x - 2, y - tall - 5, tall - 5, tall - 4, (78, 146, 78))
    near.land(horizon, surface(dice, _NEAR, [(176, (126, 190, 84)), (239, (68, 138, 52))], 14, 12))
    return far, near


def _brick(dice: Dice) -> _Backdrop:
    wall = surface(dice, _FAR, [(0, (206, 194, 180)), (239, (178, 166, 154))], 6, 8)
    base = ((186, 92, 70), (172, 104, 84), (160, 82, 72))[dice.between(0, 2)]
    for top in range(0, HEIGHT, 15):
        for x in range(-36 + top // 15 % 2 * 18, _FAR, 36):
            light = dice.between(-24, 24)
            red, green, blue = (part + light + dice.between(-5, 5) for part in base)
            brick = (red, green, blue)
            left, right, bottom = max(x, 0), x + 34, top + 13  # lit from the upper left: two edges light, two dark
            wall[top:bottom, left:right] = mix(brick, (0, 0, 0), 56)
            wall[top : bottom - 1, left : right - 1] = mix(brick, (255, 240, 220), 52)
            wall[top + 1 : bottom - 1, max(x + 1, 0) : right - 1] = brick
    light_from_above = 16 - np.arange(HEIGHT)[:, None] // 8
    stains = (dice.clouds(HEIGHT, _FAR, 40) - 128) * 14 + (dice.noise(HEIGHT, _FAR) - 128) * 11 >> 7
    far, near = Canvas(levels(wall + (stains + light_from_above)[:, :, None])), _near((120, 118, 116))
    paving = surface(dice, _NEAR, [(206, (176, 172, 166)), (239, (136, 132, 128))], 8, 12)
    near.land(rect(-2, 206, _NEAR + 2, 242), paving)
    near.image[206:209] = (212, 208, 200)
    near.image[209:211] = (104, 100, 98)
    for x in range(10, _NEAR, 48):
        near.fill([(x, 211), (x + 1, 211), (x - 7, 240), (x - 9, 240)], (112, 108, 106))
    return far, near


def _floor(dice: Dice) -> _Backdrop:
    papers = ((238, 214, 186), (66, 84, 116)), ((198, 220, 214), (120, 66, 62)), ((226, 208, 226), (60, 96, 84))
    wall, tile = papers[dice.between(0, 2)]
    skirting, shade = 118, mix(wall, (60, 40, 40), 100)
    far = Canvas(surface(dice, _FAR, [(0, mix(wall, (255, 255, 255), 60)), (130, mix(wall, (80, 60, 60), 36))], 4, 4))
    for x in range(0, _FAR, 28):  # wallpaper: broad stripes, and a row of diamonds between two of them
        far.image[:skirting, x : x + 10] -= np.uint8(12)
        for y in range(14 + x // 28 % 2 * 16, 108, 32):
            far.fill([(x + 19, y - 6), (x + 23, y), (x + 19, y + 6), (x + 15, y)], mix(wall, tile, 120))
    near, horizon = _near(tile), 130
    far.image[skirting:horizon] = mix(wall, (255, 255, 255), 150)
    far.image[skirting : skirting + 2] = far.image[horizon - 2 : horizon] = shade
    # The tiles, averaged over 4 x 4 samples per pixel: they would flicker near the horizon otherwise.
    depth = HEIGHT - horizon
    across = np.arange(-_NEAR * 2, _NEAR * 2, dtype=np.int32)
    down = np.arange(60, 60 + depth * 4, dtype=np.int32)[:, None]
    odd = (across * 25 // (down * 12) + 1600 // down) & 1
    share = odd.reshape(depth, 4, _NEAR, 4).sum(axis=(1, 3)) * 16
    pale, dark = np.array((244, 238, 226)), np.array(tile)
    wear = (dice.clouds(depth, _NEAR, 20) - 128) * 8 + (dice.noise(depth, _NEAR) - 128) * 5 >> 7
    near.image[horizon:] = levels(pale + ((dark - pale) * share[:, :, None] >> 8) + wear[:, :, None])
    near.mask[horizon:] = 255
    return far, near


def _sea(dice: Dice) -> _Backdrop:
    stops = [(0, (96, 176, 236)), (120, (226, 242, 250)), (122, (52, 138, 190)), (239, (24, 92, 156))]
    far, near = Canvas(surface(dice, _FAR, stops)), _near((30, 104, 168))
    _clouds(far, dice, 3, 86)
    for _ in range(170):  # glints, longer towards the viewer
        x, y = dice.between(0, _FAR), dice.between(124, 205)
        long = 3 + (y - 120) // 8
        far.fill([(x - long, y), (x + long, y), (x, y + 1)], mix((150, 208, 232), (86, 160, 206), dice.between(0, 255)))
    for k, top in enumerate((176, 196, 216)):
        length, height, phase = 44 + 8 * k, 4 + k, dice.between(0, 359)
        crest = [(x, top - (height * abs(sin(x * 180 // length + phase)) >> 10)) for x in range(-2, _NEAR + 4, 2)]
        deep = mix((44, 132, 190), (14, 74, 140), k * 100)
        shades = [(top - 8, mix(deep, (160, 220, 236), 80)), (top + 22, deep), (239, mix(deep, (0, 30, 80), 70))]
        near.land([*crest, (_NEAR + 4, 244), (-2, 244)], surface(dice, _NEAR, shades, 10, 6))
        near.fill(band(crest, 3), (222, 242, 248))
    return far, near


def _night(dice: Dice) -> _Backdrop:
    far = Canvas(surface(dice, _FAR, [(0, (16, 22, 62)), (120, (44, 48, 112)), (239, (112, 88, 150))], 8, 3))
    for _ in range(120):
        x, y = dice.between(0, _FAR - 1), dice.between(0, 185)
        far.image[y, x] = mix((60, 64, 120), (255, 252, 230), dice.between(90, 255))
    for _ in range(22):  # the brighter stars have four rays
        x, y, ray = dice.between(4, _FAR - 4), dice.between(4, 160), dice.between(2, 4)
        far.fill([(x, y - ray), (x + 1, y), (x, y + ray), (x - 1, y)], (255, 250, 214))
        far.fill([(x - ray, y), (x, y - 1), (x + ray, y), (x, y + 1)], (255, 250, 214))
    x, y = dice.between(60, 280), dice.between(40, 60)
    _sun(far, x, y, 20, (250, 244, 214), (34, 40, 98))
    for dx, dy, radius in ((-7, -5, 5), (6, 3, 4), (-3, 9, 3), (8, -9, 2)):  # craters of the moon
        far.dot(x + dx, y + dy, radius, radius, (226, 216, 182))
    far.land(_ridge(dice, _FAR, 186, 16), surface(dice, _FAR, [(160, (62, 58, 118)), (230, (86, 74, 134))], 6))
    near = _near((20, 26, 52))
    for _ in range(38):
        _pine(near, dice.between(0, _NEAR), dice.between(216, 232), dice.between(22, 46), (20, 28, 56))
    near.land(_ridge(dice, _NEAR, 220, 6), surface(dice, _NEAR, [(210, (26, 34, 62)), (239, (14, 18, 40))], 8, 6))
    return far, near


def _meadow(dice: Dice) -> _Backdrop:
    far, near = Canvas(surface(dice, _FAR, [(0, (120, 190, 240)), (110, (236, 244, 240))])), _near((96, 164, 72))
    _clouds(far, dice, 2, 60)
    for x in range(-6, _FAR + 6, 11):  # a wood along the horizon
        far.dot(x, 116, 10, dice.between(9, 20), mix((92, 146, 104), (124, 172, 120), dice.between(0, 255)))
    grass = [(112, (168, 206, 112)), (175, (116, 182, 82)), (239, (84, 154, 66))]
    far.land(_ridge(dice, _FAR, 118, 4), surface(dice, _FAR, grass, 14, 10))
    near.land(_ridge(dice, _NEAR, 150, 6), surface(dice, _NEAR, grass, 14, 14))
    for y in range(156, 248, 2):  # from the back to the front, growing
        tall, petal = 3 + (y - 140) // 9, 1 + (y - 140) // 27
        for _ in range(5):
            x, lean = dice.between(0, _NEAR), dice.between(-3, 3)
            green = mix((60, 128, 52), (150, 204, 92), dice.between(0, 255))
            near.fill([(x - 1, y), (x + 1, y), (x + lean, y - tall)], green)
        if y % 4 == 0:
            x = dice.between(0, _NEAR)
            colour = ((246, 246, 240), (250, 214, 96), (236, 110, 122), (176, 132, 214))[dice.between(0, 3)]
            near.fill(rect(x, y, x + 1, y + 2 * petal), (70, 140, 56))
            for dx, dy in oval(0, 0, petal * 5 // 4, petal * 5 // 4, step=72):
                near.dot(x + dx, y + dy, petal, petal, colour)
            near.dot(x, y, max(petal * 2 // 3, 1), max(petal * 2 // 3, 1), (240, 160, 40))
    return far, near


def _desert(dice: Dice) -> _Backdrop:
    far, near = Canvas(surface(dice, _FAR, [(0, (250, 178, 112)), (130, (255, 230, 178))])), _near((222, 166, 96))
    _sun(far, dice.between(50, 280), dice.between(52, 78), 20, (255, 248, 208), (252, 206, 142))
    for x in range(dice.between(-20, 20), _FAR, 92):  # table mountains, their right side in the shade
        wide, top = dice.between(24, 40), dice.between(98, 118)
        slope = [(x + wide, top), (x + wide + 12, 150)]
        far.fill([(x - wide - 12, 150), (x - wide, top), *slope], (208, 138, 112))
        far.fill([(x + wide // 2, 150), (x + wide // 3, top), *slope], (184, 112, 98))
    far.land(_ridge(dice, _FAR, 146, 12), surface(dice, _FAR, [(130, (246, 204, 140)), (190, (226, 168, 100))], 9, 7))
    for place in range(dice.between(10, 60), _NEAR, 104):
        x, tall = place + dice.between(-20, 20), dice.between(30, 48)
        for green, aside in (((60, 112, 74), 0), ((96, 154, 96), -1)):  # a cactus, and the light on its left side
            near.dot(x + aside, 196 - tall // 2, 5 + aside, tall, green)
            for side in (-1, 1):
                arm, high = x + side * 12 + aside, 190 - tall // 2 - side * 4
                near.fill(rect(x, high, arm, high + 4), green)
                near.dot(arm, high - 5, 3 + aside, 10, green)
    sand = Canvas(surface(dice, _NEAR, [(166, (248, 208, 142)), (239, (214, 154, 86))], 10, 10))
    for k, top in enumerate(range(192, 244, 8)):  # wind ripples
        ripple = [(x, top + (3 * sin(x * (4 - k % 3) + k * 70) >> 10)) for x in range(-4, _NEAR + 8, 6)]
        sand.fill(band(ripple, 1), (206, 148, 84))
    near.land(_ridge(dice, _NEAR, 180, 8), sand.image)
    return far, near


def _forest(dice: Dice) -> _Backdrop:
    far, near = Canvas(surface(dice, _FAR, [(0, (176, 204, 228)), (150, (232, 240, 246))])), _near((226, 236, 246))
    for x in range(-8, _FAR + 10, 17):
        _pine(far, x + dice.between(-6, 6), 182, dice.between(70, 108), (164, 190, 208))
    far.land(_ridge(dice, _FAR, 174, 5), surface(dice, _FAR, [(160, (226, 236, 244)), (220, (206, 222, 236))]))
    for x in range(dice.between(0, 12), _FAR, 38):
        _pine(far, x + dice.between(-9, 9), 196, dice.between(84, 124), (96, 138, 140), (228, 238, 246))
    for x in range(dice.between(0, 40), _NEAR, 92):
        _pine(near, x + dice.between(-16, 16), 214, dice.between(104, 136), (44, 98, 84), (244, 250, 255))
    near.land(
        _ridge(dice, _NEAR, 202, 4), surface(dice, _NEAR, [(196, (248, 252, 255)), (239, (204, 220, 238))], 10, 6)
    )
    return far, near


def _city(dice: Dice) -> _Backdrop:
    dusk = [(0, (70, 62, 132)), (90, (206, 110, 138)), (170, (255, 194, 120)), (239, (255, 214, 150))]
    far, near = Canvas(surface(dice, _FAR, dusk)), _near((58, 48, 96))
    _sun(far, dice.between(60, 270), 150, 22, (255, 238, 180), (246, 168, 126))
    x = -6
    while x < _FAR:
        wide, top = dice.between(16, 34), dice.between(112, 168)
        far.fill(rect(x, top, x + wide, 242), mix((164, 96, 136), (142, 84, 134), top))
        x += wide
    x = -10
    while x < _NEAR:
        wide, top, roof = dice.between(26, 46), dice.between(150, 196), dice.between(0, 2)
        wall = mix((64, 54, 104), (44, 40, 84), dice.between(0, 255))
        near.fill(rect(x, top, x + wide - 1, 242), wall)
        if roof == 0:
            near.fill(rect(x + 8, top - 16, x + 10, top), wall)
        elif roof == 1:
            near.fill([*rect(x + 18, top, x + 6, top - 9), (x + 12, top - 13), (x + 18, top - 9)], wall)
        panes = ((255, 218, 128), (250, 190, 96), (255, 236, 176), *[mix(wall, (120, 120, 180), 60)] * 3)
        for left in range(max(x + 5, 0), x + wide - 7, 9):
            for row in range(top + 7, 236, 11):
                near.image[row : row + 6, left : left + 5] = panes[dice.between(0, 5)]
        x += wide
    return far, near


class _Place(NamedTuple):
    draw: Callable[[Dice], _Backdrop]
    floor: int | None = None  # the row where objects stand and cast a shadow; None without a floor
    snows: bool = False


PLACES = {
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
