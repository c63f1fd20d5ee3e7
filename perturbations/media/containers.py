"""What libav does not say about a file: whether it is complete, and which part of the coded picture is shown.

libav reads the intact part of a shortened file and does not report the rest, and PyAV does not pass on how a container
crops pictures. Standard library only. Sources: ISO/IEC 14496-12 (MP4 and QuickTime), RFC 8794 and 9559 (Matroska and
WebM), ISO/IEC 13818-1 (transport streams), RFC 3533 (Ogg), Microsoft's ASF specification of 2004 (WMV).
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
"""A part of a file: its name, and the start and the end of its content; the end may lie behind the end of the file."""
_Parts = Callable[[BinaryIO, int, int], Iterator[_Part]]
"""A function that lists the parts of a container between two places of a file."""


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


def _objects(file: BinaryIO, start: int, end: int) -> Iterator[_Part]:
    """The objects of an ASF file."""
    while start < end:
        file.seek(start)
        head = file.read(_OBJECT_HEAD)
        behind = start + max(_OBJECT_HEAD, int.from_bytes(head[16:], "little"))
        yield head[:16], start + _OBJECT_HEAD, behind
        start = behind


def elements(file: BinaryIO, start: int, end: int) -> Iterator[_Part]:
    """The elements of a Matroska file; an element of unknown length ends at `end`."""
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

LOST = "a part of the file is damaged or missing"
_EBML, SEGMENT = bytes.fromhex("1A45DFA3"), bytes.fromhex("18538067")
_RIFF_UNKNOWN = 0xFFFFFFFF  # the writer could not go back
_TRANSPORT = ((0, 188), (4, 192), (0, 204))
"""Where a packet of a transport stream begins, and its length; in M2TS, a time lies before each packet."""
_SYNCS = bytes(5 * [0x47])
"""The first bytes of five packets in a row; no other file has them by chance."""
_ASF = bytes.fromhex("3026B2758E66CF11A6D900AA0062CE6C")
_ASF_PROPERTIES = bytes.fromhex("A1DCAB8C47A9CF118EE400C00C205365")
_OBJECT_HEAD = 24
PAGE, PAGE_HEAD, LAST_PAGE = b"OggS", 27, 4
"""In Ogg: a page's first bytes, the bytes before its lengths, and the flag of a stream's last page."""
_LARGEST_PAGE = PAGE_HEAD + 255 + 255 * 255
_MOST_LISTED = 100_000
"""Fragments that are counted in an index."""


def check_length(path: Path) -> None:
    """Raise `MediaError` when a file lacks bytes, pages or fragments that it declares. Reads few bytes."""
    with tars.opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        declared = _declared_bytes(file, file.read(len(_SYNCS) * _TRANSPORT[-1][1]), size)
    if size < declared:
        raise MediaError(f"the file ends early: {size} of {declared} declared bytes")


def _declared_bytes(file: BinaryIO, head: bytes, size: int) -> int:
    if head.startswith(b"RIFF"):
        length = int.from_bytes(head[4:8], "little")
        return 0 if length == _RIFF_UNKNOWN else 8 + length
    if packet := transport_packet(head):
        return -(-size // packet) * packet
    if head.startswith(_EBML):
        return max((end for name, _, end in elements(file, 0, size) if name == SEGMENT), default=0)
    if head.startswith(_ASF):
        return _declared_by_asf(file, size)
    return _declared_by_ogg(file, size) if head.startswith(PAGE) else _declared_by_mp4(file, size)


def transport_packet(head: bytes) -> int:
    """The bytes of a packet in the transport stream that begins with `head`; 0 for any other file."""
    return next((length for first, length in _TRANSPORT if head[first::length][: len(_SYNCS)] == _SYNCS), 0)


def _declared_by_asf(file: BinaryIO, size: int) -> int:
    """The size in the header; 0 for a broadcast. Raises `MediaError` where its objects do not follow one another."""
    declared, _, start = asf_packets(file, size)
    if not declared:
        return 0
    ends = [behind for _, _, behind in islice(_objects(file, start, size), 99)]
    if size in ends[:1]:
        return size  # its packets are there; no picture needs the index behind them
    if size >= declared and declared not in ends:
        raise MediaError(LOST)
    return declared


def asf_packets(file: BinaryIO, size: int) -> tuple[int, int, int]:
    """The size of an ASF file, the length of its packets, and where the object with them begins; zeros if unknown."""
    for start, end in islice(_within(_objects, file, (0, size), _ASF), 1):
        for properties, _ in islice(_within(_objects, file, (start + 6, end), _ASF_PROPERTIES), 1):
            declared, flags = _little(file, properties + 16, 8), _little(file, properties + 64, 4)
            least, most = (_little(file, properties + place, 4) for place in (68, 72))
            if not flags & 1:
                return declared, most if least == most else 0, end
    return 0, 0, 0


def _little(file: BinaryIO, start: int, length: int) -> int:
    file.seek(start)
    return int.from_bytes(file.read(length), "little")


def _declared_by_ogg(file: BinaryIO, size: int) -> int:
    """Where the last page ends. Raises `MediaError` where it is not the last of its stream."""
    first = max(0, size - _LARGEST_PAGE)
    file.seek(first)
    tail = file.read(_LARGEST_PAGE)
    at = tail.rfind(PAGE)
    page = tail[at:]
    end = first + at + page_bytes(page) if at >= 0 else 0  # other data may lie behind it
    if 0 < end <= size and not page[5] & LAST_PAGE:
        raise MediaError("the file ends early: a stream has no last page")
    return end


def page_bytes(page: bytes) -> int:
    """The length of a page of Ogg, by its first bytes."""
    behind = PAGE_HEAD + (page[26] if len(page) >= PAGE_HEAD else 0)
    return behind + sum(page[PAGE_HEAD:behind])


def _declared_by_mp4(file: BinaryIO, size: int) -> int:
    """Where the last media end. Raises `MediaError` where a fragment is missing."""
    declared = fragments = media = begin = end = 0
    in_fragments = waits = lacks = False
    for name, begin, end in _boxes(file, 0, size):
        if name == b"moov" and end <= size:
            in_fragments = any(_within(_boxes, file, (begin, end), b"mvex"))
        elif name == b"moof":
            fragments, waits = fragments + 1, True
        elif name == b"mdat" and fragments:
            media, waits = media + 1, False
            lacks |= media > fragments
        elif name == b"sidx" and in_fragments and end <= size:
            lacks |= _lacks_segment(file, begin, end, size)
        if name in (b"mdat", b"moof"):
            declared = end
    if not in_fragments or declared > size:
        return declared
    file.seek(min(end, size))
    begins_box = size - end < 8 and any(file.read(8))
    if lacks or fragments < _listed_fragments(file, size) or _holds(file, b"moof", end if end <= size else begin):
        raise MediaError(LOST)
    if waits or begins_box:
        raise MediaError("the file ends early: within a fragment")
    return declared


def _lacks_segment(file: BinaryIO, start: int, end: int, size: int) -> bool:
    """Whether a segment in a `sidx` has neither a fragment nor a list of its own."""
    (is_long,) = _numbers(file, start, 1, 1)
    number = 8 if is_long else 4
    at = end + _numbers(file, start + 12 + number, 1, number)[0]
    for entry in range(start + 16 + 2 * number, end, 12):
        length = _numbers(file, entry, 1, 4)[0] & (1 << 31) - 1
        boxes = islice(_boxes(file, at, at + length), 99) if at + length <= size else ()
        if not any(name in (b"moof", b"sidx") for name, _, _ in boxes):
            return True
        at += length
    return False


def _listed_fragments(file: BinaryIO, size: int) -> int:
    """How many fragments the index at the end of a file lists for the track with most of them; 0 without an index."""
    if size < 16 or _numbers(file, size - 12, 1, 4) != [int.from_bytes(b"mfro", "big")]:
        return 0
    most, index = 0, max(0, size - _numbers(file, size - 4, 1, 4)[0])
    for start, _ in _within(_boxes, file, (index, size), b"mfra", b"tfra"):
        (is_long,), (lengths, count) = _numbers(file, start, 1, 1), _numbers(file, start + 8, 2, 4)
        number = 8 if is_long else 4
        entry = 2 * number + 3 + sum(lengths >> shift & 3 for shift in (0, 2, 4))
        file.seek(start + 16)
        entries = file.read(min(count, _MOST_LISTED) * entry)
        most = max(
            most, len({entries[at + number : at + 2 * number] for at in range(0, len(entries) - entry + 1, entry)})
        )
    return most


def _holds(file: BinaryIO, words: bytes, start: int) -> bool:
    """Whether a file has these bytes behind a place."""
    file.seek(start)
    before = b""
    while data := file.read(1 << 20):
        if words in before + data:
            return True
        before = data[-len(words) :]
    return False


# --- what is shown ----------------------------------------------------------------------------------------------------


_Edges = tuple[int, int, int, int]
"""How many columns and rows of a coded picture are hidden: left, right, top, bottom."""


def hidden_edges(path: Path, container: str, index: int, video_index: int) -> _Edges:
    """The edges of a stream's pictures that a container hides: by `clap` in MP4, by PixelCrop in Matroska.

    Columns at the left and right, rows at the top and bottom; below 0, what is shown begins before the picture.
    `container` is libav's name of the container, `index` the stream's place in the file, `video_index` its place among
    videos. As in ffmpeg, an invalid value means no cropping.
    """
    nothing = (0, 0, 0, 0)
    if container not in (MP4, MATROSKA):
        return nothing
    with tars.opened(path) as file:
        edges = _of_mp4(file, index) if container == MP4 else _of_matroska(file, video_index)
        return next(edges, nothing)


def _within(parts: _Parts, file: BinaryIO, span: tuple[int, int], *names: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of the contents of the parts at a path of names, from the outermost part inwards."""
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
    """The edges that a clean aperture hides, from its width, its height, and how far right and down its middle lies.

    Each is a fraction of two numbers. An aperture beyond the picture's right or bottom edge is ignored, as by ffmpeg.
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
    for tracks in islice(_within(elements, file, (0, file.seek(0, os.SEEK_END)), SEGMENT, _TRACKS), 1):
        for video in islice(_within(elements, file, tracks, _TRACK, _VIDEO), video_index, video_index + 1):
            numbers = {
                name: _numbers(file, start, 1, end - start)[0]
                for name, start, end in elements(file, *video)
                if 0 < end - start <= _LARGEST_NUMBER
            }
            left, right, top, bottom = (numbers.get(name, 0) for name in _CROPS)
            if left + right < numbers.get(_WIDTH, 0) and top + bottom < numbers.get(_HEIGHT, 0):
                yield left, right, top, bottom
