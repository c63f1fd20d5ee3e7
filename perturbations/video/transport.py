"""An H.264 video on its way in an MPEG transport stream: some of its bits, or its packets, are damaged.

A transport stream has packets of 188 bytes (ISO/IEC 13818-1). Tables, packet headers and the first frame, with the
parameter sets, arrive as they are: without them a player shows nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from perturbations.base.arrays import Image
from perturbations.base.kernel import Apply
from perturbations.video.codec import Arguments, x264

_PACKET = 188
_VIDEO = 0x100
"""ffmpeg's number of the first elementary stream."""
_UNIT = 16
"""Bytes at the beginning of a frame that arrive as they are: delimiter, start code, type of the first unit."""

_MOST_ERRORS = 65_536
"""Wrong bits per stream, at most: as many are drawn."""


class _BitErrors(NamedTuple):
    """One clip's wrong bits, the first ones first.

    Attributes:
        places: where in the stream, uniform in [0, 1).
        bits: which bit of the byte, 0 to 7.
    """

    places: NDArray[np.float64]
    bits: NDArray[np.uint8]


def _transport_stream() -> Arguments:
    """ffmpeg-python output arguments of the stream that is sent: libx264, a key frame every 50 frames.

    Frames are counted, at the clip's mean rate: a frame is known by its time.
    """
    return {**x264(), "crf": 23, "g": 50, "fps_mode": "cfr", "f": "mpegts"}


def bit_errors(*, spacing: int, least: int) -> Arguments:
    """The stream in which `flip_bits` flips bits."""
    return _transport_stream()


def byte_errors(*, spacing: int) -> dict[str, str | int]:
    """The source's own stream with one byte in `spacing`, on average, replaced: FFmpeg's filter `noise`.

    The sum of all bytes so far, each plus one, replaces a byte where `spacing` divides it: nothing is random.
    """
    return {"vcodec": "copy", "bsf": f"noise=amount={spacing}"}


def packet_loss(*, share: float, least: int) -> Arguments:
    """The stream from which `lose_packets` takes packets away."""
    return _transport_stream()


def draw_bits(rng: np.random.Generator, num_frames: int, height: int, width: int) -> _BitErrors:
    """The bits that all severities share."""
    return _BitErrors(rng.random(_MOST_ERRORS), rng.integers(0, 8, _MOST_ERRORS, dtype=np.uint8))


def flip_bits(drawn: _BitErrors, stream: bytes, *, spacing: int, least: int) -> bytes:
    """One wrong bit per `spacing` bytes of coded video, but `least` where there is any video, `_MOST_ERRORS` at most.

    A stream with closer errors has all errors of the others.
    """
    packets, video, starts = _parsed(stream)
    lengths = np.where(video, _PACKET - starts, 0)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    if not total:
        return stream
    count = min(max(least, round(total / spacing)), _MOST_ERRORS)
    places = (drawn.places[:count] * total).astype(np.int64)
    rows = np.searchsorted(ends, places, side="right")
    columns = _PACKET - (ends[rows] - places)
    # Two errors at one bit undo each other.
    np.bitwise_xor.at(packets, (rows, columns), np.left_shift(np.uint8(1), drawn.bits[:count]))
    return packets.tobytes()


def draw_packets(rng: np.random.Generator, num_frames: int, height: int, width: int) -> NDArray[np.float64]:
    """One uniform number in [0, 1) per packet; they repeat in longer streams."""
    return rng.random(65_536)


def lose_packets(drawn: NDArray[np.float64], stream: bytes, *, share: float, least: int) -> bytes:
    """A share of the packets of video is lost, but at least `least` of them, or all where there are fewer.

    A stream that loses more packets loses all that the others lose.
    """
    packets, video, _ = _parsed(stream)
    order = np.resize(drawn, len(packets))
    if not video.any():
        return stream
    lowest = np.sort(order[video])[:least]
    lost: NDArray[np.bool_] = video & (order <= max([share, *lowest]))
    return np.delete(packets, np.flatnonzero(lost), axis=0).tobytes()


def _parsed(stream: bytes) -> tuple[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.int64]]:
    """The packets, N x 188; which of them hold video after the first frame; where in each the coded video begins."""
    packets = np.frombuffer(stream, np.uint8).reshape(-1, _PACKET).copy()
    video = ((packets[:, 1] & 0x1F).astype(np.int64) << 8 | packets[:, 2]) == _VIDEO
    begins = video & (packets[:, 1] & 0x40 > 0)
    frames = np.flatnonzero(begins)
    video[: frames[1] if len(frames) > 1 else len(packets)] = False
    adapted = packets[:, 3] & 0x20 > 0
    starts = 4 + np.where(adapted, 1 + packets[:, 4].astype(np.int64), 0)
    # A frame's first packet begins with a header of 9 bytes, and of as many more as the ninth says.
    for row in np.flatnonzero(begins):
        header = int(starts[row]) + 8
        if header < _PACKET:
            starts[row] = header + 1 + int(packets[row, header]) + _UNIT
    return packets, video, np.minimum(starts, _PACKET)


def resolution(drawn: None, num_frames: int, height: int, width: int, *, scale: float) -> Apply:
    """Sent at `scale` of both sides, averaged, and enlarged by the player, bicubically; one pixel at least."""
    small = max(1, round(width * scale)), max(1, round(height * scale))

    def apply(frame: Image, index: int) -> Image:
        sent = cv2.resize(frame, small, interpolation=cv2.INTER_AREA)
        return np.asarray(cv2.resize(sent, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)

    return apply
