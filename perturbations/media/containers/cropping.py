"""The part of the coded picture that a container shows: `clap` of MP4 and QuickTime, PixelCrop of Matroska and WebM.

libav reads both, but PyAV does not pass them on. As in ffmpeg, what is not valid is no cropping. Standard library only.
Sources: ISO/IEC 14496-12 (CleanApertureBox), RFC 9559 (PixelCropLeft and its kin).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from perturbations.base import tars
from perturbations.media.containers import boxes


class HiddenEdges(NamedTuple):
    """How many columns and rows of the coded picture are not shown; below 0, what is shown begins before it."""

    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0


def hidden_edges(path: Path, container: str, index: int, video_index: int) -> HiddenEdges:
    """What a container hides of a stream's pictures.

    `container` is libav's name of it, `index` the stream's place in the file, `video_index` that among videos.
    """
    if container not in _READERS:
        return HiddenEdges()
    with tars.opened(path) as file:
        return next(_READERS[container](file, index, video_index), HiddenEdges())


_Part = tuple[bytes, int, int]
"""A part of a file: its name, and the start and end of its content."""
_Parts = Callable[[BinaryIO, int, int], Iterator[_Part]]
"""What lists the parts of a container between a start and an end."""


def _contents(parts: _Parts, file: BinaryIO, span: tuple[int, int], *names: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of the contents of the parts whose names, from the outermost to their own, are these."""
    for name, start, end in parts(file, *span):
        if name == names[0]:
            yield from _contents(parts, file, (start, end), *names[1:]) if names[1:] else [(start, end)]


def _numbers(file: BinaryIO, start: int, count: int, length: int) -> list[int]:
    """Big-endian numbers of `length` bytes, one behind the other."""
    file.seek(start)
    data = file.read(count * length)
    return [int.from_bytes(data[at : at + length], "big") for at in range(0, count * length, length)]


# --- MP4, QuickTime --------------------------------------------------------------------------------------------------

_ENTRY_BYTES = 78
"""The fields of a sample entry of video; boxes follow."""


def _of_mp4(file: BinaryIO, index: int, video_index: int) -> Iterator[HiddenEdges]:
    movie = islice(_contents(_boxes, file, (0, file.seek(0, 2)), b"moov"), 1)
    tracks = (track for span in movie for track in _contents(_boxes, file, span, b"trak"))
    for track in islice(tracks, index, index + 1):
        for start, end in _contents(_boxes, file, track, b"mdia", b"minf", b"stbl", b"stsd"):
            for _, entry, behind in _boxes(file, start + 8, end):
                sides = _numbers(file, entry + 24, 2, 2)
                for aperture, _ in _contents(_boxes, file, (entry + _ENTRY_BYTES, behind), b"clap"):
                    yield from _around(_numbers(file, aperture, 8, 4), sides)


def _around(aperture: Sequence[int], sides: Sequence[int]) -> Iterator[HiddenEdges]:
    """What a clean aperture hides of a picture: its width, its height, how far right and down its middle lies.

    Each is a fraction of two numbers. One that reaches beyond the picture's right or bottom is ignored, as by ffmpeg.
    """
    signed = [number - ((number & 1 << 31) << 1) for number in aperture]
    if min(signed[1::2]) <= 0:
        return
    *shown, right_by, down_by = map(Fraction, signed[::2], signed[1::2])
    edges: list[int] = []
    for side, length, shift in zip(sides, shown, (right_by, down_by), strict=True):
        first = (side - length) / 2 + shift
        before, after = int(first), side - 1 - int(first + length - 1)
        if after < 0 or length > side or before + after >= side:
            return
        edges += [before, after]
    yield HiddenEdges(*edges)


def _boxes(file: BinaryIO, start: int, end: int) -> Iterator[_Part]:
    while start + 8 <= end:
        length, name = _numbers(file, start, 2, 4)
        content = start + 8
        if length == 1:
            (length,), content = _numbers(file, content, 1, 8), content + 8
        behind = start + length if length else end
        if not content <= behind <= end:
            return  # the file ends early, or is no MP4
        yield name.to_bytes(4, "big"), content, behind
        start = behind


# --- Matroska, WebM --------------------------------------------------------------------------------------------------

_SEGMENT, _TRACKS, _TRACK, _VIDEO = (bytes.fromhex(name) for name in ("18538067", "1654AE6B", "AE", "E0"))
_WIDTH, _HEIGHT = b"\xb0", b"\xba"
_CROPS = [bytes.fromhex(name) for name in ("54CC", "54DD", "54BB", "54AA")]
"""PixelCropLeft, Right, Top, Bottom."""
_LARGEST_NUMBER = 8


def _of_matroska(file: BinaryIO, index: int, video_index: int) -> Iterator[HiddenEdges]:
    tracks = islice(_contents(_elements, file, (0, file.seek(0, 2)), _SEGMENT, _TRACKS), 1)
    videos = (video for span in tracks for video in _contents(_elements, file, span, _TRACK, _VIDEO))
    for video in islice(videos, video_index, video_index + 1):
        numbers = {
            name: _numbers(file, start, 1, end - start)[0]
            for name, start, end in _elements(file, *video)
            if 0 < end - start <= _LARGEST_NUMBER
        }
        edges = HiddenEdges(*(numbers.get(name, 0) for name in _CROPS))
        if edges.left + edges.right < numbers.get(_WIDTH, 0) and edges.top + edges.bottom < numbers.get(_HEIGHT, 0):
            yield edges


def _elements(file: BinaryIO, start: int, end: int) -> Iterator[_Part]:
    while start < end:
        name, content, length = boxes.element(file, start)
        behind = end if length is None else content + length
        if not name or behind > end:
            return
        yield name, content, behind
        start = behind


_READERS: dict[str, Callable[[BinaryIO, int, int], Iterator[HiddenEdges]]] = {
    "mov,mp4,m4a,3gp,3g2,mj2": _of_mp4,
    "matroska,webm": _of_matroska,
}
