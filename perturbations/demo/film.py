"""The `demo` dataset: captioned cartoon scenes that the package draws itself, so every command runs without any data.

Scene `i` depends on `i` alone, and has the same bytes on every machine: see `canvas`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.datasets.registry import FamilyMember
from perturbations.demo.canvas import HEIGHT, PIXEL, SHIFT, WIDTH, Canvas, Colour, Dice, blend, cos, sin, weights
from perturbations.demo.drawn_objects import COLOURS, OBJECTS, SECONDS, SIZES, UNIT, Part, tones_of
from perturbations.demo.scenery import FAR_PAN, NEAR_PAN, PLACES

FPS = 24
NUM_FRAMES = 72
SECONDS_LONG = NUM_FRAMES / FPS
FAMILY = 8
"""Scenes in a family: four motions in two colours."""
TRAINING = range(4000, 6400)
"""Scenes that the demo's encoder is trained on; no family has one of them."""
_OUTLINE, _RIM = 4, 7  # thickness in pixels of the dark outline and of the pale rim around it
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
_COMBINATIONS = len(OBJECTS) * len(PLACES) * len(_MOTIONS) * len(COLOURS) * len(SIZES)
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
    """The content of scene `index`. Two scenes below 11520 always differ in something that the caption names."""
    rest = index * _STRIDE % _COMBINATIONS
    chosen = []
    for names in (OBJECTS, PLACES, _MOTIONS, COLOURS, SIZES):
        rest, digit = divmod(rest, len(names))
        chosen.append(list(names)[digit])
    dice = Dice(index)
    second = list(SECONDS)[dice.between(0, len(SECONDS) - 1)] if dice.between(0, 2) == 0 else None
    thing, place, motion, colour, size = chosen
    return _Scene(thing, place, motion, colour, size, second, dice.bits())


def items(clips: int) -> list[tuple[str, str]]:
    """The first `clips` items as (item_id, caption), such as ("demo-0000", "a large red ball bounces along ...").

    An item does not depend on `clips`. All captions are distinct up to 11520 clips.
    """
    return [(item_id(index), caption(index)) for index in range(clips)]


def item_id(index: int) -> str:
    """The name of scene `index`."""
    return f"demo-{index:04d}"


def families(clips: int) -> list[FamilyMember]:
    """The first `clips` scenes of families, eight each: the same thing, place and size, in four motions x two colours.

    They do not depend on `clips`, and no scene is in two families. Raises ValueError for more than there are.
    """
    members: list[FamilyMember] = []
    taken = {*TRAINING}
    for number in range(_MOST_FAMILIES):
        if len(members) >= clips:
            return members[:clips]
        family = _family(number)
        scenes = {scene for scene, _, _ in family}
        if not scenes & taken:
            taken |= scenes
            count = len(members) // FAMILY
            for place, (scene, motion, colour) in enumerate(family):
                start_s, end_s = place * SECONDS_LONG, (place + 1) * SECONDS_LONG
                members.append(FamilyMember(item_id(scene), caption(scene), count, motion, colour, start_s, end_s))
    raise ValueError(f"clips is {clips}; there are {len(members)} scenes in families")


_MOST_FAMILIES = 5_000


def _family(number: int) -> list[tuple[int, str, str]]:
    """Scene, motion and colour of the members of a family that dice have drawn."""
    dice = Dice(1_000_003 + number)
    thing, place, size = (dice.between(0, len(names) - 1) for names in (OBJECTS, PLACES, SIZES))
    motions, colours = _drawn(dice, len(_MOTIONS), 4), _drawn(dice, len(COLOURS), 2)
    return [
        (_index(thing, place, motion, colour, size), _MOTIONS[motion], list(COLOURS)[colour])
        for motion in motions
        for colour in colours
    ]


def _drawn(dice: Dice, count: int, wanted: int) -> list[int]:
    """So many different numbers below `count`."""
    numbers = list(range(count))
    return [numbers.pop(dice.between(0, len(numbers) - 1)) for _ in range(wanted)]


def _index(thing: int, place: int, motion: int, colour: int, size: int) -> int:
    """The scene with this content: `_scene` backwards."""
    rest = 0
    for digit, names in ((size, SIZES), (colour, COLOURS), (motion, _MOTIONS), (place, PLACES), (thing, OBJECTS)):
        rest = rest * len(names) + digit
    return rest * pow(_STRIDE, -1, _COMBINATIONS) % _COMBINATIONS


def caption(index: int) -> str:
    """The caption of scene `index`."""
    scene = _scene(index)
    text = f"a {scene.size} {scene.colour} {scene.thing} {scene.motion} {scene.place}"
    return f"{text} near a {scene.second}" if scene.second else text


def _pose(scene: _Scene, t: int) -> _Pose:
    """The pose of the main object in frame `t`. The whole object stays inside the frame."""
    thing, floor = OBJECTS[scene.thing], PLACES[scene.place].floor
    size = SIZES[scene.size]
    dice = Dice(scene.seed)
    phase, aside = dice.between(0, 359), dice.between(-36, 36)
    # In sixteenths of a pixel: limits of the centre, and its place when the object stands on the floor.
    edge = (size * 9 // 8 + 8) * PIXEL
    left, right, top = edge, WIDTH * PIXEL - edge, edge
    rest = min((floor or HEIGHT - 14) * PIXEL - size * PIXEL * (thing.foot or 950) // 1000, HEIGHT * PIXEL - edge)
    done = t * 1024 // (NUM_FRAMES - 1)
    across = left + (right - left) * done // 1024
    radius, heading = size * PIXEL, 0
    x, y = (WIDTH // 2 + aside) * PIXEL, 112 * PIXEL
    if scene.motion in ("moves to the right", "moves to the left"):
        heading = 1 if scene.motion == "moves to the right" else -1
        x = across if heading > 0 else left + right - across
        y = rest if thing.foot and floor else y + (5 * PIXEL * sin(t * 10 + phase) >> 10)
    elif scene.motion == "bounces along":
        heading, beat = 1, (t + 12) % 24
        x, y = across, rest - min(rest - top, 104 * PIXEL) * beat * (24 - beat) // 144
    elif scene.motion == "zigzags along":
        heading, beat = 1, t % 24
        x, y = across, top + (rest - top) * min(beat, 24 - beat) // 12
    elif scene.motion == "moves in circles":
        x += 62 * PIXEL * cos(t * 10 + phase) >> 10
        y += (112 * PIXEL - top) * sin(t * 10 + phase) >> 10
    elif scene.motion == "comes closer":
        ease = done * done * (3 * 1024 - 2 * done) >> 20
        x, y = (WIDTH // 2 + (aside * (1024 - ease) >> 10)) * PIXEL, (84 + (40 * ease >> 10)) * PIXEL
        radius = radius * (384 + (640 * ease >> 10)) >> 10
    else:
        x += 20 * PIXEL * sin(t * 8 + phase) >> 10
        y = top + (rest - top) * (1024 - done if scene.motion == "rises slowly" else done) // 1024
    angle = thing.spin * t * (heading or 1) + thing.tilt * heading + (thing.sway * sin(t * 9 + phase) >> 10)
    width = 760 + (264 * cos(t * 45) >> 10) if thing.flaps else 1024
    return _Pose(x, y, radius, angle, -width if thing.faces and heading < 0 else width)


def _placed(part: Part, pose: _Pose) -> NDArray[np.int32]:
    """The part's points in the frame, int32 (n, 2) in sixteenths of a pixel."""
    sine, cosine = sin(pose.angle), cos(pose.angle)
    x, y = part.points[:, 0] * pose.width >> 10, part.points[:, 1]
    moved = np.stack([x * cosine - y * sine, x * sine + y * cosine], axis=1) * pose.radius // (1024 * UNIT)
    placed: NDArray[np.int32] = (moved + np.array((pose.x, pose.y))).astype(np.int32)
    return placed


def _draw(frame: Image, parts: Sequence[Part], tones: dict[str, Colour], pose: _Pose, outline: int, rim: int) -> None:
    """Draw an object: a pale rim and a dark outline around its silhouette, then its parts in order."""
    placed = [_placed(part, pose) for part in parts]
    silhouette = [points for part, points in zip(parts, placed, strict=True) if part.silhouette]
    for thickness, tone in ((rim, "white"), (outline, "ink")):
        if thickness:
            cv2.polylines(frame, silhouette, True, tones[tone], thickness, cv2.LINE_AA, SHIFT)
    for part, points in zip(parts, placed, strict=True):
        cv2.fillPoly(frame, [points], tones[part.tone], cv2.LINE_AA, SHIFT)


def _shadow(frame: Image, pose: _Pose, floor: int) -> None:
    """Darken an ellipse on the floor below the object: the higher it is, the smaller and fainter."""
    height = max(floor - (pose.y + pose.radius) // PIXEL, 0)
    rx = pose.radius * (256 - height) // 256 // PIXEL
    x, ry = pose.x // PIXEL, max(rx // 5, 2)
    top, left = floor - ry - 2, max(x - rx - 2, 0)
    patch = frame[top : floor + ry + 3, left : x + rx + 3]
    shape = Canvas(np.zeros_like(patch))
    shape.dot(x - left, floor - top, rx, ry, (0, 0, 0))
    shade = shape.mask[:, :, None].astype(np.uint16) * np.uint16(max(110 - height // 2, 40)) >> 8
    patch[...] = patch * (256 - shade) >> 8


def _snow(frame: Image, flakes: NDArray[np.int32], t: int) -> None:
    """Draw `flakes` (2, n), numbers 0..255, at their places in frame `t`: larger flakes fall faster."""
    n = np.arange(flakes.shape[1])
    large = n % 3 == 0
    x = (flakes[0] * 5 // 4 + t * (n % 5 - 2) // 3) % (WIDTH - 1)
    y = (flakes[1] + t * np.where(large, 2, 1)) % (HEIGHT - 1)
    frame[y, x] = 255
    for dx, dy in ((1, 0), (0, 1), (1, 1)):
        frame[y[large] + dy, x[large] + dx] = 255


def frames(index: int, positions: Iterable[int] = range(NUM_FRAMES)) -> Iterator[Image]:
    """Frames of scene `index`, each a new RGB uint8 array (240, 320, 3); the same on every call.

    `positions` are the frames that are drawn, of 72.
    """
    return _film(_scene(index), positions)


def _film(scene: _Scene, positions: Iterable[int] = range(NUM_FRAMES)) -> Iterator[Image]:
    dice = Dice(scene.seed)
    place = PLACES[scene.place]
    far, near = place.draw(dice)
    backwards = dice.between(0, 1) == 1
    # Above row `top` the near layer is empty; from row `solid` on it hides the far layer and needs no blending.
    top = int(near.mask.any(axis=1).argmax())
    solid = HEIGHT - int((near.mask.min(axis=1) < 255)[::-1].argmax())
    colours, keep = weights(near.image[top:solid], near.mask[top:solid])
    parts, tones = OBJECTS[scene.thing].parts, tones_of(COLOURS[scene.colour])
    second = SECONDS[scene.second] if scene.second else []
    second_x, second_y = dice.between(40, 120) * PIXEL, dice.between(34, 80) * PIXEL
    flakes = dice.noise(2, 110)
    for t in positions:
        p = NUM_FRAMES - 1 - t if backwards else t
        far_x, near_x = FAR_PAN * p // (NUM_FRAMES - 1), NEAR_PAN * p // (NUM_FRAMES - 1)
        frame = far.image[:, far_x : far_x + WIDTH].copy()
        if second:
            drift = _Pose(second_x + 20 * t, second_y + (60 * sin(t * 12) >> 10), 9 * PIXEL, 12 * sin(t * 15) >> 10)
            _draw(frame, second, tones, drift, 2, 0)
        view = slice(near_x, near_x + WIDTH)
        blend(frame[top:solid], colours[:, view], keep[:, view])
        frame[solid:] = near.image[solid:, view]
        if place.snows:
            _snow(frame, flakes, t)
        pose = _pose(scene, t)
        if place.floor:
            _shadow(frame, pose, place.floor)
        _draw(frame, parts, tones, pose, _OUTLINE, _RIM)
        yield frame


def boxes(index: int) -> list[tuple[int, int, int, int]]:
    """The main object's box in each of the 72 frames: (left, top, right, bottom) in pixels, the last two exclusive.

    The pale rim around the object is part of it.
    """
    scene = _scene(index)
    soft = PIXEL  # antialiasing spreads an edge by about a pixel
    parts = [(part, soft + _RIM * PIXEL // 2 * part.silhouette) for part in OBJECTS[scene.thing].parts]
    edges = []
    for t in range(NUM_FRAMES):
        pose = _pose(scene, t)
        reach = np.concatenate([_placed(part, pose) + side * rim for part, rim in parts for side in (-1, 1)])
        left, top = (int(low) // PIXEL for low in reach.min(axis=0))
        right, bottom = (-(-int(high) // PIXEL) + 1 for high in reach.max(axis=0))
        edges.append((max(left, 0), max(top, 0), min(right, WIDTH), min(bottom, HEIGHT)))
    return edges
