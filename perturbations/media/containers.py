"""What libav does not say of a file: whether all of it is there, and which part of the coded picture is shown.

libav reads the intact part of a shortened file and does not report the rest, and PyAV does not pass on how a container
crops pictures. Standard library only. Sources: ISO/IEC 14496-12 (MP4 and QuickTime), RFC 8794 and 9559 (Matroska and
WebM), ISO/IEC 13818-1 (transport streams).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from perturbations.base import tars
from perturbations.base.errors import MediaError

MP4, MATROSKA = "mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm"
"""libav's names of containers."""

_Part = tuple[bytes, int, int]
"""A part of a file: its name, and the start and the end of its content; the end may lie behind the file's."""
_Parts = Callable[[BinaryIO, int, int], Iterator[_Part]]
"""What lists the parts of a container between two places of a file."""


def _boxes(file: BinaryIO, start: int, end: int) -> Iterator[_Part]:
    """The boxes of an MP4."""
    while start < end:
        file.seek(start)
        head = file.read(16)
        length, content = int.from_bytes(head[:4], "big"), start + 8
        if length == 1:
            length, content = int.from_bytes(head[8:], "big"), start + 16
        behind = start + length if length else end
        if behind < content:
            return  # not an MP4, or other data behind it
        yield head[4:8], content, behind
        start = behind


def _elements(file: BinaryIO, start: int, end: int) -> Iterator[_Part]:
    """The elements of a Matroska file; one of unknown length ends at `end`."""
    while start < end:
        file.seek(start)
        head = file.read(12)
        name = head[: _number_bytes(head)]
        field = head[len(name) :]
        field = field[: _number_bytes(field)]
        unknown = (1 << 7 * len(field)) - 1
        length = int.from_bytes(field, "big") & unknown
        content = start + len(name) + len(field)
        behind = end if length == unknown else content + length
        yield name, content, behind
        start = behind


def _number_bytes(head: bytes) -> int:
    """How many bytes a number of EBML takes that begins like this."""
    return 9 - head[0].bit_length() if head else 0


# --- whether a file is whole ------------------------------------------------------------------------------------------

_EBML, _SEGMENT = bytes.fromhex("1A45DFA3"), bytes.fromhex("18538067")
_MEDIA = (b"mdat", b"moof", _SEGMENT)
"""The outermost parts without which frames are missing: media, what describes a fragment of it, and all of Matroska."""
_RIFF_UNKNOWN = 0xFFFFFFFF  # the writer could not go back
_TRANSPORT_PACKET = 188
_SYNCS = bytes(5 * [0x47])
"""The first bytes of as many packets of a transport stream; nothing else has them by chance."""


def check_length(path: Path) -> None:
    """Raise `MediaError` when a file has fewer bytes than its outermost parts declare. Reads few of them."""
    with tars.opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        declared = _declared_bytes(file, file.read(len(_SYNCS) * _TRANSPORT_PACKET), size)
    if size < declared:
        raise MediaError(f"the file ends early: {size} of {declared} declared bytes")


def _declared_bytes(file: BinaryIO, head: bytes, size: int) -> int:
    if head.startswith(b"RIFF"):
        length = int.from_bytes(head[4:8], "little")
        return 0 if length == _RIFF_UNKNOWN else 8 + length
    if head[::_TRANSPORT_PACKET] == _SYNCS:
        return -(-size // _TRANSPORT_PACKET) * _TRANSPORT_PACKET
    parts = _elements if head.startswith(_EBML) else _boxes
    return max((end for name, _, end in parts(file, 0, size) if name in _MEDIA), default=0)


def transport_counter(path: Path, position: int | None) -> int | None:
    """The continuity counter in the packet of a transport stream that lies at a position; None without one."""
    with tars.opened(path) as file:
        file.seek(position or 0)
        head = file.read(8)
    start = head.find(_SYNCS[:1]) if position is not None else -1  # M2TS: 4 bytes of time before it
    return head[start + 3] & 15 if start in (0, 4) else None


# --- what is shown ----------------------------------------------------------------------------------------------------


_Edges = tuple[int, int, int, int]
"""How much of a coded picture is not shown: left, right, top, bottom."""


def hidden_edges(path: Path, container: str, index: int, video_index: int) -> _Edges:
    """What a container hides of a stream's pictures: by `clap` of MP4, by PixelCrop of Matroska.

    Columns at the left and right, rows at the top and bottom; below 0, what is shown begins before the picture.
    `container` is libav's name of it, `index` the stream's place in the file, `video_index` that among videos. As in
    ffmpeg, what is not valid is no cropping.
    """
    nothing = (0, 0, 0, 0)
    if container not in (MP4, MATROSKA):
        return nothing
    with tars.opened(path) as file:
        edges = _of_mp4(file, index) if container == MP4 else _of_matroska(file, video_index)
        return next(edges, nothing)


def _within(parts: _Parts, file: BinaryIO, span: tuple[int, int], *names: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of the contents of the parts whose names, from the outermost to their own, are these."""
    for name, start, end in parts(file, *span):
        if end > span[1]:
            return  # the file ends early
        if name == names[0]:
            yield from _within(parts, file, (start, end), *names[1:]) if names[1:] else [(start, end)]


def _numbers(file: BinaryIO, start: int, count: int, length: int) -> list[int]:
    """Big-endian numbers of `length` bytes, one behind the other."""
    file.seek(start)
    data = file.read(count * length)
    return [int.from_bytes(data[at : at + length], "big") for at in range(0, count * length, length)]


_ENTRY_BYTES = 78
"""The fields of a sample entry of video; boxes follow."""


def _of_mp4(file: BinaryIO, index: int) -> Iterator[_Edges]:
    for movie in islice(_within(_boxes, file, (0, file.seek(0, os.SEEK_END)), b"moov"), 1):
        for track in islice(_within(_boxes, file, movie, b"trak"), index, index + 1):
            for start, end in _within(_boxes, file, track, b"mdia", b"minf", b"stbl", b"stsd"):
                for _, entry, behind in _boxes(file, start + 8, end):
                    sides = _numbers(file, entry + 24, 2, 2)
                    for aperture, _ in _within(_boxes, file, (entry + _ENTRY_BYTES, behind), b"clap"):
                        yield from _around(_numbers(file, aperture, 8, 4), sides)


def _around(aperture: Sequence[int], sides: Sequence[int]) -> Iterator[_Edges]:
    """What a clean aperture hides of a picture: its width, its height, how far right and down its middle lies.

    Each is a fraction of two numbers. One that reaches beyond the picture's right or bottom is ignored, as by ffmpeg.
    """
    signed = [number - ((number & 1 << 31) << 1) for number in aperture]
    if min(signed[1::2]) <= 0:
        return
    *shown, right_by, down_by = map(Fraction, signed[::2], signed[1::2])
    edges: list[tuple[int, int]] = []
    for side, length, shift in zip(sides, shown, (right_by, down_by), strict=True):
        first = (side - length) / 2 + shift
        before, after = int(first), side - 1 - int(first + length - 1)
        if after < 0 or length > side or before + after >= side:
            return
        edges.append((before, after))
    yield (*edges[0], *edges[1])


_TRACKS, _TRACK, _VIDEO = (bytes.fromhex(name) for name in ("1654AE6B", "AE", "E0"))
_WIDTH, _HEIGHT = b"\xb0", b"\xba"
_CROPS = [bytes.fromhex(name) for name in ("54CC", "54DD", "54BB", "54AA")]
"""PixelCropLeft, Right, Top, Bottom."""
_LARGEST_NUMBER = 8


def _of_matroska(file: BinaryIO, video_index: int) -> Iterator[_Edges]:
    for tracks in islice(_within(_elements, file, (0, file.seek(0, os.SEEK_END)), _SEGMENT, _TRACKS), 1):
        for video in islice(_within(_elements, file, tracks, _TRACK, _VIDEO), video_index, video_index + 1):
            numbers = {
                name: _numbers(file, start, 1, end - start)[0]
                for name, start, end in _elements(file, *video)
                if 0 < end - start <= _LARGEST_NUMBER
            }
            left, right, top, bottom = (numbers.get(name, 0) for name in _CROPS)
            if left + right < numbers.get(_WIDTH, 0) and top + bottom < numbers.get(_HEIGHT, 0):
                yield left, right, top, bottom
