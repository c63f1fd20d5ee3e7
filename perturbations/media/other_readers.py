"""Decode clips with decord or torchcodec, as many evaluations do, and check that the frames are the manifest's.

For every clip that a corpus stores (all profiles, codecs and rates), both give PyAV's frames, bit for bit, read in
order or picked by `get_batch` or `get_frames_at`; except decord for 4:2:0 with odd heights (the profile `released`,
`msrvtt_p/mpeg1` and `mpeg2`). For other files they may give other frames, without an error:

- decord 0.6.0: of 4:2:0 of more than 8 bits or of an odd height, 4:1:1, 4:1:0, mirrored pictures, edit lists, transport
  streams, what is damaged or cut off, and, where frames are picked, open GOPs and intra refresh. AV1 and Theora cannot
  be opened. The library's libav is of 2018: leave strangers' files to PyAV. decord2 3.4.0, which continues it under the
  same import, reads 10 bits, odd heights and AV1 as PyAV does.
- torchcodec 0.13: of mirrored pictures and of full-range 10 bits. Transport and program streams, and AVI with reordered
  frames, it cannot read to the end.

So the frames are read in order and hashed; a clip whose hash differs from the manifest's is refused.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np

from perturbations.base import tars
from perturbations.base.arrays import Image
from perturbations.base.errors import BackendError, MediaError, cut
from perturbations.base.readers import NEEDS, Reader
from perturbations.media import decoding, opening
from perturbations.media.clip import SAME_TIME_S, Frame, MediaClip


def decode(
    clip: MediaClip, reader: Reader, *, frames_sha256: str, only: Collection[int] | None = None
) -> Iterator[Frame]:
    """The images and positions as from `decoding.decode`, or only those at the positions `only`; times are positions.

    All frames of the clip are decoded, whatever `only` says, and compared with `frames_sha256`, the hash of their
    pixels; the last step of the iteration compares, so iterate to the end before you use a frame.
    Raises `MediaError` when the reader cannot read the file or gives other frames, `BackendError` without its library.
    """
    module = library(reader)
    with opening.opened(clip.path) as container:
        opening.video_stream(clip.path, container)  # within the limits
    digest = hashlib.sha256()
    own_error = getattr(module, "DECORDError", RuntimeError)
    try:
        # libav does not take a path that begins with a slash for a protocol such as "concat:".
        content: str | bytes = os.path.abspath(clip.path)
        if tars.named(clip.path) is not None:
            with tars.opened(clip.path) as file:
                content = file.read()
        held, image_at = _OPENED[reader](module, content)
        first, end = _span(clip, held, reader)
        for position in range(end - first):
            image = image_at(first + position)
            digest.update(image.data)
            if only is None or position in only:
                yield Frame(image, position, position)
    except (own_error, RuntimeError, ValueError, AssertionError, IndexError, StopIteration) as error:
        words = str(error).strip().splitlines() or ["it ends early"]
        raise MediaError(f"{reader} cannot read {clip.path}: {cut(words[0])}") from error
    if digest.hexdigest() != frames_sha256:
        raise MediaError(
            f"{reader} gives other frames of {clip.path} than the manifest describes: the file changed, or is one that "
            f"{reader} reads otherwise; the reader `pyav` tells which"
        )


def _decord(module: Any, content: str | bytes) -> tuple[int, Callable[[int], Image]]:
    video = module.VideoReader(BytesIO(content) if isinstance(content, bytes) else content, num_threads=1)

    def image_at(position: int) -> Image:
        video.seek_accurate(position)  # does nothing where it is the next frame
        return _without_padding(video.next())

    return len(video), image_at


def _torchcodec(module: Any, content: str | bytes) -> tuple[int, Callable[[int], Image]]:
    video = module.decoders.VideoDecoder(content, dimension_order="NHWC", num_ffmpeg_threads=1, device="cpu")
    return len(video), lambda position: np.ascontiguousarray(video[position].numpy())


_OPENED = {"decord": _decord, "torchcodec": _torchcodec}
"""The number of a video's frames, and a function that gives the image at a position; call it in ascending order."""


def _span(clip: MediaClip, held: int, reader: Reader) -> tuple[int, int]:
    """The range of the clip's frames among the file's `held` frames: the first, and the end."""
    if clip.start_s is None and clip.end_s is None:
        return 0, held
    times = decoding.frame_times(MediaClip(clip.path), held)
    if len(times) != held:
        raise MediaError(f"{reader} finds {held} frames in {clip.path}, which has {len(times)}; use the reader `pyav`")
    first = 0 if clip.start_s is None else bisect_left(times, clip.start_s - SAME_TIME_S)
    return first, held if clip.end_s is None else bisect_left(times, clip.end_s - SAME_TIME_S)


def _without_padding(frame: Any) -> Image:
    """decord's frame as an array; a tensor if the program set a bridge. Rows below 48 pixels come with padding."""
    rows = np.asarray(frame.asnumpy() if hasattr(frame, "asnumpy") else frame)
    height, width, channels = rows.shape
    return np.ascontiguousarray(rows.reshape(height, width * channels)[:, : 3 * width]).reshape(height, width, 3)


@cache
def library(reader: Reader) -> Any:
    """The reader's module. Raises `BackendError` where it cannot be imported."""
    try:
        module = importlib.import_module(reader)
        if reader == "torchcodec":
            importlib.import_module("torchcodec.decoders")
    except (ImportError, OSError, RuntimeError) as error:
        (first, *_) = str(error).strip().splitlines() or [type(error).__name__]
        raise BackendError(
            f"{reader} cannot be imported ({cut(first)}); the reader `{reader}` needs it: {NEEDS[reader]}"
        ) from error
    if reader == "decord":
        module.logging.set_level(module.logging.QUIET)  # libav writes to stderr what the raised errors already say
    return module
