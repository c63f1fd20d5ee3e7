"""Containers whose parts have declared lengths: MP4, RIFF, ASF, Matroska. See `structure`.

Each `*_end` returns the number of bytes that the outermost structure declares, 0 where it declares none.
`check_matroska` raises `MediaError` when the parts do not follow one another to the end.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO

from perturbations.base.errors import MediaError

_BLOCK = 1 << 20

EBML = bytes.fromhex("1A45DFA3")
_SEGMENT, _CLUSTER = bytes.fromhex("18538067"), bytes.fromhex("1F43B675")
_CRC_32 = b"\xbf\x84"
# Elements of a segment and of a cluster, after the Matroska and WebM specifications.
_MASTERS = {
    bytes.fromhex(name) for name in ("114D9B74", "1549A966", "1654AE6B", "1C53BB6B", "1043A770", "1941A469", "1254C367")
}
_MATROSKA = _MASTERS | {bytes.fromhex(name) for name in ("EC", "BF", "E7", "5854", "A7", "AB", "A3", "A0", "AF")}

ASF = bytes.fromhex("3026B2758E66CF11A6D900AA0062CE6C")
_ASF_PROPERTIES = bytes.fromhex("A1DCAB8C47A9CF118EE400C00C205365")


def early(size: int, declared: int) -> MediaError:
    """The error for a file with fewer bytes than it declares."""
    return MediaError(f"the file ends early: {size} of {declared} declared bytes")


def damaged(position: int, size: int) -> MediaError:
    """The error for a file whose parts do not follow one another."""
    return MediaError(f"the file is damaged at byte {position} of {size}")


# --- RIFF: AVI -------------------------------------------------------------------------------------------------------


def riff_end(file: BinaryIO, size: int) -> int:
    """The end of the outermost chunk; its length is not set if the writer could not go back."""
    file.seek(4)
    length = int.from_bytes(file.read(4), "little")
    return 0 if length == 0xFFFFFFFF else 8 + length


# --- MP4 -------------------------------------------------------------------------------------------------------------


def mp4_end(file: BinaryIO, size: int) -> int:
    """The end of the last box of media, or of the last that describes a fragment of it."""
    return max((end for name, end in _boxes(file, size) if name in (b"mdat", b"moof")), default=0)


def _boxes(file: BinaryIO, size: int) -> Iterator[tuple[bytes, int]]:
    """The outermost boxes: name and end, which may lie behind the file's."""
    position = 0
    while position < size:
        file.seek(position)
        head = file.read(16)
        length, name = int.from_bytes(head[:4], "big"), head[4:8]
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length < 8 or not name.isalnum():
            return  # the last box, other data behind it, or not an MP4
        position += length
        yield name, position


# --- ASF: WMV --------------------------------------------------------------------------------------------------------


def asf_end(file: BinaryIO, size: int) -> int:
    """The size that the file's properties declare; the writer of a stream does not know it."""
    file.seek(0)
    head = file.read(_BLOCK)
    fields = head[max(0, head.find(_ASF_PROPERTIES)) :][:92]
    is_stream = bool(int.from_bytes(fields[88:], "little") & 1)
    return 0 if not fields.startswith(_ASF_PROPERTIES) or is_stream else int.from_bytes(fields[40:48], "little")


# --- Matroska, WebM --------------------------------------------------------------------------------------------------


def matroska_end(file: BinaryIO, size: int) -> int:
    """The end of the segment."""
    return _segment(file)[1]


def check_matroska(file: BinaryIO, size: int) -> None:
    """Elements of a segment and blocks of clusters, and their checksums."""
    position, end = _segment(file)
    needed = 0
    while position < (end or size):
        name, content, length = element(file, position)
        if name != _CLUSTER and (name not in _MATROSKA or length is None):
            raise damaged(position, size)
        needed = max(needed, content + (length or 0))
        if length is not None and (name == _CLUSTER or name in _MASTERS):
            _check_crc(file, content, length, size)
        position = content if name == _CLUSTER or length is None else content + length
    if needed > size:
        raise early(size, needed)


def _check_crc(file: BinaryIO, content: int, length: int, size: int) -> None:
    file.seek(content)
    head = file.read(6)
    if head[:2] != _CRC_32 or content + length > size:
        return
    value, left = 0, length - 6
    while left > 0:
        data = file.read(min(left, _BLOCK))
        value = zlib.crc32(data, value)
        left -= len(data)
    if value.to_bytes(4, "little") != head[2:]:
        raise MediaError(f"the file is damaged behind byte {content} of {size}: a checksum differs")


def _segment(file: BinaryIO) -> tuple[int, int]:
    """Start and end of a Matroska file's content; 0 for an end that is not declared, (0, -1) for other files."""
    name, content, length = element(file, 0)
    if name != EBML or length is None:
        return 0, -1
    name, content, length = element(file, content + length)
    if name != _SEGMENT:
        return 0, -1
    return content, 0 if length is None else content + length


def element(file: BinaryIO, position: int) -> tuple[bytes, int, int | None]:
    """An EBML element's id, and the start and length of its content."""
    file.seek(position)
    head = file.read(12)
    name = head[: _vint_bytes(head)]
    field = head[len(name) :]
    field = field[: _vint_bytes(field)]
    ones = (1 << 7 * len(field)) - 1
    length = int.from_bytes(field, "big") & ones
    return name, position + len(name) + len(field), None if length == ones else length


def _vint_bytes(head: bytes) -> int:
    return 9 - head[0].bit_length() if head else 0
