"""What a clip is, and its frames: the types that decoders and encoders share.

Frames are RGB uint8 arrays, H x W x 3, upright (a container's rotation is applied).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from perturbations.base.arrays import Image
from perturbations.base.arrays import uniform_indices as uniform_indices


class Frame(NamedTuple):
    """One frame: RGB uint8 H x W x 3, its time in ticks of the clip's `time_base`, its position in the clip."""

    image: Image
    pts: int
    position: int


@dataclass(frozen=True)
class VideoInfo:
    """The header of a video stream in its container. Sizes are upright; what decodes may differ from it.

    `sample_aspect` is the width of an upright pixel over its height, 1 where the file does not say. `primaries` and
    `transfer` are the numbers of ITU-T H.273 for the colours' primaries and transfer function. `losses` name properties
    of the file that a clip of 8-bit RGB with one sound cannot keep.
    """

    codec: str
    pix_fmt: str
    width: int
    height: int
    rotation: int
    sample_aspect: Fraction
    primaries: int
    transfer: int
    losses: tuple[str, ...]
    frame_rate: Fraction
    time_base: Fraction
    declared_frames: int | None
    declared_duration_s: float | None


@dataclass(frozen=True)
class MediaClip:
    """A video, or the part of it between two times in seconds (the end excluded)."""

    path: Path
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True)
class Timing:
    """A clip's clock: ticks of `time_base` seconds, and the nominal frame rate."""

    time_base: Fraction
    frame_rate: Fraction


def even(clock: Timing) -> Timing:
    """A timing of the same frame rate, with one tick per frame."""
    return Timing(1 / clock.frame_rate, clock.frame_rate)


def plain_rate(rate: Fraction) -> Fraction:
    """A frame rate as a fraction of small numbers: 30000/1001 where a container has rounded it."""
    plain = rate.limit_denominator(1001)
    # Below a frame per second, a small denominator may be far off, or 0.
    return plain if abs(plain - rate) * 1000 <= rate else rate.limit_denominator(10**9) or rate


SAME_TIME_S = 1e-6
"""A frame at most this much before a span's edge counts as on the edge: spans are decimal, clocks are not."""
