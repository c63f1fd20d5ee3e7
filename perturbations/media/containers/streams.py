"""Containers for streaming, made of a sequence of small parts: Ogg, GIF, MPEG transport and program streams.

What libav itself reports of them is not checked here: checksums of Ogg, counters of a transport stream. Each `*_end`
returns the least number of bytes that a whole file has; each `check_*` raises `MediaError`. See `structure`.
"""

from __future__ import annotations

import re
from typing import BinaryIO

from perturbations.base.errors import MediaError
from perturbations.media.containers.boxes import damaged, early

_BLOCK = 1 << 20
_TAIL = 1 << 16

GIF = b"GIF8"
_FIRST_PAGE, _LAST_PAGE = 2, 4
_GIF_END = b"\0;"
_GIF_IMAGE = re.compile(rb"\x21\xf9\x04....\x00\x2c", re.DOTALL)
_GIF_IMAGE_BYTES = 9
_SYNC = 0x47
_TRANSPORT_PACKETS = ((188, 0), (192, 4), (204, 0))
"""Sizes of packets, and what is before the first byte: plain, with a time (Blu-ray), with parity behind (broadcast)."""
_SECTOR_BYTES = 2048


def check_ogg(file: BinaryIO, size: int) -> None:
    """Pages are whole, numbered without a gap, and every stream has its last page. libav compares their checksums."""
    position = 0
    numbers: dict[bytes, int] = {}
    open_streams: set[bytes] = set()
    file.seek(0)
    while (head := file.read(27)).startswith(b"OggS"):
        lengths = file.read(head[26]) if len(head) == 27 else b""
        end = position + 27 + len(lengths) + sum(lengths)
        if len(head) < 27 or len(lengths) < head[26] or end > size:
            raise early(size, max(end, size + 1))
        flags, stream, number = head[5], head[14:18], int.from_bytes(head[18:22], "little")
        if number != numbers.get(stream, number - 1) + 1 and not flags & _FIRST_PAGE:
            raise MediaError(f"the file is damaged: pages are missing before byte {position} of {size}")
        numbers[stream] = number
        open_streams = open_streams - {stream} if flags & _LAST_PAGE else open_streams | {stream}
        position = file.seek(end)
    if open_streams and position < size:
        raise damaged(position, size)
    if open_streams:
        raise MediaError("the file ends early: the last page of a stream is missing")


def gif_end(file: BinaryIO, size: int) -> int:
    """The end of the code behind the last image."""
    file.seek(max(0, size - _TAIL))
    return 0 if _GIF_END in file.read() else size + 1


def gif_images(file: BinaryIO) -> int:
    """How often the bytes look like an image's control block with its image; this does not happen by chance."""
    file.seek(0)
    count, kept = 0, b""
    while data := file.read(_BLOCK):
        count += len(_GIF_IMAGE.findall(kept + data))
        kept = data[-_GIF_IMAGE_BYTES + 1 :]
    return count


def check_transport_stream(file: BinaryIO, size: int) -> None:
    """All packets have one length and begin with the same byte."""
    file.seek(0)
    head = file.read(3 * _TRANSPORT_PACKETS[-1][0])
    ways = [(packet, start) for packet, start in _TRANSPORT_PACKETS if set(head[start::packet][:3]) == {_SYNC}]
    if not ways:
        return
    packet, start = ways[0]
    file.seek(start)
    position = start
    while block := file.read(packet << 12):
        syncs = block[::packet]
        whole = len(syncs) - len(syncs.lstrip(bytes([_SYNC])))
        if whole < len(syncs) and position + (whole + 1) * packet <= size:
            raise damaged(position + whole * packet, size)
        if whole == len(syncs) and size < position + whole * packet - start:
            raise early(size, position + whole * packet - start)
        position += len(block)


def check_program_stream(file: BinaryIO, size: int) -> None:
    """Packs and packets follow one another to the end; a file may lack the code that ends it."""
    position = 0
    while position < size:
        file.seek(position)
        head = file.read(_SECTOR_BYTES)
        code = head[3] if head[:3] == b"\0\0\1" and len(head) > 3 else 0
        zeros = len(head) - len(head.lstrip(b"\0"))
        if code == 0xB9:
            position += 4
        elif code == 0xBA:  # of MPEG-1, or of MPEG-2
            position += 12 if len(head) < 14 or head[4] & 0xC0 != 0x40 else 14 + (head[13] & 7)
        elif code >= 0xBB:
            position += 6 + int.from_bytes(head[4:6], "big")
        elif zeros == _SECTOR_BYTES:  # sectors of a Video CD have a few; one full of zeros was never written
            raise early(position, size)
        elif position + zeros < size and (zeros < 3 or head[zeros] != 1):
            raise damaged(position, size)
        else:
            position += zeros - 2 if position + zeros < size else zeros
    if position > size:
        raise early(size, position)
