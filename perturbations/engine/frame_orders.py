"""Frames in another order: the frames of a temporal recipe's plan, read in bounded memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np

from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.base.progress import Tick, ticking
from perturbations.base.records import digest
from perturbations.engine.source import Source, even, scratch_file
from perturbations.media import decoding, encoding
from perturbations.media.clip import SAME_TIME_S, Frame, MediaClip
from perturbations.media.footage import times_of

_HELD_BYTES = 256 * 2**20

# A decoder must start at a key frame: about this many frames, at worst, before the wanted frame.
_KEY_FRAMES = 125

_MOST_DECODED = 4
"""Where seeking would decode each wanted frame more often than this on average, the clip is first copied to a file that
has key frames only."""

_INTRA = storage.Profile("libx264rgb", "rgb24", {"preset": "ultrafast", "qp": "0", "g": "1"}, exact=True)


def arranged(
    plan: Sequence[int],
    source: Source,
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
    planned = list(enumerate(plan))
    wanted = [(place, position) for place, position in planned if only is None or place in only]
    own = [position for _, position in wanted if position >= 0]
    whole = source.whole
    if len(own) < len(wanted) or _ascends(own):
        for run in _runs(wanted):
            yield from _played(run, whole, other, tick, antialiased)
        return
    windows = list(_windows(wanted, source))
    if sum(_decoded(_own(window)) for window in windows) > max(whole.num_frames, _MOST_DECODED * len(set(own))):
        yield from _from_scratch(wanted, whole, tick)
        return
    for window in windows:
        held = {frame.position: frame.image for frame in frames_at(whole, _own(window), tick)}
        for place, position in window:
            yield Frame(held[position].copy(), place, place)
        held.clear()  # before the next window is read


def _played(
    run: Sequence[tuple[int, int]], source: Source, other: Callable[[], MediaClip], tick: Tick, antialiased: bool
) -> Iterator[Frame]:
    from_other = run[0][1] < 0
    positions = [~position if from_other else position for _, position in run]
    if from_other:
        frames = ticking(decoding.decode(other(), only=set(positions)), tick)
    else:
        frames = frames_at(source, sorted(set(positions)), tick)
    current = next(frames)
    for (place, _), position in zip(run, positions, strict=True):
        while current.position < position:
            current = next(frames)
        image = current.image.copy()
        if from_other:
            image = fitted(current.image, source.size, antialiased=antialiased)
        yield Frame(image, place, place)


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


def _own(window: Iterable[tuple[int, int]]) -> list[int]:
    return sorted({position for _, position in window})


def _windows(wanted: Sequence[tuple[int, int]], source: Source) -> Iterator[list[tuple[int, int]]]:
    """Split a plan into windows whose distinct frames fit in memory."""
    most = max(1, _HELD_BYTES // (source.height * source.width * 3))
    window: list[tuple[int, int]] = []
    held: set[int] = set()
    for place, position in wanted:
        if len(held) == most and position not in held:
            yield window
            window, held = [], set()
        window.append((place, position))
        held.add(position)
    if window:
        yield window


def _stretches(positions: Sequence[int]) -> Iterator[list[int]]:
    """Split ascending positions where seeking to a key frame is cheaper than decoding the frames between."""
    stretch: list[int] = []
    for position in positions:
        if stretch and position - stretch[-1] > 2 * _KEY_FRAMES:
            yield stretch
            stretch = []
        stretch.append(position)
    if stretch:
        yield stretch


def _decoded(positions: Sequence[int]) -> int:
    """An estimate of how many frames must be decoded to read those at `positions`: never more than from the start."""
    return sum(min(stretch[0], _KEY_FRAMES) + stretch[-1] - stretch[0] + 1 for stretch in _stretches(positions))


def frames_at(source: Source, positions: Sequence[int], tick: Tick) -> Iterator[Frame]:
    """The clip's frames at ascending positions. Their times count from the start of each stretch."""
    if positions[0] <= _KEY_FRAMES and len(list(_stretches(positions))) == 1:
        yield from ticking(decoding.decode(source.clip, only=set(positions)), tick)
        return
    times = times_of(source)
    for stretch in _stretches(positions):
        # Several frames may have the same time: start at the first of them.
        start = bisect_left(times, times[stretch[0]] - SAME_TIME_S)
        clip = MediaClip(source.clip.path, times[start] if start else source.clip.start_s, source.clip.end_s)
        only = {position - start for position in stretch}
        for frame in ticking(decoding.decode(clip, only=only), tick):
            yield frame._replace(position=start + frame.position)


def _from_scratch(wanted: Sequence[tuple[int, int]], source: Source, tick: Tick) -> Iterator[Frame]:
    """The frames of a plan, read from a lossless copy of the clip that allows any order."""

    def make(path: Path) -> None:
        frames = ticking(decoding.decode(source.clip), tick)
        encoding.encode((frame._replace(pts=frame.position) for frame in frames), path, _INTRA, even(source.timing))

    with scratch_file(source, digest([source.sha256, source.clip.start_s, source.clip.end_s]), make) as path:
        images = decoding.pick(path, [position for _, position in wanted])
        for (place, _), image in zip(wanted, images, strict=True):
            tick()
            yield Frame(image, place, place)


def _ascends(positions: Sequence[int]) -> bool:
    return all(first <= second for first, second in pairwise(positions))


def _runs(wanted: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Split (place, position) pairs into runs that one pass over one clip yields in order."""
    run: list[tuple[int, int]] = []
    for place, position in wanted:
        last = run[-1][1] if run else position
        same_clip = (last >= 0) == (position >= 0)
        # The donor's positions are complements, so they decrease while its frames advance.
        forward = position >= last if position >= 0 else position <= last
        if run and not (same_clip and forward):
            yield run
            run = []
        run.append((place, position))
    if run:
        yield run
