"""What a container proves about the decoded bytes: its checksums, counters and sizes, read beside the decoder.

libav compares few of them, and skips parts that it cannot read. A walk reads a file once, in little memory, and no
further than needed. Sources: RFC 8794 and 9559 (Matroska and WebM), RFC 3533 (Ogg), ISO/IEC 13818-1 (transport
streams), Adobe's specification of FLV 10.1, Microsoft's of ASF of 2004 (WMV).
"""

from __future__ import annotations

import math
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import av
import av.error
import av.logging
import numpy as np
import numpy.typing as npt

from perturbations.base import limits, tars
from perturbations.base.errors import MediaError
from perturbations.media import opening
from perturbations.media.containers import (
    LAST_PAGE,
    LOST,
    MATROSKA,
    PAGE,
    PAGE_HEAD,
    SEGMENT,
    asf_packets,
    elements,
    page_bytes,
    transport_packet,
)


class _Checked(NamedTuple):
    """The bytes before a place agree with the container; with `gap`, some bytes just before it are missing."""

    place: float
    gap: bool = False
    restarts: bool = False
    """Whether the counters of other streams begin again before it, as where another file begins."""


_Walk = Iterator[_Checked]


def undamaged_packets(
    path: Path, stream: av.video.stream.VideoStream, packets: Iterable[av.Packet[av.VideoStream]]
) -> Iterator[av.Packet[av.VideoStream]]:
    """The packets of a stream and of the streams beside it, as long as nothing in the file proves damage.

    Bytes after the last packet are checked when all packets have been read. Raises `MediaError`.
    """
    container = stream.container.format.name
    walk: _Walk | None = None
    checked = _Checked(0)
    last: av.Packet[av.VideoStream] | None = None
    for packet in packets:
        if packet.stream_index == stream.index and packet.size:
            if packet.pos is not None:
                walk = walk or _walk(path, container, stream.id, packet.pos)
                while checked.place < packet.pos + packet.size:
                    if checked.gap and not (checked.place == packet.pos and _begins_file(packet, last, checked)):
                        raise MediaError(LOST)
                    checked = next(walk, _Checked(math.inf))
            last = packet
        yield packet
    if any(later.gap for later in (checked, *(walk or ()))):
        raise MediaError(LOST)
    if last is not None and container in _WITHOUT_LENGTHS and stream.codec_context.name in _MADE_UP:
        _check_last_picture(stream.codec_context, bytes(last))


def _walk(path: Path, container: str, stream_id: int, packet: int) -> _Walk:
    """Check a file piece by piece, from the stream's first packet on, as far as the caller reads."""
    if container in _WALKS:
        with tars.opened(path) as file:
            yield from _WALKS[container](file, file.seek(0, os.SEEK_END), packet, stream_id)


def _begins_file(
    packet: av.Packet[av.VideoStream], before: av.Packet[av.VideoStream] | None, checked: _Checked
) -> bool:
    """Whether a transport stream begins with a key frame: its clock jumps there, or all of its counters restart."""
    due = (before.dts or 0) + 2 * (before.duration or 0) if before else 0
    return packet.is_keyframe and (packet.opaque is opening.JUMP or (checked.restarts and (packet.dts or 0) < due))


_EARLY = "the file ends early: within a part of it"
_CHECKSUM = "the file is damaged: a checksum differs"
_PIECE = 1 << 20


def _is_zero(file: BinaryIO, place: int) -> bool:
    """Whether nothing but zeros follows."""
    file.seek(place)
    while data := file.read(_PIECE):
        if data.count(0) < len(data):
            return False
    return True


# --- Matroska ---------------------------------------------------------------------------------------------------------

_CLUSTER, _CRC_32 = bytes.fromhex("1F43B675"), b"\xbf\x84"
_UNKNOWN = 1 << 64
"""Instead of the end of an element without a length, as in live recordings."""
_MASTER_BYTES = 4
"""The length of the outermost elements' names; no element has a longer name."""


def _matroska(file: BinaryIO, size: int, packet: int, stream_id: int) -> _Walk:
    """Check that elements fill their parents, and that the outermost elements fit their own checksums."""
    place, ends = 0, [size]
    is_live = False
    while place < size:
        while place == ends[-1]:
            ends.pop()
        name, content, behind = next(elements(file, place, _UNKNOWN))
        has_length = behind != _UNKNOWN
        behind = behind if has_length else ends[-1]
        if not 0 < len(name) <= _MASTER_BYTES or content == place + len(name) or behind > ends[-1]:
            if len(ends) == 1 and (not is_live or _is_zero(file, place)):
                return  # other data behind it
            raise MediaError(_EARLY if behind > size else LOST)
        is_parent = name == SEGMENT
        if is_parent:
            is_live = not has_length
        elif len(name) == _MASTER_BYTES and behind > packet:
            is_parent = not _has_checksum(file, content, behind) and name == _CLUSTER
        if is_parent and has_length:
            ends.append(behind)
        place = content if is_parent else behind
        yield _Checked(place)


def _has_checksum(file: BinaryIO, start: int, end: int) -> bool:
    """Whether the first element is a checksum of the others. Raises `MediaError` where the checksum is wrong."""
    file.seek(start)
    head = file.read(len(_CRC_32) + 4)
    if not head.startswith(_CRC_32):
        return False
    actual, left = 0, end - start - len(head)
    while left > 0 and (data := file.read(min(left, _PIECE))):
        actual, left = zlib.crc32(data, actual), left - len(data)
    if actual != int.from_bytes(head[len(_CRC_32) :], "little"):
        raise MediaError(_CHECKSUM)
    return True


# --- Ogg --------------------------------------------------------------------------------------------------------------

_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_ONES = (1 << 32) - 1


def _ogg(file: BinaryIO, size: int, packet: int, stream_id: int) -> _Walk:
    """Check that pages follow one another and fit their checksums, and that no page of the stream is missing."""
    file.seek(packet)
    stream = file.read(PAGE_HEAD)[14:18]
    number: int | None = None
    has_ended = False
    place = 0
    while place < size:
        file.seek(place)
        head = file.read(PAGE_HEAD + 255)
        end = place + page_bytes(head)
        if not head.startswith(PAGE):
            if has_ended:
                return  # other data behind it
            raise MediaError(LOST)
        if end > size:
            raise MediaError(_EARLY)
        file.seek(place)
        if end > packet - _PIECE and not _fits_checksum(file.read(end - place)):
            raise MediaError(_CHECKSUM)
        if head[14:18] == stream:
            before, number = number, int.from_bytes(head[18:22], "little")
            if before is not None and number != before + 1 & _ONES:
                raise MediaError(LOST)
            has_ended = bool(head[5] & LAST_PAGE)
        place = end
        yield _Checked(place)
    if not has_ended:
        raise MediaError("the file ends early: its video has no last page")


def _fits_checksum(page: bytes) -> bool:
    """Whether a page has the right CRC-32: zlib's of the reversed bytes, reversed, with zeros in place of the CRC."""
    reverse = zlib.crc32((page[:22] + bytes(4) + page[26:]).translate(_REVERSED), _ONES) ^ _ONES
    return int(f"{reverse:032b}"[::-1], 2) == int.from_bytes(page[22:26], "little")


# --- FLV --------------------------------------------------------------------------------------------------------------

_TAG_HEAD = 11


def _flv(file: BinaryIO, size: int, packet: int, stream_id: int) -> _Walk:
    """Check that each tag is followed by its length, if the file's writer counts as the specification does."""
    file.seek(max(0, packet - 4))
    before = packet - 4 - int.from_bytes(file.read(4), "big")
    is_counted = 0 < before < packet - 4 and _tag_bytes(file, before) == packet - 4 - before
    place = packet
    while place < size:
        length = _tag_bytes(file, place)
        file.seek(place + length)
        behind = file.read(4)
        if behind != length.to_bytes(4, "big") and not _is_zero(file, place):
            if len(behind) == 4 and not is_counted:
                return
            raise MediaError(LOST if len(behind) == 4 else _EARLY)
        is_counted = True
        place += length + 4
        yield _Checked(place)


def _tag_bytes(file: BinaryIO, place: int) -> int:
    file.seek(place)
    return _TAG_HEAD + int.from_bytes(file.read(_TAG_HEAD)[1:4], "big")


# --- ASF --------------------------------------------------------------------------------------------------------------

_ASF_PACKET = b"\x82\0\0"
"""The first bytes of a packet: two of error correction follow, and these are zeros."""


def _asf(file: BinaryIO, size: int, packet: int, stream_id: int) -> _Walk:
    """Check that packets have one length, and begin alike if the first begins so."""
    _, length, data = asf_packets(file, size)
    file.seek(data + 16)
    end = min(size, data + int.from_bytes(file.read(8), "little"))
    for place in range(packet, end, length) if length else ():
        file.seek(place)
        if file.read(len(_ASF_PACKET)) == _ASF_PACKET:
            yield _Checked(place + length)
        elif place == packet:
            return
        else:
            raise MediaError(LOST)


# --- transport streams ------------------------------------------------------------------------------------------------

_FEWEST, _MOST = 16, 4096
"""How many packets are read at a time: the fewest after lost bytes, then up to the most."""
_SYNC, _EMPTY = 0x47, 0x1FFF
_Packets = npt.NDArray[np.uint8]


def _transport(file: BinaryIO, size: int, packet: int, stream_id: int) -> _Walk:
    """Check the counters (modulo 16) of packets. After an unannounced gap, packets are lost, or another file begins."""
    file.seek(0)
    length = transport_packet(file.read(_PIECE))
    first = 4 if length == 192 else 0
    counters = np.full(1 << 13, -1, np.int16)
    latest: _Packets | None = None  # of the stream
    num_restarted = 0  # since then
    place, most = packet, _MOST
    while length and place < size:
        file.seek(place)
        data = file.read(length * most)
        packets = np.frombuffer(data, np.uint8, len(data) // length * length).reshape(-1, length)
        packets = packets[:, first : first + 188]
        if not (packets[:, 0] == _SYNC).all():
            packets = packets[: int(np.argmax(packets[:, 0] != _SYNC))]
        most = min(_MOST, 2 * most) if len(packets) else _FEWEST
        if not len(packets):
            place += _next_packet(data[first:], length)
            continue
        pids = _pids(packets)
        jumps = _jumps(packets, pids, counters)
        own = np.flatnonzero(pids == stream_id)
        restarted = np.cumsum(jumps & (pids != stream_id) & (packets[:, 3] & 15 == 0))
        for at in np.flatnonzero(jumps[own] | (packets[own, 1] & _IN_ERROR > 0)):
            index, before = own[at], packets[own[at - 1]] if at else latest
            if before is not None and _is_again(packets[index], before):
                raise MediaError("a packet of the transport stream is sent twice, and libav does not leave it out")
            since = num_restarted if at == 0 else -restarted[own[at - 1]]
            yield _Checked(place + int(index) * length, gap=True, restarts=bool(restarted[index] + since > 0))
        num_restarted += int(restarted[-1])
        if len(own):
            latest, num_restarted = packets[own[-1]].copy(), int(restarted[-1] - restarted[own[-1]])
        place += len(packets) * length
        yield _Checked(place)


_IN_ERROR = 128  # the receiver could not correct it


def _pids(packets: _Packets) -> npt.NDArray[np.int16]:
    return (packets[:, 1].astype(np.int16) & 31) << 8 | packets[:, 2]


def _jumps(packets: _Packets, pids: npt.NDArray[np.int16], counters: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
    """Which packets do not follow the packet before them in their stream; `counters` are the streams' latest."""
    announced = (packets[:, 3] & 32 > 0) & (packets[:, 4] > 0) & (packets[:, 5] & 128 > 0)
    counted = np.flatnonzero(((packets[:, 3] & 16 > 0) | announced) & (pids != _EMPTY))
    counted = counted[np.argsort(pids[counted], kind="stable")]
    streams, numbers = pids[counted], packets[counted, 3].astype(np.int16) & 15
    before = counters[streams]
    is_same = streams[1:] == streams[:-1]
    before[1:][is_same] = numbers[:-1][is_same]
    counters[streams] = numbers
    jumps = np.zeros(len(packets), np.bool_)
    jumps[counted] = (before >= 0) & (numbers != (before + 1) & 15) & ~announced[counted]
    return jumps


def _is_again(packet: _Packets, before: _Packets) -> bool:
    """Whether a packet is sent twice: it may differ in its clock."""
    payload = 5 + int(packet[4]) if packet[3] & 32 else 4
    return bool((packet[3] == before[3]) and (packet[payload:] == before[payload:]).all())


def _next_packet(data: bytes, length: int) -> int:
    """How far away the next packets lie."""
    at = data.find(_SYNC, 1)
    while at >= 0 and data[at : at + 5 * length : length].strip(bytes([_SYNC])):
        at = data.find(_SYNC, at + 1)
    return at if at > 0 else max(1, len(data))


_WALKS: dict[str, Callable[[BinaryIO, int, int, int], _Walk]] = {
    MATROSKA: _matroska,
    "ogg": _ogg,
    "flv": _flv,
    "asf": _asf,
    "mpegts": _transport,
}


# --- the last picture -------------------------------------------------------------------------------------------------

_WITHOUT_LENGTHS = ("mpegts", "mpeg", "h264", "hevc")
"""Containers of streams that may end anywhere within a picture."""
_MADE_UP = ("h264", "hevc")
"""Codecs where libavcodec may invent the rest of a picture in silence: always with HEVC, seldom with H.264."""
_MORE = 64 * b"U"  # bits of both kinds, and no start code
_LEADING = re.compile(rb"(?<=\x00\x00\x01)[\x10\x12]")
"""The first byte of an HEVC unit with a picture that leads another picture (RASL): alone, it is not decoded."""


def _check_last_picture(context: av.VideoCodecContext, data: bytes) -> None:
    """Raise `MediaError` where bytes after a picture change it: then the picture did not end before these bytes.

    The picture's references do not matter, and are not decoded.
    """
    if context.name == "hevc":
        data = _LEADING.sub(lambda match: bytes([match[0][0] & 2]), data)  # one that trails (TRAIL)
    if _alone(context, data) != _alone(context, data + _MORE):
        raise MediaError("the file ends early: within its last picture")


def _alone(context: av.VideoCodecContext, data: bytes) -> list[bytes]:
    decoder: av.VideoCodecContext = av.CodecContext.create(context.name, "r")  # type: ignore[assignment]
    decoder.extradata, decoder.thread_count = context.extradata, 1
    decoder.options = {"flags": "+output_corrupt", "max_pixels": str(limits.current()["frame_pixels"])}
    with suppress(av.error.FFmpegError), av.logging.Capture():
        return [
            b"".join(bytes(plane) for plane in frame.planes)
            for frame in [*decoder.decode(av.Packet(data)), *decoder.decode()]
        ]
    return []
