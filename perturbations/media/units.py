"""What a packet of a video stream holds: a picture, shown or not, and units that no picture needs.

Sources: ITU-T H.264 (7.3.1, 7.4.1) and H.265 (7.3.1.2, 7.4.2.2); ISO/IEC 14496-15 (lengths before units); ISO/IEC
14496-2 (6.2.5); the specifications of AV1 (5.3, 5.9.2), VP9 (6.2) and VP8 (RFC 6386, 9.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import av

_START = b"\0\0\0\1"
_STARTS = re.compile(b"\0\0\0?\1")
_LENGTHS_AT = {"h264": 4, "hevc": 21}
"""The place in a header (ISO/IEC 14496-15) of two bits: how many bytes the length before each unit has."""
_NOT_CODED_BYTES = 8
"""The most bytes of an MPEG-4 picture that only repeats the picture before it (`vop_coded` is 0)."""


class Units:
    """Splits packets of a stream into units."""

    def __init__(self, stream: av.video.stream.VideoStream) -> None:
        self._codec = stream.codec_context.codec.canonical_name
        header, at = stream.codec_context.extradata or b"", _LENGTHS_AT.get(self._codec, 0)
        self._length_bytes = (header[at] & 3) + 1 if header[:1] == b"\1" and at < len(header) else 0

    def shows_picture(self, packet: av.Packet[av.VideoStream]) -> bool:
        """Whether a packet shows a picture: its own, or a picture that was decoded earlier."""
        data = bytes(packet)
        match self._codec:
            case "h264" | "hevc":
                units = self._split(data)
                return not units or not all(self._is_whole_other(unit) for unit in units)
            case "av1":
                return any(_pictures_av1(data))
            case "vp8":
                return bool(data[0] & 0x10)
            case "vp9":
                return _shows_vp9(data)
            case "mpeg4":
                return len(data) > _NOT_CODED_BYTES
            case _:
                return True

    def holds_picture(self, packet: av.Packet[av.VideoStream]) -> bool:
        """Whether a packet holds a picture, shown or not, as far as is known."""
        if self._codec == "av1":
            return any(True for _ in _pictures_av1(bytes(packet)))
        return self._codec not in _LENGTHS_AT or self.shows_picture(packet)

    def others(self, packet: av.Packet[av.VideoStream]) -> bytes:
        """The units of a packet of H.264 or HEVC that no picture needs: parameter sets, messages, what is reserved."""
        if self._codec not in _LENGTHS_AT:
            return b""
        units = [unit for unit in self._split(bytes(packet)) if not self._is_slice(unit)]
        starts = (len(unit).to_bytes(self._length_bytes, "big") if self._length_bytes else _START for unit in units)
        return b"".join(start + unit for start, unit in zip(starts, units, strict=True))

    def _split(self, data: bytes) -> list[bytes]:
        """The packet's units; empty where a length reaches beyond the packet."""
        if not self._length_bytes:
            return [unit for unit in _STARTS.split(data) if unit]
        units = []
        at = 0
        while at < len(data):
            start = at + self._length_bytes
            at = start + int.from_bytes(data[at:start], "big")
            units += [data[start:at]] if at > start else []
        return units if at == len(data) else []

    def _is_slice(self, unit: bytes) -> bool:
        return 1 <= unit[0] & 31 <= 5 if self._codec == "h264" else unit[0] >> 1 & 63 < 32

    def _is_whole_other(self, unit: bytes) -> bool:
        """Whether a unit holds no part of a picture, by its whole header: a slice's header may be damaged."""
        if self._codec == "hevc":  # in the base layer
            return len(unit) > 1 and unit[0] in range(32 << 1, 64 << 1, 2) and 1 <= unit[1] <= 7
        needed, kind = unit[0] >> 5, unit[0] & 31
        return (1 <= needed <= 3 and kind in (7, 8, 13, 15)) or (not needed and kind in (6, 9, 10, 11, 12))


def _shows_vp9(data: bytes) -> bool:
    if data[-1] >> 5 == 0b110:
        return True  # the index of a superframe; one of its frames is shown
    bits = data[0] << (data[0] & 0x30 == 0x30)  # profile 3 has one bit more
    return bool(bits & 0b1010)  # show_existing_frame, show_frame


def _pictures_av1(data: bytes) -> Iterator[bool]:
    """Whether each picture is shown; a part of a picture with a lost header counts as shown."""
    header = False
    at = 0
    while at < len(data):
        if not data[at]:  # zeros took the place of a unit
            yield True
            return
        kind, has_size = data[at] >> 3 & 15, bool(data[at] & 2)
        at += 2 if data[at] & 4 else 1
        size = 0 if has_size else len(data) - at
        for shift in range(0, 56 * has_size, 7):
            byte = data[at] if at < len(data) else 0
            size |= (byte & 127) << shift
            at += 1
            if byte < 128:
                break
        if kind in (3, 6) and at < len(data):  # they begin with show_existing_frame, frame_type in 2 bits, show_frame
            header = True
            yield bool(data[at] & 0x90)
        elif kind == 4 and not header:
            yield True
        at += size
