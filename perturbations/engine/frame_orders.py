"""Frames in another order: the frames of a temporal recipe's plan, read in bounded memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.base.progress import Tick, ticking
from perturbations.base.records import digest
from perturbations.engine.source import scratch_file
from perturbations.media import decoding, encoding
from perturbations.media.clip import SAME_TIME_S, Frame, MediaClip, even
from perturbations.media.footage import CleanClip, times_of

_HELD_BYTES = 256 * 2**20

# A decoder must start at a key frame: about this many frames, at worst, before the wanted frame.
_KEY_FRAMES = 125

_MOST_DECODED = 4
"""Where seeking would decode each wanted frame more often than this on average, the clip is first copied to a file that
has key frames only."""

_INTRA = storage.Profile("libx264rgb", "rgb24", {"preset": "ultrafast", "qp": "0", "g": "1"}, exact=True)


def arranged(
    plan: Sequence[int],
    source: CleanClip,
    other: Callable[[], MediaClip],
    only: Collection[int] | None,
    tick: Tick,
    *,
    antialiased: bool = True,
) -> Iterator[Frame]:
    """The frames of a plan, in its order, in bounded memory.

    A position i >= 0 is frame i of the perturbed video; i < 0 is frame ~i of the `other` clip, resized
    as by `fitted`.
    """
    whole = source.whole
    wanted = [(place, position) for place, position in enumerate(plan) if only is None or place in only]
    windows = list(_windows(wanted, max(1, _HELD_BYTES // (source.height * source.width * 3))))
    own = [sorted({position for _, position in window if position >= 0}) for window, _ in windows]
    most_decoded = max(whole.num_frames, _MOST_DECODED * len(set().union(*own)))
    if all(position >= 0 for _, position in wanted) and sum(map(_decoded, own)) > most_decoded:
        yield from _from_scratch(wanted, whole, tick)
        return
    for (window, late), positions in zip(windows, own, strict=True):
        theirs = {~position for _, position in window if position < 0}
        frames = {
            True: frames_at(whole, positions, tick) if positions else iter(()),
            False: ticking(decoding.decode(other(), only=theirs), tick) if theirs else iter(()),
        }
        last: dict[bool, int] = {}
        images: dict[int, Image] = {}
        for place, position in window:
            is_own = position >= 0
            while position not in images:
                if is_own in last and last[is_own] not in late:
                    del images[last[is_own]]
                frame = next(frames[is_own])
                last[is_own] = frame.position if is_own else ~frame.position
                image = frame.image if is_own else fitted(frame.image, whole.size, antialiased=antialiased)
                images[last[is_own]] = image
            yield Frame(images[position].copy(), place, place)
        images.clear()  # before the next window is read


def _windows(wanted: Iterable[tuple[int, int]], most: int) -> Iterator[tuple[list[tuple[int, int]], set[int]]]:
    """Split a plan into windows that one pass over each clip yields, each with the positions to hold for it.

    These are at most `most`: of the frames that are due after a later frame of the same clip.
    """
    window: list[tuple[int, int]] = []
    late: set[int] = set()
    latest: dict[bool, int] = {}
    for place, position in wanted:
        in_clip = max(position, ~position)
        is_late = in_clip < latest.get(position >= 0, 0)
        if is_late and position not in late and len(late) == most:
            yield window, late
            window, late, latest, is_late = [], set(), {}, False
        if is_late:
            late.add(position)
        latest[position >= 0] = max(in_clip, latest.get(position >= 0, 0))
        window.append((place, position))
    if window:
        yield window, late


def fitted(image: Image, size: tuple[int, int], *, antialiased: bool = True) -> Image:
    """Another clip's frame, resized to `size` (width, height); its aspect ratio does not count.

    Pixels are interpolated bilinearly, their centres at halves; `antialiased`: averaged where a side gets smaller.
    """
    height, width = image.shape[:2]
    if (width, height) == size:
        return image.copy()
    smaller = antialiased and (size[0] < width or size[1] < height)
    resized = cv2.resize(image, size, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)
    return np.asarray(resized, np.uint8)


def _decoded(positions: Sequence[int]) -> int:
    """An estimate of how many frames must be decoded to read those at ascending positions."""
    return min(positions[0], _KEY_FRAMES) + positions[-1] - positions[0] + 1 if positions else 0


def frames_at(source: CleanClip, positions: Sequence[int], tick: Tick) -> Iterator[Frame]:
    """The clip's frames at ascending positions. Their times may count from any of its frames."""
    if not source.place:  # an array
        yield from source.frames(positions)
        return
    clip, start = source.clip, 0
    if positions[0] > _KEY_FRAMES:
        times = times_of(source)
        # Several frames may have the same time: start at the first of them.
        start = bisect_left(times, times[positions[0]] - SAME_TIME_S)
        clip = MediaClip(clip.path, times[start] if start else clip.start_s, clip.end_s)
    only = {position - start for position in positions}
    for frame in ticking(decoding.decode(clip, only=only), tick):
        yield frame._replace(position=start + frame.position)


def _from_scratch(wanted: Sequence[tuple[int, int]], source: CleanClip, tick: Tick) -> Iterator[Frame]:
    """The frames of a plan, read from a lossless copy of the clip that allows any order."""

    def make(path: Path) -> None:
        frames = ticking(decoding.decode(source.clip), tick)
        encoding.encode((frame._replace(pts=frame.position) for frame in frames), path, _INTRA, even(source.timing))

    with scratch_file(source, digest([source.sha256, source.clip.start_s, source.clip.end_s]), make) as path:
        images = decoding.pick(path, [position for _, position in wanted])
        for (place, _), image in zip(wanted, images, strict=True):
            tick()
            yield Frame(image, place, place)
