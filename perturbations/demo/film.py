"""The `demo` dataset: captioned cartoon scenes that the package draws itself, so every command runs without any data.

Scene `i` depends on `i` alone, and has the same bytes on every machine: its numbers come from NumPy's `RandomState`,
whose sequences never change, its pixels from integers and from OpenCV's fixed-point polygons. Nothing is blurred,
resized or warped, because the last bit of those differs between processors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.datasets.registry import FamilyMember

FPS, NUM_FRAMES = 24, 72
HEIGHT, WIDTH = 240, 320
SECONDS_LONG = NUM_FRAMES / FPS
FAMILY = 8
"""Scenes in a family: four motions in two colours."""
TRAINING = range(4000, 6400)
"""Scenes that the demo's encoder is trained on; no family has one of them."""

_FAR_PAN, _NEAR_PAN = 20, 64  # pixels that each layer moves per clip: the nearer layer moves faster, as depth does
_FAR, _NEAR = WIDTH + _FAR_PAN, WIDTH + _NEAR_PAN  # widths of the two layers
_OUTLINE, _RIM = 4, 7  # thickness in pixels of an object's dark outline and of the pale rim around it
_SHIFT = 4  # objects are drawn in sixteenths of a pixel, so that slow motion does not jump from pixel to pixel
_PIXEL = 1 << _SHIFT
_UNIT = 1000  # the radius that objects are listed with

_Colour = tuple[int, int, int]
_Polygon = list[tuple[int, int]]

# --- shapes -----------------------------------------------------------------------------------------------------------


# 1024 * sin of whole degrees. No entry before rounding is near a half, so every C library gives the same table.
_SIN = [round(1024 * math.sin(math.radians(degree))) for degree in range(360)]


def _sin(degrees: int) -> int:
    return _SIN[degrees % 360]


def _oval(x: int, y: int, rx: int, ry: int, start: int = 0, stop: int = 360, turned: int = 0) -> _Polygon:
    """The points of an ellipse, `turned` by some degrees, or of its arc from `start` to `stop`: 0 is right, 90 down."""
    points = [(rx * _sin(a + 90) >> 10, ry * _sin(a) >> 10) for a in range(start, stop + 1, 6)]
    sine, cosine = _sin(turned), _sin(turned + 90)
    return [(x + (px * cosine - py * sine >> 10), y + (px * sine + py * cosine >> 10)) for px, py in points]


def _rect(left: int, top: int, right: int, bottom: int) -> _Polygon:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _mix(first: _Colour, second: _Colour, part: int) -> _Colour:
    """`part` 256ths of the way from the first colour to the second."""
    red, green, blue = (a + ((b - a) * part >> 8) for a, b in zip(first, second, strict=True))
    return red, green, blue


# --- objects ----------------------------------------------------------------------------------------------------------


class _Object(NamedTuple):
    """Polygons around the origin, each after its tone, and how the object moves."""

    parts: Sequence[tuple[str, _Polygon]]
    spin: int = 0  # degrees per frame
    sway: int = 0  # degrees to either side
    faces: bool = False  # its front is on the right, so it is mirrored when it moves to the left


_RIM_OF_STAR = [_oval(0, 0, r, r, 36 * k - 90, 36 * k - 90)[0] for k, r in enumerate((1000, 430) * 5)]
_NOSE = [(k * 3 + 20, -1000 + k * k * 9 // 100) for k in range(0, 100, 12)]
_OBJECTS = {
    "ball": _Object(
        [
            ("main", _oval(0, 0, 1000, 1000)),
            *[("pale", [(0, 0), *_oval(0, 0, 1000, 1000, a, a + 60)]) for a in (0, 120, 240)],
            ("dark", _oval(0, 0, 200, 200)),
        ],
        spin=5,
    ),
    "fish": _Object(
        [
            ("dark", [(-560, 0), (-1000, -480), (-880, 0), (-1000, 480)]),
            ("dark", [(-200, -380), (60, -760), (420, -420)]),
            ("main", _oval(140, 0, 840, 520)),
            ("pale", [(-60, -505), (110, -518), (40, 0), (110, 518), (-60, 505), (-130, 0)]),
            ("white", _oval(610, -140, 150, 150)),
            ("ink", _oval(650, -130, 80, 80)),
        ],
        sway=8,
        faces=True,
    ),
    "star": _Object(
        [("main", _RIM_OF_STAR), *[("dark", [(0, 0), *_RIM_OF_STAR[k : k + 2]]) for k in range(0, 10, 2)]], spin=3
    ),
    "car": _Object(
        [
            ("main", [(-1000, 380), (-1000, -40), (-620, -160), (-380, -560), (240, -560), (540, -140), (1000, 380)]),
            ("glass", [(-430, -170), (-300, -460), (200, -460), (400, -170)]),
            *[("ink", _oval(x, 400, 250, 250)) for x in (-530, 530)],
            *[("grey", _oval(x, 400, 120, 120)) for x in (-530, 530)],
        ],
        sway=2,
        faces=True,
    ),
    "kite": _Object(
        [
            ("pale", [(-26, 280), (26, 280), (-60, 700), (40, 980), (-20, 980), (-110, 700)]),
            ("main", [(0, -1000), (600, -400), (0, 320), (-600, -400)]),
            ("pale", [(0, -1000), (600, -400), (0, -400)]),
            ("pale", [(0, 320), (-600, -400), (0, -400)]),
        ],
        sway=14,
    ),
    "box": _Object(
        [
            *[("light", _oval(x, -780, 260, 170)) for x in (-300, 300)],
            ("main", _rect(-780, -420, 780, 900)),
            ("main", _rect(-880, -640, 880, -260)),
            ("dark", _rect(420, -260, 780, 900)),
            ("pale", _rect(-170, -640, 170, 900)),
        ],
        sway=4,
    ),
    "balloon": _Object(
        [
            ("gold", [(-170, 720), (170, 720), (140, 1000), (-140, 1000)]),
            ("ink", [(-160, 500), (160, 500), (110, 760), (-110, 760)]),
            ("main", [*_oval(0, -280, 740, 720, 150, 390), (170, 520), (-170, 520)]),
            ("pale", [*_oval(0, -280, 300, 720, 150, 390), (70, 520), (-70, 520)]),
        ],
        sway=5,
    ),
    "triangle": _Object(
        [("main", [(0, -950), (960, 720), (-960, 720)]), ("dark", [(0, -950), (960, 720), (330, 720)])], sway=7
    ),
    "rocket": _Object(
        [
            ("gold", [(-180, 540), (180, 540), (0, 1000)]),
            *[("dark", [(x * 250, 60), (x * 620, 440), (x * 600, 720), (x * 200, 520)]) for x in (-1, 1)],
            ("pale", [*_NOSE, (330, 300), (240, 560), (-240, 560), (-330, 300), *((-x, y) for x, y in _NOSE[::-1])]),
            ("main", [*_NOSE, *((-x, y) for x, y in _NOSE[::-1])]),
            ("glass", _oval(0, 0, 170, 170)),
        ],
        sway=6,
    ),
    "butterfly": _Object(
        [
            *[("dark", _oval(side * 400, 400, 480, 330, turned=side * 48)) for side in (-1, 1)],
            *[("main", _oval(side * 500, -330, 640, 400, turned=side * -42)) for side in (-1, 1)],
            *[("pale", _oval(side * 640, -450, 250, 150, turned=side * -42)) for side in (-1, 1)],
            ("ink", _oval(0, 60, 110, 600)),
        ],
        sway=10,
    ),
}
_COLOURS: dict[str, _Colour] = {
    "red": (222, 52, 52),
    "yellow": (252, 206, 46),
    "blue": (48, 108, 222),
    "orange": (246, 136, 32),
    "green": (54, 168, 82),
    "pink": (246, 122, 174),
    "purple": (138, 76, 190),
    "turquoise": (38, 190, 184),
}
_SIZES = {"large": 46, "small": 29}  # radius in pixels
_WHITE = (255, 255, 255)


def _tones_of(colour: _Colour) -> dict[str, _Colour]:
    """The colours of the parts of an object."""
    return {
        "main": colour,
        "dark": _mix(colour, (30, 10, 40), 80),
        "light": _mix(colour, _WHITE, 120),
        "pale": _mix(colour, _WHITE, 205),
        "ink": (44, 36, 48),
        "white": _WHITE,
        "glass": (206, 232, 246),
        "grey": (190, 192, 198),
        "gold": (250, 206, 84),
    }


# --- places -----------------------------------------------------------------------------------------------------------


class _Layer(NamedTuple):
    """A picture that is being drawn, RGB uint8 (240, width, 3), and where it is seen, uint8 (240, width)."""

    image: Image
    mask: Image

    def fill(self, points: _Polygon, colour: _Colour) -> None:
        """Draw a polygon, in whole pixels."""
        cv2.fillPoly(self.image, [np.array(points, np.int32)], colour, cv2.LINE_AA)
        cv2.fillPoly(self.mask, [np.array(points, np.int32)], (255,))


def _layer(dice: RandomState, width: int, top: _Colour, bottom: _Colour, start: int = 0) -> _Layer:
    """A gradient from row `start` to the last one, with a fine grain; nothing of it is seen yet."""
    parts = (np.arange(HEIGHT) - start).clip(0)[:, None] * 256 // (HEIGHT - start)
    rows = (np.array(top) + ((np.array(bottom) - np.array(top)) * parts >> 8)).astype(np.int16)
    grain = dice.randint(-6, 7, (HEIGHT, width)).astype(np.int16)
    # One channel after another: NumPy adds whole rows much faster than three numbers at a time.
    channels = [(rows[:, channel, None] + grain).clip(0, 255).astype(np.uint8) for channel in range(3)]
    return _Layer(cv2.merge(channels).astype(np.uint8, copy=False), np.zeros((HEIGHT, width), np.uint8))


def _ridge(dice: RandomState, width: int, top: int, rough: int) -> _Polygon:
    """A rolling horizon around row `top`, closed along the bottom edge; `rough` is its height in pixels."""
    waves = [(rough, dice.randint(60, 110)), (rough // 2, dice.randint(150, 230)), (rough // 4, dice.randint(380, 520))]
    line = [
        (x, top + sum(high * _sin(x * often // 100 + often) >> 10 for high, often in waves))
        for x in range(-4, width + 8, 4)
    ]
    return [*line, (width + 8, HEIGHT + 4), (-4, HEIGHT + 4)]


def _clouds(far: _Layer, dice: RandomState) -> None:
    for x in range(30, _FAR, 110):
        y = dice.randint(28, 78)
        for n in range(5):
            far.fill(_oval(x + 13 * n, y - dice.randint(0, 8), 17 - 2 * abs(n - 2), 14 - 2 * abs(n - 2)), _WHITE)


def _trees(far: _Layer, near: _Layer, dice: RandomState) -> None:
    _clouds(far, dice)
    for x in range(dice.randint(0, 30), _NEAR, 37):
        tall = dice.randint(8, 14)
        near.fill(_rect(x - 2, 190 - tall, x + 2, 212), (104, 78, 52))
        near.fill(_oval(x, 184 - tall, tall, tall + 2), (48, 112, 60))
        near.fill(_oval(x - 2, 181 - tall, tall - 5, tall - 4), (78, 146, 78))


def _bricks(far: _Layer, near: _Layer, dice: RandomState) -> None:
    for top in range(0, HEIGHT, 15):
        for x in range(-36 + top // 15 % 2 * 18, _FAR, 36):
            brick = _mix((186, 92, 70), (130, 70, 60), dice.randint(0, 256))
            far.image[top : top + 13, max(x, 0) : x + 34] = brick
            far.image[top : top + 2, max(x, 0) : x + 34] = _mix(brick, (255, 240, 220), 60)


def _stars(far: _Layer, near: _Layer, dice: RandomState) -> None:
    for x, y, ray in zip(dice.randint(0, _FAR, 90), dice.randint(0, 170, 90), dice.randint(1, 4, 90), strict=True):
        far.fill([(x, y - ray), (x + 1, y), (x, y + ray), (x - 1, y)], (255, 250, 214))
    _pines(far, near, dice, (20, 28, 56))


def _tiles(far: _Layer, near: _Layer, dice: RandomState) -> None:
    for x in range(0, _FAR, 28):
        far.image[:130, x : x + 10] -= np.uint8(12)
    far.image[118:130] = (246, 240, 230)
    # Averaged over 4 x 4 samples per pixel: they would flicker near the horizon otherwise.
    across = np.arange(-_NEAR * 2, _NEAR * 2, dtype=np.int32)
    down = np.arange(60, 60 + (HEIGHT - 130) * 4, dtype=np.int32)[:, None]
    odd = (across * 25 // (down * 12) + 1600 // down) & 1
    share = odd.reshape(HEIGHT - 130, 4, _NEAR, 4).sum(axis=(1, 3))[:, :, None]
    near.image[130:] = near.image[130:] * (24 - share) // 24
    near.mask[130:] = 255


def _waves(far: _Layer, near: _Layer, dice: RandomState) -> None:
    _clouds(far, dice)
    for k, top in enumerate((176, 196, 216)):
        start = dice.randint(0, 360)
        crest = [(x, top - ((4 + k) * abs(_sin(x * 4 + start)) >> 10)) for x in range(-2, _NEAR + 4, 2)]
        near.fill([*crest, (_NEAR + 4, 244), (-2, 244)], _mix((44, 132, 190), (14, 74, 140), k * 100))
        near.fill([*crest, *((x, y + 3) for x, y in reversed(crest))], (222, 242, 248))


def _pines(far: _Layer, near: _Layer, dice: RandomState, colour: _Colour = (44, 98, 84)) -> None:
    for x in range(dice.randint(0, 24), _NEAR, 29):
        tall = dice.randint(40, 90)
        for tier in range(3):
            low, wide = 214 - tier * tall // 4, tall * (7 - 2 * tier) // 22
            near.fill([(x, low - tall // 2), (x + wide, low), (x - wide, low)], _mix(colour, _WHITE, tier * 14))


def _houses(far: _Layer, near: _Layer, dice: RandomState) -> None:
    for left in range(-10, _NEAR, 34):
        top, wall = dice.randint(140, 200), _mix((64, 54, 104), (44, 40, 84), dice.randint(0, 256))
        near.fill(_rect(left, top, left + 32, 242), wall)
        for x in range(left + 5, left + 28, 9):
            for y in range(top + 7, 236, 11):
                near.fill(_rect(x, y, x + 4, y + 5), (255, 218, 128) if dice.randint(0, 2) else wall)


def _flowers(far: _Layer, near: _Layer, dice: RandomState) -> None:
    _clouds(far, dice)
    near.fill(_rect(-2, 150, _NEAR, 242), (116, 182, 82))
    for y in range(156, 248, 2):  # from the back to the front, growing
        for x in dice.randint(0, _NEAR, 4):
            near.fill([(x - 1, y), (x + 1, y), (x + 1, y - 3 - (y - 140) // 9)], (70, 140, 56))
        x, petal = dice.randint(0, _NEAR), 2 + (y - 140) // 27
        colours = (246, 246, 240), (250, 214, 96), (236, 110, 122), (176, 132, 214)
        near.fill(_oval(x, y, petal, petal), colours[dice.randint(0, 4)])


def _cacti(far: _Layer, near: _Layer, dice: RandomState) -> None:
    for x in range(dice.randint(10, 60), _NEAR, 104):
        tall = dice.randint(30, 48)
        near.fill(_oval(x, 196 - tall // 2, 5, tall), (60, 112, 74))
        for side in (-1, 1):
            high = 190 - tall // 2 - side * 4
            near.fill(_rect(x, high, x + side * 12, high + 4), (60, 112, 74))
            near.fill(_oval(x + side * 12, high - 5, 3, 10), (60, 112, 74))


class _Place(NamedTuple):
    """A sky between two colours, a far ridge, the near ground, whose first row is `top`, and what stands there."""

    sky: tuple[_Colour, _Colour]
    far: _Colour | None
    near: tuple[_Colour, _Colour]
    draw: Callable[[_Layer, _Layer, RandomState], None]
    light: _Colour | None = None  # of the sun or the moon
    top: int = 204
    rough: int = 8


_BLUE = ((92, 168, 232), (214, 236, 250))
_PLACES = {
    "over green hills": _Place(
        _BLUE, (128, 170, 190), ((126, 190, 84), (68, 138, 52)), _trees, (255, 244, 196), 194, 12
    ),
    "by a brick wall": _Place(((206, 194, 180),) * 2, None, ((176, 172, 166), (136, 132, 128)), _bricks, rough=0),
    "under a starry sky": _Place(
        ((16, 22, 62), (112, 88, 150)), (62, 58, 118), ((26, 34, 62), (14, 18, 40)), _stars, (250, 244, 214), 220
    ),
    "over a checkered floor": _Place(
        ((238, 214, 186), (198, 170, 150)), None, ((244, 238, 226), (230, 220, 206)), _tiles, top=HEIGHT
    ),
    "above the blue sea": _Place(_BLUE, (52, 138, 190), ((30, 104, 168), (24, 92, 156)), _waves, top=236, rough=2),
    "in a snowy forest": _Place(
        ((176, 204, 228), (232, 240, 246)), (206, 222, 236), ((248, 252, 255), (204, 220, 238)), _pines
    ),
    "over a city skyline": _Place(
        ((70, 62, 132), (255, 194, 120)), (164, 96, 136), ((58, 48, 96), (44, 40, 84)), _houses, (255, 238, 180), 234, 0
    ),
    "over a flower meadow": _Place(
        ((120, 190, 240), (236, 244, 240)), (124, 172, 120), ((84, 154, 66), (84, 154, 66)), _flowers, top=HEIGHT
    ),
    "in a sandy desert": _Place(
        ((250, 178, 112), (255, 230, 178)),
        (226, 168, 100),
        ((248, 208, 142), (214, 154, 86)),
        _cacti,
        (255, 248, 208),
        190,
    ),
}


def _backdrop(place: _Place, dice: RandomState) -> tuple[_Layer, _Layer]:
    """The far layer, which is seen everywhere, and the near one, whose mask says where it is seen."""
    far, near = _layer(dice, _FAR, *place.sky), _layer(dice, _NEAR, *place.near, start=min(place.top, HEIGHT - 1))
    if place.light:
        x, y = dice.randint(40, 290), dice.randint(34, 64)
        for ring in range(4, -1, -1):
            far.fill(_oval(x, y, 15 + ring * 5, 15 + ring * 5), _mix(place.light, place.sky[0], ring * 40))
    if place.far:
        for top, part in ((132, 90), (160, 0)):
            far.fill(_ridge(dice, _FAR, top, 16), _mix(place.far, place.sky[1], part))
    ground = near.image.copy()
    place.draw(far, near, dice)
    if place.top < HEIGHT:
        shape = np.zeros_like(near.mask)
        cv2.fillPoly(shape, [np.array(_ridge(dice, _NEAR, place.top, place.rough), np.int32)], (255,))
        cv2.copyTo(ground, shape, near.image)
        np.maximum(near.mask, shape, out=near.mask)
    return far, near


# --- scenes -----------------------------------------------------------------------------------------------------------

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
_KINDS = (tuple(_SIZES), tuple(_COLOURS), _MOTIONS, tuple(_PLACES), tuple(_OBJECTS))
_COUNTS = tuple(map(len, _KINDS))
_COMBINATIONS = math.prod(_COUNTS)
_STRIDE = 9461  # coprime to the number of combinations, and chosen so that neighbours differ in every respect


def _scene(index: int) -> tuple[str, ...]:
    """Size, colour, motion, place and object of scene `index`; those of the first 11,520 scenes differ."""
    chosen = np.unravel_index(index * _STRIDE % _COMBINATIONS, _COUNTS)
    return tuple(names[number] for names, number in zip(_KINDS, chosen, strict=True))


def item_id(index: int) -> str:
    """The name of scene `index`."""
    return f"demo-{index:04d}"


def caption(index: int) -> str:
    """The caption of scene `index`."""
    size, colour, motion, place, thing = _scene(index)
    return f"a {size} {colour} {thing} {motion} {place}"


def items(clips: int) -> list[tuple[str, str]]:
    """The first `clips` items as (item_id, caption), such as ("demo-0000", "a large red ball bounces along ...").

    An item does not depend on `clips`. All captions are distinct up to 11520 clips.
    """
    return [(item_id(index), caption(index)) for index in range(clips)]


def families(clips: int) -> list[FamilyMember]:
    """The first `clips` scenes of families, eight each: the same object, place and size, in four motions x two colours.

    They do not depend on `clips`, and no scene is in two families. Raises ValueError for more than there are.
    """
    members: list[FamilyMember] = []
    taken = {*TRAINING}
    for number in range(_MOST_FAMILIES):
        if len(members) >= clips:
            return members[:clips]
        dice = RandomState(number)
        size, place, thing = (dice.randint(len(names)) for names in (_SIZES, _PLACES, _OBJECTS))
        motions, colours = dice.permutation(len(_MOTIONS))[:4], dice.permutation(len(_COLOURS))[:2]
        family = {
            _index(size, colour, motion, place, thing): (motion, colour) for motion in motions for colour in colours
        }
        if not family.keys() & taken:
            taken |= family.keys()
            count = len(members) // FAMILY
            for row, (scene, (motion, colour)) in enumerate(family.items()):
                names = _MOTIONS[motion], list(_COLOURS)[colour]
                times = row * SECONDS_LONG, (row + 1) * SECONDS_LONG
                members.append(FamilyMember(item_id(scene), caption(scene), count, *names, *times))
    raise ValueError(f"clips is {clips}; there are {len(members)} scenes in families")


_MOST_FAMILIES = 5_000


def _index(*content: int) -> int:
    """The scene with this content: `_scene` backwards."""
    number = int(np.ravel_multi_index(content, _COUNTS))
    return number * pow(_STRIDE, -1, _COMBINATIONS) % _COMBINATIONS


def _pose(index: int, t: int) -> tuple[int, int, int, int]:
    """The object of scene `index` in frame `t`: centre and radius in sixteenths of a pixel, and angle in degrees."""
    size, _, motion, _, name = _scene(index)
    dice, thing = RandomState(index), _OBJECTS[name]
    phase, aside = dice.randint(0, 360), dice.randint(-36, 37)
    radius, done = _SIZES[size] * _PIXEL, t * 1024 // (NUM_FRAMES - 1)
    edge = radius * 9 // 8 + 8 * _PIXEL
    x, y = (WIDTH // 2 + aside) * _PIXEL, HEIGHT // 2 * _PIXEL
    across = edge + (WIDTH * _PIXEL - 2 * edge) * done // 1024
    tall, beat, heading = HEIGHT * _PIXEL - 2 * edge, t % 24, 1
    if motion == "moves to the left":
        x, heading = WIDTH * _PIXEL - across, -1
    elif motion in ("moves to the right", "bounces along", "zigzags along"):
        x = across
    if motion == "bounces along":
        y = HEIGHT * _PIXEL - edge - tall * beat * (24 - beat) // 144
    elif motion == "zigzags along":
        y = edge + tall * min(beat, 24 - beat) // 12
    elif motion == "moves in circles":
        x, y = x + (62 * _PIXEL * _sin(t * 10 + phase + 90) >> 10), y + (tall // 2 * _sin(t * 10 + phase) >> 10)
    elif motion == "comes closer":
        radius = radius * (360 + (664 * done >> 10)) >> 10
    elif motion in ("rises slowly", "falls slowly"):
        y = edge + tall * (1024 - done if motion == "rises slowly" else done) // 1024
    return x, y, radius, thing.spin * t * heading + (thing.sway * _sin(t * 9 + phase) >> 10)


def _placed(index: int, t: int) -> list[NDArray[np.int32]]:
    """The points of each part of the object in frame `t`, int32 (n, 2) in sixteenths of a pixel."""
    _, _, motion, _, name = _scene(index)
    x, y, radius, angle = _pose(index, t)
    sine, cosine = _sin(angle), _sin(angle + 90)
    side = -1 if _OBJECTS[name].faces and motion == "moves to the left" else 1
    turn = np.array([[side * cosine, side * sine], [-sine, cosine]])
    points = [np.array(polygon) @ turn * radius // (1024 * _UNIT) + (x, y) for _, polygon in _OBJECTS[name].parts]
    return [part.astype(np.int32) for part in points]


def frames(index: int, positions: Iterable[int] = range(NUM_FRAMES)) -> Iterator[Image]:
    """Frames of scene `index`, each a new RGB uint8 array (240, 320, 3); the same on every call.

    `positions` are the frames that are drawn, of 72.
    """
    _, colour, _, place, name = _scene(index)
    far, near = _backdrop(_PLACES[place], RandomState(index))
    tones = _tones_of(_COLOURS[colour])
    for t in positions:
        far_x, near_x = _FAR_PAN * t // (NUM_FRAMES - 1), _NEAR_PAN * t // (NUM_FRAMES - 1)
        frame = far.image[:, far_x : far_x + WIDTH].copy()
        view = slice(near_x, near_x + WIDTH)
        cv2.copyTo(near.image[:, view], near.mask[:, view], frame)
        placed = _placed(index, t)
        for thickness, tone in ((_RIM, "white"), (_OUTLINE, "ink")):
            cv2.polylines(frame, placed, True, tones[tone], thickness, cv2.LINE_AA, _SHIFT)
        for (tone, _), points in zip(_OBJECTS[name].parts, placed, strict=True):
            cv2.fillPoly(frame, [points], tones[tone], cv2.LINE_AA, _SHIFT)
        yield frame


def boxes(index: int) -> list[tuple[int, int, int, int]]:
    """The object's box in each of the 72 frames: (left, top, right, bottom) in pixels, the last two exclusive.

    The pale rim around the object is part of it.
    """
    soft = _PIXEL + _RIM * _PIXEL // 2  # antialiasing spreads an edge by about a pixel
    edges = []
    for t in range(NUM_FRAMES):
        points = np.concatenate(_placed(index, t))
        left, top = (int(low - soft) // _PIXEL for low in points.min(axis=0))
        right, bottom = (-(-int(high + soft) // _PIXEL) + 1 for high in points.max(axis=0))
        edges.append((max(left, 0), max(top, 0), min(right, WIDTH), min(bottom, HEIGHT)))
    return edges
