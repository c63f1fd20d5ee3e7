"""Frames in another order: the frames of a temporal recipe's plan, read in bounded memory."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np

from perturbations.base.arrays import Image
from perturbations.base.progress import Tick, ticking
from perturbations.base.records import digest
from perturbations.corpus.render.clean_clips import scratch_file
from perturbations.corpus.render.planned_clip import Seen
from perturbations.media import decoding, encoding, profiles
from perturbations.media.clean_clip import CleanClip, times_of
from perturbations.media.clip import SAME_TIME_S, Frame, MediaClip, even

_HELD_BYTES = 256 * 2**20

# A decoder must start at a key frame: about this many frames, at worst, before the wanted frame.
_KEY_FRAMES = 125

_MOST_DECODED = 4
"""How many frames may be decoded per wanted frame, on average, before the clips of one video share a copy of it."""

_INTRA = profiles.Profile("libx264rgb", "rgb24", {"preset": "ultrafast", "qp": "0", "g": "1"})


def arranged(
    plan: Sequence[int],
    source: CleanClip,
    other: Callable[[], MediaClip],
    only: Collection[int] | None,
    tick: Tick,
    seen: Seen | None = None,
    *,
    antialiased: bool = True,
) -> Iterator[Frame]:
    """The frames of a plan, in its order, in bounded memory.

    A position i >= 0 is frame i of the perturbed video; i < 0 is frame ~i of the `other` clip, resized
    as by `fitted`. `seen` is called with the clip's clean frames that are decoded.
    """
    whole = source.whole
    wanted = [(place, position) for place, position in enumerate(plan) if only is None or place in only]
    own = [position for _, position in wanted if position >= 0]
    theirs = [~position for _, position in wanted if position < 0]
    of_other = ticking(decoding.decode(other(), only=set(theirs)), tick) if theirs else iter(())
    resized = (frame._replace(image=fitted(frame.image, whole.size, antialiased=antialiased)) for frame in of_other)
    their_image = _in_order(resized, theirs)

    def in_clip(frame: Frame) -> None:
        if seen is not None:
            seen(frame._replace(position=frame.position - source.first))

    with _images(own, whole, tick, in_clip) as own_image:
        for place, position in wanted:
            yield Frame(own_image(position) if position >= 0 else their_image(~position), place, place)


_ImageAt = Callable[[int], Image]
"""Gives the image at a position. The calls must follow the given list of positions, in its order."""


def _in_order(frames: Iterator[Frame], positions: Sequence[int]) -> _ImageAt:
    """Images from frames in order. Frames that are read before they are needed, or needed again, wait in memory."""
    left = Counter(positions)
    images: dict[int, Image] = {}

    def image_at(position: int) -> Image:
        while position not in images:
            frame = next(frames)
            images[frame.position] = frame.image
        left[position] -= 1
        return images[position].copy() if left[position] else images.pop(position)

    return image_at


@contextmanager
def _images(positions: Sequence[int], source: CleanClip, tick: Tick, seen: Seen) -> Iterator[_ImageAt]:
    """The clip's images at some positions: read in order, where the frames that wait fit into memory.

    Otherwise they come from a lossless copy of the clip, which allows any order. Clips of one video, which share the
    copy, use it too where they need few frames of many.
    """
    most = max(1, _HELD_BYTES // (source.height * source.width * 3))
    is_shared = source.scratch is not None and _decoded(positions) > _MOST_DECODED * len(positions)
    if _held(positions) <= most and not is_shared:
        frames = frames_at(source, sorted(set(positions)), tick) if positions else iter(())
        yield _in_order(showing(frames, seen), positions)
        return

    def make(path: Path) -> None:
        frames = ticking(decoding.decode(source.clip), tick)
        encoding.encode((frame._replace(pts=frame.position) for frame in frames), path, _INTRA, even(source.timing))

    with scratch_file(source, digest([source.sha256, source.clip.start_s, source.clip.end_s]), make) as path:
        images = ticking(decoding.pick(path, positions), tick)
        yield lambda position: next(images)


def _held(positions: Sequence[int]) -> int:
    """How many frames wait at most, where frames are read in order and needed at these positions one after another."""
    last = {position: place for place, position in enumerate(positions)}
    unread = sorted(last, reverse=True)
    held = most = 0
    for place, position in enumerate(positions):
        while unread and unread[-1] <= position:
            unread.pop()
            held += 1
        most = max(most, held)
        held -= last[position] == place
    return most


def _decoded(positions: Sequence[int]) -> int:
    """How many frames are decoded to read the frames at some positions in order."""
    first = min(positions, default=0)
    return min(first, _KEY_FRAMES) + max(positions, default=0) - first + 1


def fitted(image: Image, size: tuple[int, int], *, antialiased: bool = True) -> Image:
    """Another clip's frame, resized to `size` (width, height); its aspect ratio does not count.

    Pixels are interpolated bilinearly, with their centres at halves. `antialiased`: a smaller side averages pixels.
    """
    height, width = image.shape[:2]
    if (width, height) == size:
        return image.copy()
    smaller = antialiased and (size[0] < width or size[1] < height)
    resized = cv2.resize(image, size, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)
    return np.asarray(resized, np.uint8)


def showing(frames: Iterable[Frame], seen: Seen | None) -> Iterator[Frame]:
    """Pass clean frames on, and show each to `seen`."""
    for frame in frames:
        if seen is not None:
            seen(frame)
        yield frame


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
