"""Style images that the package draws itself: the same on every machine, without a random generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cv2
import numpy as np
import numpy.typing as npt

from perturbations.base.arrays import Image

_Colour = tuple[int, int, int]

_SIDE = 512


def names() -> list[str]:
    """The styles, sorted."""
    return sorted(_STYLES)


def image(name: str) -> Image:
    """A style, RGB uint8 512 x 512 x 3. Raises `KeyError` for an unknown name."""
    return _STYLES[name]()


def _spread(count: int, which: int = 0) -> npt.NDArray[np.float64]:
    """Evenly spread numbers in [0, 1): additive recurrences of a root of x^5 = x + 1, one per dimension."""
    step = (1 / 1.1673039782614187) ** (which + 1)
    return np.asarray(np.mod(0.5 + step * np.arange(1, count + 1), 1), np.float64)


def _points(count: int) -> list[tuple[int, int]]:
    across, down = _spread(count, 0) * _SIDE, _spread(count, 1) * _SIDE
    return list(zip(across.astype(int).tolist(), down.astype(int).tolist(), strict=True))


def _pick(palette: Sequence[_Colour], count: int, which: int = 2) -> list[_Colour]:
    return [palette[int(value * len(palette))] for value in _spread(count, which)]


def _filled(colour: _Colour) -> Image:
    return np.full((_SIDE, _SIDE, 3), colour, np.uint8)


def _levels(picture: npt.NDArray[np.floating]) -> Image:
    return np.asarray(np.clip(picture, 0, 255), np.uint8)


def _strokes() -> Image:
    canvas = _filled((150, 120, 70))
    palette = [(214, 176, 72), (186, 84, 40), (72, 98, 140), (238, 220, 160), (96, 60, 40), (120, 150, 90)]
    number = 2600
    turns, lengths = _spread(number, 3), _spread(number, 4)
    for (x, y), colour, turn, length in zip(_points(number), _pick(palette, number), turns, lengths, strict=True):
        angle = 0.6 * np.sin(x / 70) + 0.9 * np.cos(y / 90) + 0.5 * turn
        reach = 8 + 18 * length
        end = int(x + reach * np.cos(angle)), int(y + reach * np.sin(angle))
        cv2.line(canvas, (x, y), end, colour, 4, cv2.LINE_AA)
        lighter = tuple(min(255, level + 28) for level in colour)
        cv2.line(canvas, (x, y - 1), (end[0], end[1] - 1), lighter, 1, cv2.LINE_AA)
    return canvas


def _dots() -> Image:
    canvas = _filled((244, 236, 214))
    palette = [(40, 86, 160), (226, 96, 52), (246, 198, 60), (60, 140, 90), (160, 60, 120), (250, 244, 230)]
    for (x, y), colour, size in zip(_points(9000), _pick(palette, 9000), _spread(9000, 3), strict=True):
        cv2.circle(canvas, (x, y), 2 + int(3 * size), colour, -1, cv2.LINE_AA)
    return canvas


def _nearest(count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """For every pixel the nearest of `count` points, and how much farther the second nearest is."""
    reach = int(2 * _SIDE / count**0.5)  # farther points are not the nearest two
    best, second = np.full((2, _SIDE, _SIDE), 2 * _SIDE**2, np.int32)  # squared distances
    owner = np.zeros((_SIDE, _SIDE), np.int64)
    for index, (x, y) in enumerate(_points(count)):
        near = _window(x, y, reach)
        down, across = _offsets(x, y, near)
        distance = (down**2 + across**2).astype(np.int32)
        owner[near][distance < best[near]] = index
        np.minimum(second[near], np.maximum(best[near], distance), out=second[near])
        np.minimum(best[near], distance, out=best[near])
    return owner, np.sqrt(second) - np.sqrt(best)


def _window(x: int, y: int, reach: int) -> tuple[slice, slice]:
    return slice(max(y - reach, 0), y + reach + 1), slice(max(x - reach, 0), x + reach + 1)


def _offsets(x: int, y: int, near: tuple[slice, slice]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The distances of a window's pixels from a point, down and across."""
    rows, columns = (np.arange(_SIDE, dtype=np.float64)[part] for part in near)
    return (rows - y)[:, None], (columns - x)[None, :]


def _glass() -> Image:
    owner, margin = _nearest(130)
    palette = [(190, 30, 46), (24, 72, 160), (240, 180, 30), (20, 120, 80), (110, 40, 130), (236, 236, 220)]
    colours = np.array(_pick(palette, 130), np.float64)
    shine = 0.8 + 0.2 * np.cos(np.mgrid[0:_SIDE, 0:_SIDE].sum(axis=0) / 17)[..., None]
    picture = colours[owner] * shine
    picture[margin < 4] = (18, 16, 20)
    return _levels(picture)


def _mosaic() -> Image:
    owner, margin = _nearest(420)
    palette = [(206, 178, 128), (168, 120, 76), (96, 132, 150), (224, 206, 172), (120, 66, 48), (62, 92, 98)]
    picture = np.array(_pick(palette, 420), np.uint8)[owner]
    picture[margin < 2.5] = (70, 62, 56)
    return picture


def _hatching() -> Image:
    y, x = np.mgrid[0:_SIDE, 0:_SIDE].astype(np.float64)
    tone = 0.5 + 0.3 * np.sin(x / 61 + 2 * np.sin(y / 83)) + 0.2 * np.cos(y / 47)
    ink = np.zeros((_SIDE, _SIDE), bool)
    for angle, threshold in ((0.7, 0.75), (-0.7, 0.5), (0.1, 0.3)):
        wave = np.cos((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / 7 + 0.8 * np.sin(x / 31))
        ink |= (tone < threshold) & (wave > 0.35)
    picture = _filled((238, 230, 214))
    picture[ink] = (34, 30, 40)
    return np.asarray(cv2.GaussianBlur(picture, (3, 3), 0.6), np.uint8)


def _waves() -> Image:
    y, x = np.mgrid[0:_SIDE, 0:_SIDE].astype(np.float64)
    phase = y / 26 + 1.6 * np.sin(x / 58) + 0.7 * np.sin(x / 23 + y / 71)
    palette = np.array([(16, 44, 92), (36, 84, 140), (92, 148, 182), (196, 216, 214), (238, 232, 208)])
    picture = _levels(palette[np.floor(np.mod(phase, 1) * 5).astype(int)])
    picture[np.abs(np.mod(phase, 1) - 0.98) < 0.03] = (12, 22, 46)
    return picture


def _swirls() -> Image:
    y, x = np.mgrid[0:_SIDE, 0:_SIDE].astype(np.float64)
    field = np.zeros((_SIDE, _SIDE))
    for (px, py), sign in zip(_points(9), (1, -1, 1, 1, -1, 1, -1, -1, 1), strict=True):
        distance = np.hypot(x - px, y - py) + 1
        field += sign * np.arctan2(y - py, x - px) * np.exp(-distance / 120) * 3 + 26 * np.exp(-distance / 40)
    bands = 0.5 + 0.5 * np.sin(field * 2.4 + y / 29)
    low, high = np.array((20, 40, 112.0)), np.array((226, 204, 96.0))
    picture = low + (high - low) * bands[..., None] ** 1.5
    ridges = 0.85 + 0.15 * np.sin(field * 20 + x / 3)
    return _levels(picture * ridges[..., None])


def _cubes() -> Image:
    canvas = _filled((200, 190, 172))
    palette = [(206, 172, 120), (120, 132, 120), (72, 80, 92), (232, 214, 178), (164, 92, 62), (150, 160, 168)]
    number = 260
    turns, sizes = _spread(number, 3), _spread(number, 4)
    for (x, y), colour, turn, size in zip(_points(number), _pick(palette, number), turns, sizes, strict=True):
        angles = 2 * np.pi * (turn + np.array((0.0, 0.27, 0.61)))
        reach = 26 + 60 * size
        corners = np.stack([x + reach * np.cos(angles), y + reach * np.sin(angles)], axis=1).astype(np.int32)
        cv2.fillConvexPoly(canvas, corners, colour, cv2.LINE_AA)
        cv2.polylines(canvas, [corners], True, (46, 40, 38), 1, cv2.LINE_AA)
    return canvas


def _poster() -> Image:
    canvas = _filled((246, 240, 226))
    palette = [(226, 38, 42), (250, 206, 24), (28, 78, 170), (20, 20, 22), (246, 240, 226)]
    edges = np.sort((_spread(9, 0) * _SIDE).astype(int))
    rows = np.sort((_spread(9, 3) * _SIDE).astype(int))
    colours = _pick(palette, 100)
    for i, (left, right) in enumerate(zip([0, *edges], [*edges, _SIDE], strict=True)):
        for j, (top, bottom) in enumerate(zip([0, *rows], [*rows, _SIDE], strict=True)):
            cv2.rectangle(canvas, (int(left), int(top)), (int(right), int(bottom)), colours[i * 10 + j], -1)
    for edge in edges.tolist():
        cv2.line(canvas, (edge, 0), (edge, _SIDE), (16, 16, 18), 9)
    for row in rows.tolist():
        cv2.line(canvas, (0, row), (_SIDE, row), (16, 16, 18), 9)
    return canvas


def _wash() -> Image:
    picture = np.full((_SIDE, _SIDE, 3), (244, 240, 232), np.float64)
    palette = [(108, 150, 190), (216, 140, 150), (150, 178, 120), (230, 196, 120), (140, 120, 176)]
    for (x, y), colour, size in zip(_points(60), _pick(palette, 60), _spread(60, 3), strict=True):
        reach = 30 + 70 * size
        near = _window(x, y, int(1.4 * reach) + 24)
        down, across = _offsets(x, y, near)
        angle = np.arctan2(down, across)
        distance = np.hypot(down, across) * (1 + 0.12 * np.sin(5 * angle + x) + 0.06 * np.sin(11 * angle + y))
        inside = 1 / (1 + np.exp((distance - reach) / 3))
        rim = np.exp(-(((distance - reach) / 5) ** 2))
        cover = (0.28 * inside + 0.16 * rim)[..., None]
        picture[near] = picture[near] * (1 - cover) + np.array(colour, np.float64) * cover
    return _levels(picture)


_STYLES: dict[str, Callable[[], Image]] = {
    "cubes": _cubes,
    "dots": _dots,
    "glass": _glass,
    "hatching": _hatching,
    "mosaic": _mosaic,
    "poster": _poster,
    "strokes": _strokes,
    "swirls": _swirls,
    "wash": _wash,
    "waves": _waves,
}
