"""What a clip is, and its frames: the types that decoders and encoders share.

Frames are RGB uint8 arrays, H x W x 3, upright (a container's rotation is applied).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from perturbations.arrays import Image


class Frame(NamedTuple):
    """One frame: RGB uint8 H x W x 3, its time in ticks of the clip's `time_base`, its position in the clip."""

    image: Image
    pts: int
    position: int


@dataclass(frozen=True)
class VideoInfo:
    """The header of a video stream in its container. Sizes are upright; what decodes may differ from it."""

    codec: str
    pix_fmt: str
    width: int
    height: int
    rotation: int
    frame_rate: Fraction
    time_base: Fraction
    declared_frames: int | None
    declared_duration_s: float | None


@dataclass(frozen=True)
class Clip:
    """A video, or the part of it between two times in seconds (the end excluded)."""

    path: Path
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True)
class Timing:
    """A clip's clock: ticks of `time_base` seconds, and the nominal frame rate."""

    time_base: Fraction
    frame_rate: Fraction


SAME_TIME_S = 1e-6
"""A frame that is at most this much before a span's edge counts as on it: spans are decimal, clocks are not."""


def uniform_indices(num_frames: int, total: int) -> list[int]:
    """The positions of `num_frames` of `total` frames: the middle of each of `num_frames` equal spans.

    The sampling of X-Pool and MLVP; a clip with fewer frames gives all of them and repeats the last one.
    Raises `ValueError` when `total` is below 1.
    """
    if total < 1:
        raise ValueError(f"a clip has at least one frame, not {total}")
    spans = min(num_frames, total)
    edges = np.linspace(0, total, spans + 1).astype(int).tolist()
    middles = [(start + end - 1) // 2 for start, end in pairwise(edges)]
    return middles + [middles[-1]] * (num_frames - spans)
