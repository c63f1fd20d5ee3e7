"""Frost on the lens: ice that the kernel draws, or a photograph of it."""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.base.bounds import SHARE
from perturbations.base.kernel import Apply, Kernel
from perturbations.video.blur import ALMOST_HALF

_CRYSTALS = 40
"""Ice crystals a frame."""
_ICE = np.array([[52, 70, 92], [148, 176, 205], [250, 253, 255]], np.float64)
"""The colours of thin, of thicker and of the thickest ice."""


class Pane(NamedTuple):
    """One clip's frost.

    Attributes:
        place: (down, right), uniform in [0, 1), where a photograph of frost is cut.
        ice: a synthetic picture, uint8 height x width x 3, which stands in for ImageNet-C's photographs.
    """

    place: tuple[float, float]
    ice: Image


def draw_frost(rng: np.random.Generator, num_frames: int, height: int, width: int) -> Pane:
    """Where to cut a photograph, and ice for where there is none.

    Thickness is fractal noise, more of it towards the borders, and feathers of ice that grow from random places; its
    colour goes from dark blue to white.
    """
    place = float(rng.random()), float(rng.random())
    thickness = 0.55 * _fractal(rng, height, width) + 0.5 * _feathers(rng, height, width)
    y, x = (np.abs(np.linspace(-1, 1, side)) for side in (height, width))
    thickness += 0.35 * np.maximum(y[:, None], x[None, :]) ** 3
    places = np.clip(thickness, 0, 1)
    channels = [np.interp(places, [0, 0.5, 1], _ICE[:, channel]) for channel in range(3)]
    return Pane(place, np.dstack(channels).astype(np.uint8))


def _fractal(rng: np.random.Generator, height: int, width: int) -> NDArray[np.float32]:
    """Smooth noise in octaves, each finer and weaker than the one before, in [0, 1]."""
    total = np.zeros((height, width), np.float32)
    for octave in range(7):
        cells = 2 << octave
        grid = rng.random((cells, cells), dtype=np.float32)
        total += np.asarray(cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC), np.float32) / 1.6**octave
    total -= total.min()
    total /= total.max() or 1
    return total


def _feathers(rng: np.random.Generator, height: int, width: int) -> NDArray[np.float32]:
    """Lines with side branches at 60 degrees, as ice crystals have them, slightly blurred, in [0, 1]."""
    canvas = np.zeros((height, width), np.uint8)
    unit = max(height, width) / 16
    starts, angles, sizes = rng.random((_CRYSTALS, 2)), rng.random(_CRYSTALS), rng.random(_CRYSTALS)
    for (down, right), turn, size in zip(starts.tolist(), angles.tolist(), sizes.tolist(), strict=True):
        length, angle = unit * (1 + 4 * size), 2 * math.pi * turn
        start = right * width, down * height
        _line(canvas, start, angle, length, 255)
        for branch in range(1, 10):
            way = length * branch / 10
            place = start[0] + way * math.cos(angle), start[1] + way * math.sin(angle)
            for side in (-1, 1):
                _line(canvas, place, angle + side * math.pi / 3, (length - way) * 0.45, 190)
    blurred = cv2.GaussianBlur(canvas, (0, 0), max(0.5, unit / 24), borderType=cv2.BORDER_REPLICATE)
    return np.asarray(blurred / max(1, int(blurred.max())), np.float32)


def _line(canvas: Image, start: tuple[float, float], angle: float, length: float, level: int) -> None:
    """One line from (x, y), its ends in sixteenths of a pixel."""
    ends = start, (start[0] + length * math.cos(angle), start[1] + length * math.sin(angle))
    first, last = ((round(16 * x), round(16 * y)) for x, y in ends)
    cv2.line(canvas, first, last, level, 1, cv2.LINE_AA, 4)


def frost(
    pane: Pane, photograph: Image | None, num_frames: int, height: int, width: int, *, kept: float, added: float
) -> Apply:
    """`kept * frame + added * ice`, clipped and truncated to uint8 (ImageNet-C; MM-Robustness, Tab. 7).

    The ice is a random part of `photograph`, RGB uint8, or synthetic where there is none.
    """
    ice = pane.ice if photograph is None else frost_part(photograph, pane.place, height, width)
    return iced(ice, kept=kept, added=added, rounded=False)


def iced(ice: Image, *, kept: float, added: float, rounded: bool) -> Apply:
    """The kernel that mixes a frame with `ice` of its size; truncated or rounded."""
    lift = 0.0 if rounded else -ALMOST_HALF

    def apply(frame: Image, index: int) -> Image:
        output = np.empty(frame.shape, np.uint8)
        cv2.addWeighted(frame, kept, ice, added, lift, dst=output)
        return output

    return apply


_FROST_SCALE = 0.2


def frost_part(photograph: Image, place: tuple[float, float], height: int, width: int) -> Image:
    """A part of a photograph, height x width x 3, cut where `place` in [0, 1) x [0, 1) says.

    The photograph is made a fifth of its size first, as ImageNet-C does, or as small as still covers the frame.
    """
    scale = max(_FROST_SCALE, height / photograph.shape[0], width / photograph.shape[1])
    size = max(width, round(photograph.shape[1] * scale)), max(height, round(photograph.shape[0] * scale))
    smaller = cv2.resize(photograph, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    top, left = int(place[0] * (size[1] - height + 1)), int(place[1] * (size[0] - width + 1))
    return np.ascontiguousarray(smaller[top : top + height, left : left + width], np.uint8)


# --- declarations ----------------------------------------------------------------------------------------------------

FROST = Kernel(kernel=frost, realization=draw_frost, guide="frost", bounds={"kept": SHARE, "added": SHARE})
