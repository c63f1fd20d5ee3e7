"""Decode clips with decord, the reader of many evaluations, and make sure that its frames are the manifest's.

Of every clip that a corpus stores (all profiles, codecs and rates, but 4:2:0 of odd heights: the profile `released`,
`msrvtt_p/mpeg1` and `mpeg2`) decord 0.6.0 gives PyAV's frames to the bit, read in order or picked by `get_batch`. Of
other files it may give others, and says nothing. Measured on x86-64, in levels of 255:

- 4:2:0 of more than 8 bits or of an odd height, 4:1:1, 4:1:0: up to 84 (decord2 3.4.0, a fork with a newer libav: 0);
- mirrored pictures are not mirrored back, frames that an edit list hides are shown, and transport streams differ;
- frames that are picked, not read in order, are others in H.264 with open GOPs or intra refresh, in HEVC with open
  GOPs, and in MPEG-4 with reordered frames: no key frame before them is enough;
- what is damaged or cut off is filled with guesses;
- rows of fewer than about 48 pixels come with their padding as more colours, which is mended here.

So the frames are read in order and hashed, and where the hash is not the manifest's the clip is refused. AV1 and Theora
cannot be opened. The library's libav is of 2018: leave strangers' files to PyAV.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import os
from bisect import bisect_left
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from perturbations.base import tars
from perturbations.base.arrays import Image
from perturbations.base.errors import BackendError, MediaError, cut
from perturbations.media import opening
from perturbations.media.clip import SAME_TIME_S, Frame, MediaClip

_INSTALL = "pip install 'decord>=0.6,<0.7'"


def decode(clip: MediaClip, *, frames_sha256: str, only: Collection[int] | None = None) -> Iterator[Frame]:
    """The frames that `decoding.decode` gives: in order, RGB uint8 H x W x 3, upright, or those at positions `only`.

    All frames of the clip are decoded, whatever `only` says, and compared with `frames_sha256`, the hash of their
    pixels; the last step of the iteration compares, so iterate to the end before you use a frame.
    Raises `MediaError` when decord cannot read the file or gives other frames, `BackendError` without decord.
    """
    ticks, first, end = _span(clip)
    reader = _Reader(clip, len(ticks))
    if first:
        reader.seek(first)
    digest = hashlib.sha256()
    for position in range(end - first):
        image = reader.next()
        digest.update(image.data)
        if only is None or position in only:
            yield Frame(image, ticks[first + position] - ticks[first], position)
    if digest.hexdigest() != frames_sha256:
        raise MediaError(
            f"decord gives other frames of {clip.path} than the manifest describes: the file changed, or is one that "
            "decord reads otherwise; the reader `pyav` tells which"
        )


def _span(clip: MediaClip) -> tuple[list[int], int, int]:
    """When each frame of the file is shown, in ticks, and which of them are the clip's: the first, and the end."""
    with opening.opened(clip.path) as container:
        stream = opening.video_stream(clip.path, container)
        origin, time_base = stream.start_time or 0, stream.time_base or Fraction(1, 1000)
        shown = [packet.pts for packet in opening.packets(container, stream) if packet.size and not packet.is_discard]
    ticks = sorted(tick for tick in shown if tick is not None)
    if not ticks or len(ticks) < len(shown):
        raise MediaError(f"{clip.path} does not say when its frames are shown; the reader `pyav` reads it")
    times = [float((tick - origin) * time_base) for tick in ticks]
    first = 0 if clip.start_s is None else bisect_left(times, clip.start_s - SAME_TIME_S)
    end = len(times) if clip.end_s is None else bisect_left(times, clip.end_s - SAME_TIME_S)
    return ticks, first, end


class _Reader:
    """decord's reader of one file, on one thread; its faults are `MediaError`."""

    def __init__(self, clip: MediaClip, num_frames: int) -> None:
        self._path = clip.path
        self._library = library()
        with self._faults():
            # A path that begins with a slash is to libav no protocol such as "concat:".
            self._video = self._library.VideoReader(_content(clip.path), num_threads=1)
            held = len(self._video)
        if held != num_frames:
            raise MediaError(
                f"decord finds {held} frames in {clip.path}, which has {num_frames}; use the reader `pyav`"
            )

    def seek(self, position: int) -> None:
        with self._faults():
            self._video.seek_accurate(position)

    def next(self) -> Image:
        with self._faults():
            array = self._video.next()
        # The array is a tensor where the program set decord's bridge to torch or another.
        rows = np.asarray(array.asnumpy() if hasattr(array, "asnumpy") else array)
        height, width, channels = rows.shape
        return np.ascontiguousarray(rows.reshape(height, width * channels)[:, : 3 * width]).reshape(height, width, 3)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except (self._library.DECORDError, RuntimeError, AssertionError, StopIteration) as error:
            words = str(error).strip().splitlines() or ["it ends early"]
            raise MediaError(f"decord cannot read {self._path}: {cut(words[0])}") from error


def _content(path: Path) -> str | IO[bytes]:
    """What decord opens: a file by its path, a member of a tar by its bytes."""
    if tars.at(path).member is None:
        return os.path.abspath(path)
    with tars.opened(path) as file:
        return io.BytesIO(file.read())


@cache
def library() -> Any:
    """The module `decord`. Raises `BackendError` where it cannot be imported."""
    try:
        module = importlib.import_module("decord")
    except (ImportError, OSError, RuntimeError) as error:
        raise BackendError(f"decord cannot be imported ({error}); the reader `decord` needs it: {_INSTALL}") from error
    module.logging.set_level(module.logging.QUIET)  # libav writes to stderr what the raised errors already say
    return module
