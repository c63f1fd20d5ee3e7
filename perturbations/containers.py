"""Is a file as long as it says, and in one piece? MP4, Matroska and AVI say it in their outermost structure.

libav reads what is left of a shortened or damaged file and is silent about the rest. Standard library only.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from perturbations.errors import MediaError

_EBML, _SEGMENT, _CLUSTER = bytes.fromhex("1A45DFA3"), bytes.fromhex("18538067"), bytes.fromhex("1F43B675")
# What a segment and a cluster hold, as the Matroska and WebM specifications name it.
_MATROSKA = {
    bytes.fromhex(name)
    for name in (
        *("114D9B74", "1549A966", "1654AE6B", "1C53BB6B", "1043A770", "1941A469", "1254C367", "EC", "BF"),
        *("E7", "5854", "A7", "AB", "A3", "A0", "AF"),
    )
}


def check_length(path: Path) -> None:
    """Raise `MediaError` when a file has fewer bytes than its structure says. Looks at few of them."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(12)
        if head.startswith(b"RIFF"):
            declared = _riff_end(head)
        elif head.startswith(_EBML):
            declared = _segment(file)[1]
        else:
            declared = _mp4_end(file, size)
    if size < declared:
        raise MediaError(f"the file ends early: {size} of {declared} declared bytes")


def check_structure(path: Path) -> None:
    """Raise `MediaError` when a Matroska file's blocks do not follow one another without a gap.

    Other formats need no look: MP4 and AVI have an index that says how many frames there are.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        position, end = _segment(file)
        while position < (end or size):
            name, content, length = _element(file, position)
            if name != _CLUSTER and (name not in _MATROSKA or length is None):
                raise MediaError(f"the file is damaged at byte {position} of {size}")
            position = content if name == _CLUSTER or length is None else content + length
    if position > size:
        raise MediaError(f"the file ends early: {size} of {position} declared bytes")


def _riff_end(head: bytes) -> int:
    length = int.from_bytes(head[4:8], "little")
    return 0 if length == 0xFFFFFFFF else 8 + length  # a writer that could not go back leaves all bits set


def _mp4_end(file: BinaryIO, size: int) -> int:
    position = end = 0
    while position < size:
        file.seek(position)
        head = file.read(16)
        length, name = int.from_bytes(head[:4], "big"), head[4:8]
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length < 8 or not name.isalnum():
            break  # the last box, something behind it, or no MP4 at all
        position += length
        if name == b"mdat":
            end = position
    return end


def _segment(file: BinaryIO) -> tuple[int, int]:
    """Where a Matroska file's content starts and ends; 0 for an end that it does not tell, and where it is none."""
    name, content, length = _element(file, 0)
    if name != _EBML or length is None:
        return 0, -1
    name, content, length = _element(file, content + length)
    if name != _SEGMENT:
        return 0, -1
    return content, 0 if length is None else content + length


def _element(file: BinaryIO, position: int) -> tuple[bytes, int, int | None]:
    """An EBML element's id, where its content starts, and how long that is."""
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
