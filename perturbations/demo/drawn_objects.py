"""The objects of the scenes, as polygons."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perturbations.demo.canvas import Colour, Polygon, cos, mix, oval, rect, sin

UNIT = 1000  # shapes are drawn around the origin with this radius, then scaled


class Part(NamedTuple):
    """One polygon of an object: `points` int64 (n, 2) in thousandths of the radius. The silhouette gets the outline."""

    tone: str  # a key of `tones_of`
    points: NDArray[np.int64]
    silhouette: bool


def tones_of(colour: Colour) -> dict[str, Colour]:
    """The colours of the parts of an object: tone -> colour."""
    return {
        "main": colour,
        "dark": mix(colour, (30, 10, 40), 80),
        "light": mix(colour, (255, 255, 255), 120),
        "pale": mix(colour, (255, 255, 255), 205),
        "ink": (44, 36, 48),
        "white": (255, 255, 255),
        "glass": (206, 232, 246),
        "wood": (164, 112, 70),
        "grey": (190, 192, 198),
        "gold": (250, 206, 84),
        "fire": (252, 142, 50),
    }


def _part(tone: str, points: Polygon, silhouette: bool = False) -> Part:
    return Part(tone, np.array(points, np.int64), silhouette)


def _mirrored(line: Polygon) -> Polygon:
    """`line`, and back again on the other side of the vertical axis."""
    return [*line, *((-x, y) for x, y in reversed(line))]


def _petal(x: int, y: int, length: int, breadth: int, angle: int) -> Polygon:
    """An ellipse with half axes `length` and `breadth`, turned by `angle` degrees."""
    turned = []
    for px, py in oval(0, 0, length, breadth):
        turned.append((x + (px * cos(angle) - py * sin(angle) >> 10), y + (px * sin(angle) + py * cos(angle) >> 10)))
    return turned


_BALL = [
    _part("main", oval(0, 0, UNIT, UNIT), True),
    *[_part("pale", [(0, 0), *oval(0, 0, UNIT, UNIT, start, start + 60)]) for start in (0, 120, 240)],
    _part("dark", oval(0, 0, 200, 200)),
]

_BOX = [
    _part("light", [(-90, -640), *oval(-330, -780, 260, 170, 20, 340)], True),
    _part("light", [(90, -640), *oval(330, -780, 260, 170, 200, 520)], True),
    _part("main", rect(-780, -420, 780, 900), True),
    _part("main", rect(-880, -640, 880, -260), True),
    _part("dark", rect(420, -260, 780, 900)),
    _part("dark", rect(-780, -260, 780, -160)),
    _part("pale", rect(-170, -640, 170, 900)),
    _part("ink", oval(0, -690, 110, 90)),
]

_RIM = [oval(0, 0, radius, radius, 36 * k - 90, 36 * k - 90)[0] for k, radius in enumerate((1000, 430) * 5)]
_STAR = [_part("main", _RIM, True), *(_part("dark", [(0, 0), _RIM[k], _RIM[k + 1]]) for k in range(0, 10, 2))]

_TRIANGLE = [
    _part("main", [(0, -950), (960, 720), (-960, 720)], True),
    _part("dark", [(0, -950), (960, 720), (330, 720)]),
    _part("light", [(-70, -700), (-40, -620), (-560, 480), (-720, 560)]),
]

_ROOF = [(-1000, -40), (-860, -120), (-560, -160), (-380, -560), (240, -560), (540, -140), (900, -60), (1000, 80)]
_CAR = [
    _part("main", [(-1000, 380), *_ROOF, (1000, 380)], True),
    _part("dark", rect(-1000, 160, 1000, 380)),
    _part("glass", [(-430, -170), (-300, -460), (-90, -460), (-90, -170)]),
    _part("glass", [(20, -170), (20, -460), (200, -460), (400, -170)]),
    _part("gold", oval(900, 60, 90, 90)),
    _part("pale", rect(-1000, 90, 760, 150)),
    *[_part("ink", oval(x, 400, 250, 250), True) for x in (-530, 530)],
    *[_part("grey", oval(x, 400, 120, 120)) for x in (-530, 530)],
]

_FISH = [
    _part("dark", [(-560, 0), (-1000, -480), (-880, 0), (-1000, 480)], True),
    _part("dark", [(-200, -380), (60, -760), (420, -420)], True),
    _part("dark", [(-100, 380), (-40, 700), (260, 420)], True),
    _part("main", oval(140, 0, 840, 520), True),
    _part("light", oval(140, 60, 780, 440, 10, 170)),
    _part("pale", [(-60, -505), (110, -518), (40, 0), (110, 518), (-60, 505), (-130, 0)]),
    _part("pale", [(-400, -390), (-280, -440), (-350, 0), (-280, 440), (-400, 390), (-460, 0)]),
    _part("white", oval(610, -140, 150, 150)),
    _part("ink", oval(650, -130, 80, 80)),
    _part("ink", [(960, 100), (760, 170), (940, 140)]),
]

_TAIL = [(-2 * k - (110 * sin(k * 6) >> 10), 280 + 7 * k) for k in range(0, 96, 5)]
_BOWS = [(x + side * 90, y) for x, y in _TAIL[9::9] for side in (-1, 1)]
_KITE = [
    _part("pale", [*((x - 26, y) for x, y in _TAIL), *((x + 26, y) for x, y in reversed(_TAIL))], True),
    *[_part("light", _petal(x, y, 100, 60, 0), True) for x, y in _BOWS],
    _part("main", [(0, -1000), (600, -400), (0, 320), (-600, -400)], True),
    _part("pale", [(0, -1000), (600, -400), (0, -400)]),
    _part("pale", [(0, 320), (-600, -400), (0, -400)]),
]


def _gore(outer: int, inner: int, start: int) -> Polygon:
    """A stripe of the envelope from its top to its mouth: to the right from 270 degrees, to the left from 150."""
    mouth = [(x * 170 // 740 * (1 if start == 270 else -1), 520) for x in (outer, inner)]
    edges = [oval(0, -280, x, 720, start, start + 120) for x in (outer, inner)]
    if start == 270:
        return [*edges[0], *mouth, *reversed(edges[1])]
    return [*edges[0], *reversed(edges[1]), *reversed(mouth)]


_BALLOON = [
    _part("ink", [(-160, 500), (-120, 500), (-90, 760), (-130, 760)]),
    _part("ink", [(160, 500), (120, 500), (90, 760), (130, 760)]),
    _part("wood", [(-170, 720), (170, 720), (140, 1000), (-140, 1000)], True),
    _part("main", [*oval(0, -280, 740, 720, 150, 390), (170, 520), (-170, 520)], True),
    _part("dark", _gore(740, 520, 270)),
    _part("pale", _gore(520, 200, 270)),
    _part("pale", _gore(520, 200, 150)),
    _part("gold", rect(-180, 780, 180, 830)),
]

_NOSE = [(k * 3 + 20, -1000 + k * k * 9 // 100) for k in range(0, 100, 12)]
_ROCKET = [
    _part("fire", [(-180, 540), (180, 540), (110, 800), (0, 1000), (-110, 800)], True),
    _part("gold", [(-100, 540), (100, 540), (0, 820)]),
    *[_part("dark", [(x * 250, 60), (x * 620, 440), (x * 600, 720), (x * 200, 520)], True) for x in (-1, 1)],
    _part("pale", _mirrored([*_NOSE, (330, 300), (240, 560)]), True),
    _part("main", _mirrored(_NOSE)),
    _part("main", _mirrored([(310, 360), (240, 560)])),
    _part("ink", oval(0, 0, 190, 190)),
    _part("glass", oval(0, 0, 130, 130)),
]


def _wings(side: int) -> list[Part]:
    """The butterfly's wings on one side; the left ones are the right ones, turned around and tilted the other way."""
    tilt = 90 - side * 90
    return [
        _part("dark", _petal(side * 400, 400, 480, 330, tilt + side * 48), True),
        _part("main", _petal(side * 500, -330, 640, 400, tilt - side * 42), True),
        _part("pale", _petal(side * 640, -450, 250, 150, tilt - side * 42)),
        _part("light", _petal(side * 460, 460, 190, 130, tilt + side * 48)),
        _part("ink", [(0, -480), (side * 190, -830), (side * 240, -810), (side * 60, -440)]),
    ]


_BODY = [_part("ink", oval(0, 60, 110, 600)), _part("ink", oval(0, -500, 130, 130))]
_BUTTERFLY = [*_wings(-1), *_wings(1), *_BODY]

_SPAN = [(-1000, -300), (-520, -520), (0, 60), (520, -520), (1000, -300)]
_BIRD = [_part("white", [*_SPAN, (540, -260), (0, 420), (-540, -260)], True)]

_BEE = [
    _part("glass", oval(-100, -480, 300, 480), True),
    _part("gold", oval(0, 120, 820, 520), True),
    _part("ink", [(-300, -370), (-60, -400), (-60, 640), (-300, 610)]),
    _part("ink", [(220, -390), (440, -320), (440, 560), (220, 620)]),
]

_BLADE = [*oval(0, 600, 1100, 1100, 210, 330), *oval(0, -600, 1100, 1100, 30, 150)]
_LEAF = [_part("fire", _BLADE, True), _part("wood", rect(-1100, -40, 900, 40))]


class _Object(NamedTuple):
    parts: list[Part]
    spin: int = 0  # degrees per frame
    sway: int = 0  # degrees to either side
    tilt: int = 0  # degrees in the direction of its motion
    foot: int = 0  # distance from its centre down to the floor, in thousandths of its radius; 0 for flying objects
    faces: bool = False  # its front is on the right, so it is mirrored when it moves to the left
    flaps: bool = False


OBJECTS = {
    "ball": _Object(_BALL, spin=5, foot=1000),
    "fish": _Object(_FISH, sway=8, faces=True),
    "star": _Object(_STAR, spin=3),
    "car": _Object(_CAR, sway=2, foot=650, faces=True),
    "kite": _Object(_KITE, sway=14),
    "box": _Object(_BOX, sway=4, foot=900),
    "balloon": _Object(_BALLOON, sway=5),
    "triangle": _Object(_TRIANGLE, sway=7, foot=750),
    "rocket": _Object(_ROCKET, sway=6, tilt=55),
    "butterfly": _Object(_BUTTERFLY, sway=10, flaps=True),
}
SECONDS = {"bird": _BIRD, "bee": _BEE, "leaf": _LEAF}
COLOURS: dict[str, Colour] = {
    "red": (222, 52, 52),
    "yellow": (252, 206, 46),
    "blue": (48, 108, 222),
    "orange": (246, 136, 32),
    "green": (54, 168, 82),
    "pink": (246, 122, 174),
    "purple": (138, 76, 190),
    "turquoise": (38, 190, 184),
}
SIZES = {"large": 46, "small": 29}  # radius in pixels
