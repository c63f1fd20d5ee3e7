"""Decode clips with decord, the reader of many evaluations, and make sure that its frames are the manifest's.

Of every clip that a corpus stores (all profiles, codecs and rates, but 4:2:0 of odd heights: the profile `released`,
`msrvtt_p/mpeg1` and `mpeg2`) decord 0.6.0 gives PyAV's frames to the bit, read in order or picked by `get_batch`. Of
other files it may give others, and says nothing: of 4:2:0 of more than 8 bits or of an odd height, 4:1:1, 4:1:0,
mirrored pictures, edit lists, transport streams, what is damaged or cut off, and, where frames are picked, open GOPs
and intra refresh. So the frames are read in order and hashed, and where the hash is not the manifest's the clip is
refused. AV1 and Theora cannot be opened. The library's libav is of 2018: leave strangers' files to PyAV.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import os
from bisect import bisect_left
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any

import numpy as np

from perturbations.base import tars
from perturbations.base.arrays import Image
from perturbations.base.errors import BackendError, MediaError, cut
from perturbations.media import decoding, opening
from perturbations.media.clip import SAME_TIME_S, Frame, MediaClip

_INSTALL = "pip install 'decord>=0.6,<0.7'"


def decode(clip: MediaClip, *, frames_sha256: str, only: Collection[int] | None = None) -> Iterator[Frame]:
    """The images and positions that `decoding.decode` gives, or those at positions `only`; times are positions.

    All frames of the clip are decoded, whatever `only` says, and compared with `frames_sha256`, the hash of their
    pixels; the last step of the iteration compares, so iterate to the end before you use a frame.
    Raises `MediaError` when decord cannot read the file or gives other frames, `BackendError` without decord.
    """
    decord = library()
    with opening.opened(clip.path) as container:
        opening.video_stream(clip.path, container)  # within the limits
    digest = hashlib.sha256()
    try:
        with tars.opened(clip.path) as file:
            # A path that begins with a slash is to libav no protocol such as "concat:".
            content = os.path.abspath(clip.path) if tars.at(clip.path).member is None else io.BytesIO(file.read())
        video = decord.VideoReader(content, num_threads=1)
        first, end = _span(clip, len(video))
        if first:
            video.seek_accurate(first)
        for position in range(end - first):
            image = _without_padding(video.next())
            digest.update(image.data)
            if only is None or position in only:
                yield Frame(image, position, position)
    except (decord.DECORDError, RuntimeError, AssertionError, StopIteration) as error:
        words = str(error).strip().splitlines() or ["it ends early"]
        raise MediaError(f"decord cannot read {clip.path}: {cut(words[0])}") from error
    if digest.hexdigest() != frames_sha256:
        raise MediaError(
            f"decord gives other frames of {clip.path} than the manifest describes: the file changed, or is one that "
            "decord reads otherwise; the reader `pyav` tells which"
        )


def _span(clip: MediaClip, held: int) -> tuple[int, int]:
    """Which of the `held` frames of the file are the clip's: the first, and the end."""
    if clip.start_s is None and clip.end_s is None:
        return 0, held
    times = decoding.frame_times(MediaClip(clip.path), held)
    if len(times) != held:
        raise MediaError(f"decord finds {held} frames in {clip.path}, which has {len(times)}; use the reader `pyav`")
    first = 0 if clip.start_s is None else bisect_left(times, clip.start_s - SAME_TIME_S)
    return first, held if clip.end_s is None else bisect_left(times, clip.end_s - SAME_TIME_S)


def _without_padding(frame: Any) -> Image:
    """decord's frame, a tensor where the program set its bridge; rows below 48 pixels come padded with more colours."""
    rows = np.asarray(frame.asnumpy() if hasattr(frame, "asnumpy") else frame)
    height, width, channels = rows.shape
    return np.ascontiguousarray(rows.reshape(height, width * channels)[:, : 3 * width]).reshape(height, width, 3)


@cache
def library() -> Any:
    """The module `decord`. Raises `BackendError` where it cannot be imported."""
    try:
        module = importlib.import_module("decord")
    except (ImportError, OSError, RuntimeError) as error:
        raise BackendError(f"decord cannot be imported ({error}); the reader `decord` needs it: {_INSTALL}") from error
    module.logging.set_level(module.logging.QUIET)  # libav writes to stderr what the raised errors already say
    return module
