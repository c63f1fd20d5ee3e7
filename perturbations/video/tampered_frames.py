"""One stretch of a clip is tampered with (MVTamperBench; reversal: REVEAL).

Where the stretch lies is drawn once per clip. A longer stretch contains the shorter ones, so that each severity changes
what the milder ones change, and more. Plans are those of `temporal`.
"""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np

from perturbations.base.arrays import Image
from perturbations.base.kernel import Apply
from perturbations.video.temporal import FrameOrder


def draw_places(rng: np.random.Generator, num_frames: int, height: int, width: int) -> tuple[float, float]:
    """Where the stretch lies in the clip, and where the other clip starts; each uniform in [0, 1)."""
    return float(rng.random()), float(rng.random())


def stretch(place: float, num_frames: int, share: float, *, least: int = 1, left: int = 0) -> tuple[int, int]:
    """The first frame of the stretch, and the first one after it.

    `place` is where the stretch lies, in [0, 1): 0 is the beginning of the clip.
    It has `share` of the frames, rounded; at least `least`, and `left` frames at least are not in it, where the clip
    has so many. Stretches of one clip are nested.
    """
    length = max(0, min(max(least, round(share * num_frames)), num_frames - left))
    start = int(place * (num_frames - length + 1))
    return start, start + length


def mask(place: float, num_frames: int, height: int, width: int, *, share: float) -> Apply:
    """The frames of the stretch are black."""
    return _within(*stretch(place, num_frames, share), _blackened)


def rotate(place: float, num_frames: int, height: int, width: int, *, share: float) -> Apply:
    """The frames of the stretch are turned by 180 degrees, as in the authors' code."""
    return _within(*stretch(place, num_frames, share), _turned)


def _within(start: int, end: int, change: Callable[[Image], Image]) -> Apply:
    def apply(frame: Image, index: int) -> Image:
        return change(frame) if start <= index < end else np.array(frame, order="C")

    return apply


def _blackened(frame: Image) -> Image:
    return np.zeros(frame.shape, np.uint8)


def _turned(frame: Image) -> Image:
    return np.asarray(cv2.rotate(frame, cv2.ROTATE_180), np.uint8)


def repeat(place: float, num_frames: int, *, share: float) -> FrameOrder:
    """The stretch is played twice, one after the other: the clip gets longer."""
    start, end = stretch(place, num_frames, share)
    own = np.arange(num_frames, dtype=np.int64)
    return np.concatenate([own[:end], own[start:]])


def drop(place: float, num_frames: int, *, share: float) -> FrameOrder:
    """The stretch is cut out: the clip gets shorter. At least one frame is left."""
    start, end = stretch(place, num_frames, share, left=1)
    own = np.arange(num_frames, dtype=np.int64)
    return np.concatenate([own[:start], own[end:]])


def reverse(place: float, num_frames: int, *, share: float) -> FrameOrder:
    """The stretch, of two frames or more, is played backwards."""
    start, end = stretch(place, num_frames, share, least=2)
    plan = np.arange(num_frames, dtype=np.int64)
    plan[start:end] = plan[start:end][::-1].copy()
    return plan


def substitute(
    drawn: tuple[float, float], donor: tuple[int, float], num_frames: int, *, share: float, donors: int
) -> FrameOrder:
    """Another clip is shown in the stretch. At least one frame of the clip is left.

    The other clip plays beside this one, from a drawn frame on and again from its beginning when it ends; the stretch
    is where it is seen. So severities show the same of it at the same place.

    Args:
        drawn: where the stretch lies, and where the other clip starts, in [0, 1).
        donor: how many frames the other clip has, and how many of them pass per frame of the clip.
        num_frames: of the clip.
        share: the stretch's share of the clip.
        donors: the number of clips among which the other was searched; the plan does not depend on it.
    """
    place, offset = drawn
    start, end = stretch(place, num_frames, share, left=1)
    donor_frames, step = donor
    plan = np.arange(num_frames, dtype=np.int64)
    passed = (np.arange(start, end) * step).astype(np.int64) + int(offset * donor_frames)
    plan[start:end] = ~(passed % donor_frames)
    return plan


# --- MVTamperBench's code --------------------------------------------------------------------------------------------
# The stretch has so many seconds of the whole frames per second, at one place of every clip.


def stretch_released(fps: float, num_frames: int, *, seconds: float, place: str) -> tuple[int, int]:
    """The first frame of the stretch and the first one after it; a shorter clip has neither of the two.

    `place` is "start", "middle" or "end".
    """
    length = int(int(fps) * seconds)
    start = {"start": 0, "middle": num_frames // 2 - length // 2, "end": num_frames - length}[place]
    return start, start + length


def mask_released(
    _: None, fps: float, num_frames: int, height: int, width: int, *, seconds: float, place: str
) -> Apply:
    """The frames of the stretch are black."""
    return _within(*stretch_released(fps, num_frames, seconds=seconds, place=place), _blackened)


def rotate_released(
    _: None, fps: float, num_frames: int, height: int, width: int, *, seconds: float, place: str
) -> Apply:
    """The frames of the stretch are turned by 180 degrees."""
    return _within(*stretch_released(fps, num_frames, seconds=seconds, place=place), _turned)


def repeat_released(_: None, fps: float, num_frames: int, *, seconds: float, place: str) -> FrameOrder:
    """The stretch is played twice; a clip that ends within it stays as it is."""
    start, end = stretch_released(fps, num_frames, seconds=seconds, place=place)
    own = np.arange(num_frames, dtype=np.int64)
    return own if end > num_frames else np.concatenate([own[:end], own[max(0, start) :]])


def drop_released(_: None, fps: float, num_frames: int, *, seconds: float, place: str) -> FrameOrder:
    """The stretch is cut out. Of a clip that it covers, the first frame is left: the code writes an empty file."""
    start, end = stretch_released(fps, num_frames, seconds=seconds, place=place)
    own = np.arange(num_frames, dtype=np.int64)
    return own[(own < start) | (own >= end)] if start > 0 or end < num_frames else own[:1]


def substitute_released(
    drawn: tuple[float, float], donor: tuple[int, float], num_frames: int, *, seconds: float, place: str
) -> FrameOrder:
    """The stretch shows another clip, frame by frame, from a drawn frame on.

    Args:
        drawn: the second number is where the other clip starts, in [0, 1).
        donor: how many frames the other clip has, which is repeated where these are few, and the clip's frame rate.
        num_frames: of the clip.
        seconds, place: of the stretch.
    """
    donor_frames, fps = donor
    start, end = stretch_released(fps, num_frames, seconds=seconds, place=place)
    first = int(drawn[1] * max(1, donor_frames - (end - start) + 1))
    own = np.arange(num_frames, dtype=np.int64)
    return np.where((own >= start) & (own < end), ~((own - start + first) % donor_frames), own)
