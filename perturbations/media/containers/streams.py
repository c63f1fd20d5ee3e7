"""Containers for streaming, made of a sequence of small parts: Ogg, GIF, MPEG transport and program streams.

Each `check_*` raises `MediaError` when the parts do not follow one another to the end. See `structure`.
"""

from __future__ import annotations

import re
import zlib
from typing import BinaryIO

from perturbations.base.errors import MediaError
from perturbations.media.containers.boxes import damaged, early

_MIRRORED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))
_CONTINUED, _FIRST, _LAST = 1, 2, 4

_CONTROL = b"\xf9"
_CONTROLLED_IMAGE = re.compile(rb"\x21\xf9\x04....\x00\x2c", re.DOTALL)
_CONTROLLED_IMAGE_BYTES = 9
_READ_BYTES = 1 << 20
_SECTOR_BYTES = 2048

_SYNC = 0x47
_PACKET_SIZES = (188, 192, 204)  # plain, with a time before it (Blu-ray), with parity behind it (broadcast)
_TIMED_PACKET = 192
_SYNCED = 4


# --- Ogg -------------------------------------------------------------------------------------------------------------


def check_ogg(file: BinaryIO, size: int) -> None:
    """Pages are whole, with the right checksum, numbered without a gap, and every stream has its last page."""
    position = 0
    numbers: dict[bytes, int] = {}
    open_streams: set[bytes] = set()
    file.seek(0)
    while position < size:
        head = file.read(27)
        if head[:4] != b"OggS":
            if open_streams or not numbers:
                raise damaged(position, size)
            return  # other data behind the end
        lengths = file.read(head[26]) if len(head) == 27 else b""
        body = file.read(sum(lengths))
        if len(head) < 27 or len(lengths) < head[26] or len(body) < sum(lengths):
            raise MediaError(f"the file ends early: its last page, at byte {position} of {size}, is not whole")
        if _ogg_crc(head[:22] + bytes(4) + head[26:] + lengths + body) != int.from_bytes(head[22:26], "little"):
            raise damaged(position, size)
        flags, stream, number = head[5], head[14:18], int.from_bytes(head[18:22], "little")
        if stream in numbers and not flags & _FIRST and number != numbers[stream] + 1:
            raise MediaError(f"the file is damaged: pages are missing before byte {position} of {size}")
        numbers[stream] = number
        if flags & _LAST:
            open_streams.discard(stream)
        else:
            open_streams.add(stream)
        position += len(head) + len(lengths) + len(body)
    if open_streams:
        raise MediaError("the file ends early: the last page of a stream is missing")


def _ogg_crc(page: bytes) -> int:
    # Ogg's checksum reads bits in the opposite order of zlib's, and starts and ends with other bits.
    mirrored = zlib.crc32(page.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_MIRRORED), "big")


# --- GIF -------------------------------------------------------------------------------------------------------------


def check_gif(file: BinaryIO, size: int) -> None:
    """Blocks follow one another to the trailer, and no block contains a later image."""
    images = 0
    file.seek(10)
    _skip_colours(file, _byte(file, size))
    file.seek(2, 1)
    before = b""
    while (kind := _byte(file, size)) != 0x3B:
        if kind == 0x21:
            before = file.read(1)
        elif kind == 0x2C:
            images += before == _CONTROL
            before = b""
            file.seek(8, 1)
            _skip_colours(file, _byte(file, size))
            _byte(file, size)
        else:
            raise damaged(file.tell() - 1, size)
        length = _byte(file, size)
        while length:
            block = file.read(length + 1)
            if len(block) <= length:
                raise early(size, size + 1 + length - len(block))
            length = block[-1]
    if images < _controlled_images(file, file.tell()):
        raise MediaError("the file is damaged: not all of its images can be reached")


def _controlled_images(file: BinaryIO, end: int) -> int:
    """How often the bytes look like an image's control block with its image; this does not happen by chance."""
    file.seek(0)
    count, kept = 0, b""
    while file.tell() < end:
        data = kept + file.read(min(_READ_BYTES, end - file.tell()))
        count += sum(1 for _ in _CONTROLLED_IMAGE.finditer(data))
        kept = data[-_CONTROLLED_IMAGE_BYTES + 1 :]
    return count


def _byte(file: BinaryIO, size: int) -> int:
    value = file.read(1)
    if not value:
        raise MediaError(f"the file ends early: after {size} bytes its end is missing")
    return value[0]


def _skip_colours(file: BinaryIO, flags: int) -> None:
    if flags & 0x80:
        file.seek(3 << (flags & 7) + 1, 1)


# --- MPEG transport stream -------------------------------------------------------------------------------------------


def check_transport_stream(file: BinaryIO, size: int) -> None:
    """All packets have one length and begin with the same byte. libav checks their counters."""
    file.seek(0)
    head = file.read(_SYNCED * max(_PACKET_SIZES))
    ways = [(at, packet) for packet in _PACKET_SIZES for at in range(packet) if _in_step(head[at::packet])]
    if not ways:
        return  # shorter than a few packets
    position, packet = min(ways)
    after = packet - (4 if packet == _TIMED_PACKET else 0)  # from this byte to the packet's end
    file.seek(position)
    while position + after <= size:
        whole = (size - position - after) // packet + 1
        block = file.read(min(whole, 1 << 12) * packet)
        syncs = block[::packet]
        wrong = len(syncs) - len(syncs.lstrip(bytes([_SYNC])))
        if wrong < len(syncs):
            raise damaged(position + wrong * packet, size)
        position += len(syncs) * packet
    file.seek(position)
    if file.read(1) == bytes([_SYNC]):
        raise early(size, position + after)


def _in_step(syncs: bytes) -> bool:
    return len(syncs) >= _SYNCED - 1 and set(syncs) == {_SYNC}


# --- MPEG program stream ---------------------------------------------------------------------------------------------


def check_program_stream(file: BinaryIO, size: int) -> None:
    """Packs and packets follow one another to the end; a file may lack the code that ends it."""
    position = 0
    while position < size:
        file.seek(position)
        head = file.read(14)
        code = head[3] if head[:3] == b"\0\0\1" and len(head) > 3 else 0
        if code == 0xB9:
            position += 4
        elif code == 0xBA:
            position += _pack_bytes(head)
        elif code >= 0xBB:
            position += 6 + int.from_bytes(head[4:6], "big")
        else:
            position = _behind_zeros(file, position, size)
    if position > size:
        raise early(size, position)


def _behind_zeros(file: BinaryIO, start: int, size: int) -> int:
    """The end of zeros between packs. Sectors of a Video CD have a few; a sector full of zeros was never written."""
    file.seek(start)
    data = file.read(_SECTOR_BYTES)
    zeros = len(data) - len(data.lstrip(b"\0"))
    if zeros == _SECTOR_BYTES:
        raise MediaError(f"the file ends early: zeros from byte {start} of {size} on")
    if start + zeros == size:
        return size
    if zeros < 3 or data[zeros] != 1:
        raise damaged(start, size)
    return start + zeros - 2


def _pack_bytes(head: bytes) -> int:
    if len(head) < 14 or head[4] & 0xC0 != 0x40:
        return 12  # MPEG-1
    return 14 + (head[13] & 7)
