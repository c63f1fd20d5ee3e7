"""The `demo` dataset: captioned cartoon scenes that the package draws itself, so every command runs without any data.

Scene `i` depends on `i` alone, and has the same bytes on every machine: its numbers come from NumPy's `RandomState`,
whose sequences never change, its pixels from integers and from OpenCV's fixed-point polygons. Nothing is blurred,
resized or warped, because the last bit of those differs between processors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import cv2
import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.base.errors import ConfigError
from perturbations.datasets.registry import FamilyMember

FPS, NUM_FRAMES = 24, 72
HEIGHT, WIDTH = 240, 320
SECONDS_LONG = NUM_FRAMES / FPS
FAMILY = 8
"""Scenes in a family: four motions in two colours."""
TRAINING = range(4000, 6400)
"""Scenes that the demo's encoder is trained on; no family has one of them."""

_FAR_PAN, _NEAR_PAN = 20, 64  # pixels that each layer moves per clip: the nearer layer moves faster, as depth does
_OUTLINE, _RIM = 4, 7  # thickness in pixels of an object's dark outline and of the pale rim around it
_SHIFT = 4  # objects are drawn in sixteenths of a pixel, so that slow motion does not jump from pixel to pixel
_PIXEL = 1 << _SHIFT
_SWAY = 6  # degrees that an object turns to either side

_Colour = tuple[int, int, int]
_Polygon = list[tuple[int, int]]

# --- shapes -----------------------------------------------------------------------------------------------------------


# 1024 * sin of whole degrees. No entry before rounding is near a half, so every C library gives the same table.
_SIN = [round(1024 * math.sin(math.radians(degree))) for degree in range(360)]


def _sin(degrees: int) -> int:
    return _SIN[degrees % 360]


def _oval(x: int, y: int, rx: int, ry: int, start: int = 0, stop: int = 360) -> _Polygon:
    """The points of an ellipse, or of its arc from `start` to `stop` degrees: 0 is right, 90 down."""
    return [(x + (rx * _sin(a + 90) >> 10), y + (ry * _sin(a) >> 10)) for a in range(start, stop + 1, 6)]


def _rect(left: int, top: int, right: int, bottom: int) -> _Polygon:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _mix(first: _Colour, second: _Colour, part: int) -> _Colour:
    """`part` 256ths of the way from the first colour to the second."""
    red, green, blue = (a + ((b - a) * part >> 8) for a, b in zip(first, second, strict=True))
    return red, green, blue


_STAR = [_oval(0, 0, r, r, 36 * k - 90, 36 * k - 90)[0] for k, r in enumerate((1000, 430) * 5)]
_HULL = [(0, -1000), (240, -640), (320, -200), (320, 300), (220, 560)]
_OBJECTS: dict[str, list[tuple[str, _Polygon]]] = {
    "ball": [
        ("main", _oval(0, 0, 1000, 1000)),
        *(("pale", [(0, 0), *_oval(0, 0, 1000, 1000, a, a + 60)]) for a in (0, 120, 240)),
    ],
    "fish": [
        ("dark", [(-560, 0), (-1000, -480), (-880, 0), (-1000, 480)]),
        ("main", _oval(140, 0, 840, 520)),
        ("white", _oval(610, -140, 150, 150)),
        ("ink", _oval(650, -130, 80, 80)),
    ],
    "star": [("main", _STAR), *(("dark", [(0, 0), *_STAR[k : k + 2]]) for k in range(0, 10, 2))],
    "car": [
        ("main", [(-1000, 380), (-1000, -40), (-620, -160), (-380, -560), (240, -560), (540, -140), (1000, 380)]),
        ("glass", [(-430, -170), (-300, -460), (200, -460), (400, -170)]),
        *(("ink", _oval(x, 400, 250, 250)) for x in (-530, 530)),
    ],
    "kite": [
        ("pale", [(-26, 280), (26, 280), (-60, 700), (40, 980), (-20, 980), (-110, 700)]),
        ("main", [(0, -1000), (600, -400), (0, 320), (-600, -400)]),
        ("pale", [(0, -1000), (600, -400), (0, -400)]),
    ],
    "box": [
        ("main", _rect(-780, -420, 780, 900)),
        ("dark", _rect(-880, -640, 880, -260)),
        ("pale", _rect(-170, -640, 170, 900)),
        *(("main", _oval(x, -780, 260, 170)) for x in (-300, 300)),
    ],
    "balloon": [
        ("gold", [(-170, 720), (170, 720), (140, 1000), (-140, 1000)]),
        ("main", [*_oval(0, -280, 740, 720, 150, 390), (170, 620), (-170, 620)]),
        ("pale", [*_oval(0, -280, 300, 720, 150, 390), (70, 620), (-70, 620)]),
    ],
    "triangle": [("main", [(0, -950), (960, 720), (-960, 720)]), ("dark", [(0, -950), (960, 720), (330, 720)])],
    "rocket": [
        ("gold", [(-180, 540), (180, 540), (0, 1000)]),
        *(("dark", [(x * 250, 60), (x * 620, 440), (x * 600, 720), (x * 200, 520)]) for x in (-1, 1)),
        ("main", [*_HULL, *((-x, y) for x, y in _HULL[::-1])]),
        ("glass", _oval(0, -100, 170, 170)),
    ],
    "butterfly": [
        *(("dark", _oval(side * 420, 420, 400, 420)) for side in (-1, 1)),
        *(("main", _oval(side * 540, -340, 560, 520)) for side in (-1, 1)),
        ("ink", _oval(0, 60, 110, 700)),
    ],
}
"""The parts of each object: a tone, and a polygon of radius 1000 around the object's centre."""
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
_WHITE, _INK = (255, 255, 255), (44, 36, 48)


def _tones_of(colour: _Colour) -> dict[str, _Colour]:
    """The colours of the parts of an object."""
    tones = {"main": colour, "dark": _mix(colour, (30, 10, 40), 80), "pale": _mix(colour, _WHITE, 205)}
    return {**tones, "ink": _INK, "white": _WHITE, "glass": (206, 232, 246), "gold": (250, 206, 84)}


# --- places -----------------------------------------------------------------------------------------------------------


class _Things(NamedTuple):
    """What stands in rows in a layer: shapes of which the foot is (0, 0), in a colour between two."""

    shapes: list[_Polygon]
    colours: tuple[_Colour, _Colour]
    rows: range
    apart: int
    jitter: int = 0

    def draw(self, layer: Image, dice: RandomState) -> None:
        """Draw them, every second row between those of the row before."""
        for number, y in enumerate(self.rows):
            for x in range(-(number % 2) * self.apart // 2, layer.shape[1] + self.apart, self.apart):
                foot = np.array([x, y]) + dice.randint(-self.jitter, self.jitter + 1, 2)
                _fill(layer, [np.array(shape) + foot for shape in self.shapes], _mix(*self.colours, dice.randint(256)))


def _fill(layer: Image, polygons: Iterable[NDArray[np.int64]], colour: _Colour) -> None:
    """Draw polygons into a layer, RGB with where it is seen, in whole pixels."""
    for points in polygons:
        cv2.fillPoly(layer, [points.astype(np.int32)], (*colour, 255), cv2.LINE_AA)


class _Place(NamedTuple):
    """Sky and ground between two colours each, the ground's first row, what stands behind and before, a far ridge."""

    sky: tuple[_Colour, _Colour]
    ground: tuple[_Colour, _Colour]
    horizon: int
    behind: list[_Things]
    before: list[_Things]
    ridge: _Colour | None = None


_CLOUDS = _Things(
    [_oval(0, 0, 17, 12), _oval(15, -5, 20, 16), _oval(32, 0, 17, 12)], (_WHITE,) * 2, range(50, 51), 110, 24
)
_PINE = [[(0, -tall), (wide, low), (-wide, low)] for tall, wide, low in ((46, 16, 0), (60, 12, -20), (70, 8, -40))]
_CACTUS = [_oval(0, -26, 5, 28), _rect(-12, -24, 12, -20), _oval(-12, -30, 3, 10), _oval(12, -30, 3, 10)]
_BLUE = ((92, 168, 232), (214, 236, 250))
_PLACES = {
    "over green hills": _Place(
        _BLUE, ((126, 190, 84), (68, 138, 52)), 190, [_CLOUDS],
        [_Things([_oval(0, -14, 11, 14)], ((48, 112, 60), (92, 156, 84)), range(204, 236, 15), 37, 7)], (128, 170, 190),
    ),
    "by a brick wall": _Place(
        ((206, 194, 180),) * 2, ((176, 172, 166), (136, 132, 128)), 208,
        [_Things([_rect(1, 1, 34, 13)], ((186, 92, 70), (130, 70, 60)), range(0, HEIGHT, 15), 36)], [],
    ),
    "under a starry sky": _Place(
        ((16, 22, 62), (112, 88, 150)), ((26, 34, 62), (14, 18, 40)), 220,
        [_Things([[(0, -3), (1, 0), (0, 3), (-1, 0)]], ((255, 250, 214), (190, 190, 230)), range(8, 160, 14), 24, 10)],
        [_Things(_PINE, ((20, 28, 56), (34, 44, 78)), range(222, 223), 31, 8)], (62, 58, 118),
    ),
    "over a checkered floor": _Place(
        ((238, 214, 186), (198, 170, 150)), ((244, 238, 226), (230, 220, 206)), 140,
        [_Things([_rect(0, -130, 10, 0)], ((226, 200, 172),) * 2, range(130, 131), 28)],
        [_Things([_rect(0, 0, 19, 19)], ((120, 112, 108), (96, 88, 88)), range(140, HEIGHT, 20), 40)],
    ),
    "above the blue sea": _Place(
        _BLUE, ((52, 140, 196), (14, 74, 140)), 168, [_CLOUDS],
        [_Things([_oval(0, 0, 16, 5, 180, 360)], ((222, 242, 248), (120, 190, 220)), range(180, HEIGHT, 14), 48, 6)],
    ),
    "in a snowy forest": _Place(
        ((176, 204, 228), (232, 240, 246)), ((248, 252, 255), (204, 220, 238)), 196, [],
        [_Things(_PINE, ((44, 98, 84), (96, 140, 130)), range(206, 236, 14), 43, 9)], (206, 222, 236),
    ),
    "over a city skyline": _Place(
        ((70, 62, 132), (255, 194, 120)), ((58, 48, 96), (44, 40, 84)), 200, [],
        [
            _Things([_rect(0, -74, 31, 20)], ((64, 54, 104), (40, 36, 78)), range(226, 250, 12), 34, 18),
            _Things([_rect(0, 0, 4, 5)], ((255, 218, 128), (70, 60, 108)), range(204, 236, 11), 17),
        ],
        (164, 96, 136),
    ),
    "over a flower meadow": _Place(
        ((120, 190, 240), (236, 244, 240)), ((116, 182, 82), (84, 154, 66)), 150, [_CLOUDS],
        [_Things([_oval(0, 0, 4, 4)], ((250, 214, 96), (226, 90, 130)), range(160, 244, 9), 20, 7)], (124, 172, 120),
    ),
    "in a sandy desert": _Place(
        ((250, 178, 112), (255, 230, 178)), ((248, 208, 142), (214, 154, 86)), 190, [],
        [_Things(_CACTUS, ((60, 112, 74), (70, 130, 84)), range(206, 236, 20), 96, 12)], (226, 168, 100),
    ),
}  # fmt: skip


def _gradient(dice: RandomState, width: int, top: _Colour, bottom: _Colour, start: int = 0) -> Image:
    """A layer: a gradient from row `start` to the last one, with a fine grain; nothing of it is seen yet."""
    parts = (np.arange(HEIGHT) - start).clip(0)[:, None] * 256 // (HEIGHT - start)
    rows = (np.array(top) + ((np.array(bottom) - np.array(top)) * parts >> 8)).astype(np.int16)
    grain = dice.randint(-6, 7, (HEIGHT, width)).astype(np.int16)
    # One channel after another: NumPy adds whole rows much faster than three numbers at a time.
    channels = [(rows[:, channel, None] + grain).clip(0, 255).astype(np.uint8) for channel in range(3)]
    return cv2.merge([*channels, np.zeros((HEIGHT, width), np.uint8)]).astype(np.uint8, copy=False)


def _backdrop(place: _Place, dice: RandomState) -> tuple[Image, Image]:
    """The far layer, which is seen everywhere, and the near one, RGB with where it is seen, uint8 (240, width, 4)."""
    far = _gradient(dice, WIDTH + _FAR_PAN, *place.sky)
    near = _gradient(dice, WIDTH + _NEAR_PAN, *place.ground, start=place.horizon)
    for things in place.behind:
        things.draw(far, dice)
    for top, part in ((132, 90), (160, 0)) if place.ridge else ():
        often, start = dice.randint(60, 230), dice.randint(360)
        line = [(x, top + (16 * _sin(x * often // 100 + start) >> 10)) for x in range(-4, far.shape[1] + 8, 4)]
        colour = _mix(place.ridge or _WHITE, place.sky[1], part)
        _fill(far, [np.array([*line, (far.shape[1] + 4, HEIGHT), (-4, HEIGHT)])], colour)
    near[place.horizon :, :, 3] = 255
    for things in place.before:
        things.draw(near, dice)
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

    They do not depend on `clips`, and no scene is in two families. Raises `ConfigError` for more than there are.
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
    raise ConfigError(f"a dataset of the adapter demo has clips: {clips}; with families: true there are {len(members)}")


_MOST_FAMILIES = 5_000


def _index(*content: int) -> int:
    """The scene with this content: `_scene` backwards."""
    number = int(np.ravel_multi_index(content, _COUNTS))
    return number * pow(_STRIDE, -1, _COMBINATIONS) % _COMBINATIONS


def _placed(index: int, t: int) -> list[NDArray[np.int32]]:
    """The points of each part of the object in frame `t`, int32 (n, 2) in sixteenths of a pixel."""
    size, _, motion, _, name = _scene(index)
    dice = RandomState(index)
    phase, aside = dice.randint(0, 360), dice.randint(-36, 37)
    radius, done, beat = _SIZES[size] * _PIXEL, t * 1024 // (NUM_FRAMES - 1), t % 24
    edge = radius * 9 // 8 + 8 * _PIXEL
    wide, tall = WIDTH * _PIXEL - 2 * edge, HEIGHT * _PIXEL - 2 * edge
    x, y = (WIDTH // 2 + aside) * _PIXEL, HEIGHT // 2 * _PIXEL
    across = edge + wide * done // 1024
    x, y, radius = {
        "moves to the right": (across, y, radius),
        "moves to the left": (WIDTH * _PIXEL - across, y, radius),
        "bounces along": (across, edge + tall - tall * beat * (24 - beat) // 144, radius),
        "zigzags along": (across, edge + tall * min(beat, 24 - beat) // 12, radius),
        "moves in circles": (
            x + (62 * _PIXEL * _sin(t * 10 + phase + 90) >> 10),
            y + (tall // 2 * _sin(t * 10 + phase) >> 10),
            radius,
        ),
        "comes closer": (x, y, radius * (360 + (664 * done >> 10)) >> 10),
        "rises slowly": (x, edge + tall * (1024 - done) // 1024, radius),
        "falls slowly": (x, edge + tall * done // 1024, radius),
    }[motion]
    angle, side = _SWAY * _sin(t * 9 + phase) >> 10, -1 if motion == "moves to the left" else 1
    sine, cosine = _sin(angle), _sin(angle + 90)
    turn = np.array([[side * cosine, side * sine], [-sine, cosine]])
    points = [np.array(polygon) @ turn * radius // (1024 * 1000) + (x, y) for _, polygon in _OBJECTS[name]]
    return [part.astype(np.int32) for part in points]


def frames(index: int, positions: Iterable[int] = range(NUM_FRAMES)) -> Iterator[Image]:
    """Frames of scene `index`, each a new RGB uint8 array (240, 320, 3); the same on every call.

    `positions` are the frames that are drawn, of 72.
    """
    _, colour, _, place, name = _scene(index)
    far, near = _backdrop(_PLACES[place], RandomState(index))
    far, near, mask = map(np.ascontiguousarray, (far[..., :3], near[..., :3], near[..., 3]))
    tones = _tones_of(_COLOURS[colour])
    for t in positions:
        far_x, near_x = _FAR_PAN * t // (NUM_FRAMES - 1), _NEAR_PAN * t // (NUM_FRAMES - 1)
        frame = far[:, far_x : far_x + WIDTH].copy()
        view = slice(near_x, near_x + WIDTH)
        cv2.copyTo(near[:, view], mask[:, view], frame)
        placed = _placed(index, t)
        for thickness, tone in ((_RIM, "white"), (_OUTLINE, "ink")):
            cv2.polylines(frame, placed, True, tones[tone], thickness, cv2.LINE_AA, _SHIFT)
        for (tone, _), points in zip(_OBJECTS[name], placed, strict=True):
            cv2.fillPoly(frame, [points], tones[tone], cv2.LINE_AA, _SHIFT)
        yield frame
