"""What a player shows of a damaged MPEG transport stream: libavcodec conceals damage, and missing frames freeze.

`decoding` refuses damaged files, because they are sources; here the damage is the perturbation. One thread decodes, so
that the same bytes give the same frames.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import av
import av.error
import numpy as np
from av.bitstream import BitStreamFilterContext

from perturbations.base.arrays import Image
from perturbations.base.errors import MediaError
from perturbations.media import opening, pixels
from perturbations.media.clip import SAME_TIME_S, Frame

_CONCEALING = {"flags": "+output_corrupt", "flags2": "+showall", "err_detect": "0"}
"""Settings that show frames although a part of them, or of their references, is missing."""


def shown(path: Path, num_frames: int, frame_rate: Fraction, *, only: Collection[int] | None = None) -> Iterator[Frame]:
    """All frames of a stream of `num_frames` frames at a constant rate; with `only`, the frames at these positions.

    A frame's time gives its position. Where no frame arrives in time, the frame before it stays, as on a player's
    screen; places before the first frame show the first frame. Frames are RGB uint8 H x W x 3, their times are their
    positions.
    Raises `MediaError` where no frame can be decoded, or the container cannot be read.
    """
    yield from _held(_decoded(path, frame_rate), num_frames, only)


def shown_of_source(
    path: Path, times: Sequence[float], damage: str, *, only: Collection[int] | None = None
) -> Iterator[Frame]:
    """`shown` of a video file whose packets are damaged as they are read, by one of FFmpeg's bitstream filters.

    `times` are the times of the clip's frames in the file, in seconds, ascending; earlier frames are not shown.
    """
    yield from _held(_damaged(path, times, damage), len(times), only)


def _held(decoded: Iterable[tuple[int, Image]], num_frames: int, only: Collection[int] | None) -> Iterator[Frame]:
    last = max(only, default=-1) if only is not None else num_frames - 1
    before: Image | None = None
    place = 0
    for position, image in decoded:
        if position < place:
            continue  # its time has passed
        for frozen in range(place, min(position, last + 1)):
            if only is None or frozen in only:
                yield Frame((image if before is None else before).copy(), frozen, frozen)
        place = position
        if place > last:
            return
        if only is None or place in only:
            yield Frame(image.copy(), place, place)
        before, place = image, place + 1
    if before is None:
        raise MediaError("no frame of the damaged stream can be decoded")
    for frozen in range(place, last + 1):
        if only is None or frozen in only:
            yield Frame(before.copy(), frozen, frozen)


def _decoded(path: Path, frame_rate: Fraction) -> Iterator[tuple[int, Image]]:
    """The position and the image of each frame that can be decoded, at least in part, in the order of the times."""
    with opening.opened(path) as container:
        stream = opening.video_stream(path, container)
        stream.codec_context.options = {**stream.codec_context.options, **_CONCEALING}
        time_base = stream.time_base or Fraction(1, 90_000)
        first: av.VideoFrame | None = None
        for frame in _frames(container, stream):
            if first is None:
                first, to_array = frame, pixels.converter(path, stream, frame)
            if frame.pts is None or first.pts is None or (frame.width, frame.height) != (first.width, first.height):
                continue  # a header is damaged
            yield round((frame.pts - first.pts) * time_base * frame_rate), to_array(frame)


def _damaged(path: Path, times: Sequence[float], damage: str) -> Iterator[tuple[int, Image]]:
    """The position and the image of each frame of a file that can still be decoded after the damage.

    A frame gets the position of the clip's frame with the nearest time; positions below 0 are before the clip.
    """
    with opening.opened(path) as container:
        stream = opening.video_stream(path, container)
        stream.codec_context.options = {**stream.codec_context.options, **_CONCEALING}
        origin, time_base = stream.start_time or 0, stream.time_base or Fraction(1, 1000)
        clock = np.asarray(times)
        edges = (clock[1:] + clock[:-1]) / 2
        to_array: Callable[[av.VideoFrame], Image] | None = None
        size = stream.codec_context.width, stream.codec_context.height
        for frame in _frames(container, stream, BitStreamFilterContext(damage, stream)):
            if frame.pts is None or (frame.width, frame.height) != size:
                continue  # a header is damaged
            seconds = float((frame.pts - origin) * time_base)
            if seconds > times[-1] + SAME_TIME_S:
                return
            to_array = to_array or pixels.converter(path, stream, frame)
            before = seconds < times[0] - SAME_TIME_S
            yield -1 if before else int(np.searchsorted(edges, seconds)), to_array(frame)


def _frames(
    container: av.container.InputContainer, stream: av.VideoStream, damage: BitStreamFilterContext | None = None
) -> Iterator[av.VideoFrame]:
    for packet in opening.packets(container, stream):
        with suppress(av.error.InvalidDataError):
            if damage is None or not packet.size:
                yield from packet.decode()
            else:
                for damaged in damage.filter(packet):
                    yield from stream.codec_context.decode(damaged)
