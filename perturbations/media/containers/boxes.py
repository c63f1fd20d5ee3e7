"""Containers whose parts have declared lengths: MP4, RIFF, Matroska, ASF, FLV, PNG. See `structure`.

Each `*_end` returns the number of bytes that the outermost structure declares, 0 where it declares none. Each `check_*`
raises `MediaError` when the parts do not follow one another to the end.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from perturbations.base.errors import MediaError

_BLOCK = 1 << 20

EBML = bytes.fromhex("1A45DFA3")
_SEGMENT, _CLUSTER = bytes.fromhex("18538067"), bytes.fromhex("1F43B675")
_TRACKS, _TRACK, _TRACK_NUMBER = bytes.fromhex("1654AE6B"), b"\xae", b"\xd7"
_SIMPLE_BLOCK, _BLOCK_GROUP, _CRC_32 = b"\xa3", b"\xa0", b"\xbf\x84"
# Elements of a segment and of a cluster, after the Matroska and WebM specifications.
_MASTERS = {
    bytes.fromhex(name) for name in ("114D9B74", "1549A966", "1654AE6B", "1C53BB6B", "1043A770", "1941A469", "1254C367")
}
_MATROSKA = _MASTERS | {bytes.fromhex(name) for name in ("EC", "BF", "E7", "5854", "A7", "AB", "A3", "A0", "AF")}

ASF = bytes.fromhex("3026B2758E66CF11A6D900AA0062CE6C")
_ASF_PROPERTIES = bytes.fromhex("A1DCAB8C47A9CF118EE400C00C205365")
_ASF_DATA = bytes.fromhex("3626B2758E66CF11A6D900AA0062CE6C")
_ASF_DATA_HEAD = 50
_ASF_INDEXES = {  # of times, of times with more detail, of objects, of timecodes
    bytes.fromhex("90080033B1E5CF1189F400A0C90349CB"),
    bytes.fromhex("D329E2D6DA35D111903400A0C90349BE"),
    bytes.fromhex("F803B1FEAD12644C840F2A1D2F7AD48C"),
    bytes.fromhex("D03FB73C4A0C0348953DEDF7B6228F0C"),
}


def early(size: int, declared: int) -> MediaError:
    """The error for a file with fewer bytes than it declares."""
    return MediaError(f"the file ends early: {size} of {declared} declared bytes")


def damaged(position: int, size: int) -> MediaError:
    """The error for a file whose parts do not follow one another."""
    return MediaError(f"the file is damaged at byte {position} of {size}")


def _crc32(file: BinaryIO, length: int, value: int = 0) -> int:
    while length > 0:
        data = file.read(min(length, _BLOCK))
        if not data:
            break
        value = zlib.crc32(data, value)
        length -= len(data)
    return value


# --- RIFF: AVI, WebP -------------------------------------------------------------------------------------------------


def riff_end(file: BinaryIO, size: int) -> int:
    """The end of the outermost chunk; its length is not set if the writer could not go back."""
    file.seek(4)
    length = int.from_bytes(file.read(4), "little")
    return 0 if length == 0xFFFFFFFF else 8 + length


# --- MP4 -------------------------------------------------------------------------------------------------------------


def mp4_end(file: BinaryIO, size: int) -> int:
    """The end of the last box of media. Raises `MediaError` for pictures, also animated: libav shows only the first."""
    last = 0
    for name, content, end in _boxes(file, 0, size):
        if name == b"mdat":
            last = max(last, end)
        elif name == b"meta" and _is_of_pictures(file, content, end):
            raise MediaError("not a video: a picture, or an animation of pictures (AVIF, HEIF)")
    return last


def _is_of_pictures(file: BinaryIO, content: int, end: int) -> bool:
    """Whether a file's box `meta` has the handler of pictures (ISO/IEC 23008-12, section 6.2)."""
    for handler, _ in _inner(file, content + 4, end, b"hdlr"):
        file.seek(handler + 8)
        return file.read(4) == b"pict"
    return False


def _boxes(file: BinaryIO, position: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """The boxes from `position` to `end`: name, start and end of the content; that end may lie behind `end`."""
    while position < end:
        file.seek(position)
        head = file.read(16)
        length, name, content = int.from_bytes(head[:4], "big"), head[4:8], position + 8
        if length == 1:
            length, content = int.from_bytes(head[8:16], "big"), position + 16
        if length < 8 or not name.isalnum():
            return  # the last box, other data behind it, or not an MP4
        yield name, content, position + length
        position += length


def _mp4_samples(file: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """For each track the number of samples in its table of sizes, and in its table of times."""
    for track in _inner(file, 0, size, b"moov", b"trak"):
        counts = {b"stsz": -1, b"stts": -1}
        for start, end in _inner(file, *track, b"mdia", b"minf", b"stbl"):
            for name, content, _ in _boxes(file, start, end):
                file.seek(content + 4)
                if name in (b"stsz", b"stz2"):
                    counts[b"stsz"] = int.from_bytes(file.read(8)[4:], "big")
                elif name == b"stts":
                    runs = min(int.from_bytes(file.read(4), "big"), (end - content) // 8)
                    table = file.read(8 * runs)
                    counts[name] = sum(int.from_bytes(table[at : at + 4], "big") for at in range(0, len(table), 8))
        yield counts[b"stsz"], counts[b"stts"]


def _inner(file: BinaryIO, start: int, end: int, *names: bytes) -> Iterator[tuple[int, int]]:
    if not names:
        yield start, end
        return
    for name, content, inner_end in _boxes(file, start, end):
        if name == names[0]:
            yield from _inner(file, content, min(inner_end, end), *names[1:])


def check_mp4(file: BinaryIO, size: int) -> None:
    """The two tables of a track have the same number of samples, and those of a fragment their declared lengths."""
    for sizes, times in _mp4_samples(file, size):
        if 0 <= sizes < times:
            raise MediaError(f"the file is damaged: {sizes} samples have a size, {times} have a time")
    for start, end in _inner(file, 0, size, b"moof", b"traf"):
        for name, content, run_end in _boxes(file, start, end):
            if name == b"trun" and run_end <= size:
                _check_run(file, content, run_end - content, size)


def _check_run(file: BinaryIO, content: int, length: int, size: int) -> None:
    """A run of samples has its declared number of entries, and no sample goes beyond the file."""
    file.seek(content)
    run = file.read(length)
    flags, count = int.from_bytes(run[1:4], "big"), int.from_bytes(run[4:8], "big")
    first, entry = 8 + 4 * (flags & 0x005).bit_count(), 4 * (flags & 0xF00).bit_count()
    if length != first + count * entry:
        raise damaged(content - 8, size)
    if flags & 0x200:  # entries have sizes, behind the durations where they have those too
        first += 4 * (flags & 0x100 > 0)
        total = sum(int.from_bytes(run[at : at + 4], "big") for at in range(first, length, entry))
        if content + total > size:
            raise damaged(content - 8, size)


# --- Matroska, WebM --------------------------------------------------------------------------------------------------


def matroska_end(file: BinaryIO, size: int) -> int:
    """The end of the segment."""
    return _segment(file)[1]


def check_matroska(file: BinaryIO, size: int) -> None:
    """Elements of a segment and blocks of clusters, their checksums, and the tracks that blocks name."""
    position, end = _segment(file)
    needed = 0
    tracks: set[int] = set()
    while position < (end or size):
        name, content, length = _element(file, position)
        if name != _CLUSTER and (name not in _MATROSKA or length is None):
            raise damaged(position, size)
        needed = max(needed, content + (length or 0))
        if length is not None and (name == _CLUSTER or name in _MASTERS):
            _check_crc(file, content, length, size)
        if name == _TRACKS and length is not None:
            tracks = _track_numbers(file, content, content + length)
        if name in (_SIMPLE_BLOCK, _BLOCK_GROUP) and tracks and _track_of(file, name, content) not in tracks:
            raise damaged(position, size)
        position = content if name == _CLUSTER or length is None else content + length
    if needed > size:
        raise early(size, needed)


def _check_crc(file: BinaryIO, content: int, length: int, size: int) -> None:
    file.seek(content)
    head = file.read(6)
    if content + length <= size and head[:2] == _CRC_32 and _crc32(file, length - 6).to_bytes(4, "little") != head[2:]:
        raise MediaError(f"the file is damaged behind byte {content} of {size}: a checksum differs")


def _track_numbers(file: BinaryIO, position: int, end: int) -> set[int]:
    numbers = set()
    while position < end:
        name, content, length = _element(file, position)
        if length is None:
            break
        if name == _TRACK:
            position = content
            continue
        if name == _TRACK_NUMBER:
            file.seek(content)
            numbers.add(int.from_bytes(file.read(length), "big"))
        position = content + length
    return numbers


def _track_of(file: BinaryIO, name: bytes, content: int) -> int | None:
    if name == _BLOCK_GROUP:
        name, content, _ = _element(file, content)
        if name != b"\xa1":
            return 0  # a group may begin with another element; then its track is not known
    file.seek(content)
    field = file.read(8)
    field = field[: _vint_bytes(field)]
    return int.from_bytes(field, "big") & ((1 << 7 * len(field)) - 1)


def _segment(file: BinaryIO) -> tuple[int, int]:
    """Start and end of a Matroska file's content; 0 for an end that is not declared, (0, -1) for other files."""
    name, content, length = _element(file, 0)
    if name != EBML or length is None:
        return 0, -1
    name, content, length = _element(file, content + length)
    if name != _SEGMENT:
        return 0, -1
    return content, 0 if length is None else content + length


def _element(file: BinaryIO, position: int) -> tuple[bytes, int, int | None]:
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


# --- ASF: WMV --------------------------------------------------------------------------------------------------------


def asf_end(file: BinaryIO, size: int) -> int:
    """The size that the file's properties declare."""
    properties = _asf_properties(file, size)
    return 0 if properties is None or properties.streamed else properties.declared


def check_asf(file: BinaryIO, size: int) -> None:
    """Packets of one length fill the data object, and begin as the first does."""
    places = [(start, length) for name, start, length in _asf_objects(file, 0, size) if name == _ASF_DATA]
    properties = _asf_properties(file, size)
    if not places:
        raise damaged(0, size)
    if properties is None:
        return
    start, length = places[0]
    packet, streamed = properties.packet, properties.streamed
    file.seek(start + 40)
    packets = int.from_bytes(file.read(8), "little")
    if not streamed and length != _ASF_DATA_HEAD + packets * packet:
        raise damaged(start, size)
    position = start + _ASF_DATA_HEAD
    end = size if streamed else start + length
    file.seek(position)
    flags = file.read(3)
    while position < end:
        file.seek(position)
        head = file.read(16)
        if head in _ASF_INDEXES:
            return
        if position + packet > end:
            raise early(size, position + packet)
        if head[:3] != flags:
            raise damaged(position, size)
        position += packet


def _asf_objects(file: BinaryIO, position: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    while position + 24 <= end:
        file.seek(position)
        head = file.read(24)
        length = int.from_bytes(head[16:], "little")
        yield head[:16], position, length
        if length < 24:
            return
        position += length


class _AsfProperties(NamedTuple):
    declared: int
    packet: int
    streamed: bool


def _asf_properties(file: BinaryIO, size: int) -> _AsfProperties | None:
    """Bytes of the file, bytes per packet, and whether it was streamed: then the bytes of the file are not known."""
    file.seek(16)
    header_end = int.from_bytes(file.read(8), "little")
    for name, start, _ in _asf_objects(file, 30, min(header_end, size)):
        if name == _ASF_PROPERTIES:
            file.seek(start)
            fields = file.read(104)
            declared, flags = int.from_bytes(fields[40:48], "little"), int.from_bytes(fields[88:92], "little")
            smallest, largest = (int.from_bytes(fields[at : at + 4], "little") for at in (92, 96))
            return _AsfProperties(declared, largest, bool(flags & 1)) if smallest == largest > 0 else None
    return None


# --- FLV -------------------------------------------------------------------------------------------------------------


def check_flv(file: BinaryIO, size: int) -> None:
    """Tags follow one another to the end."""
    file.seek(5)
    position = int.from_bytes(file.read(4), "big") + 4
    while position < size:
        file.seek(position)
        head = file.read(11)
        if head[0] & 0x1F not in (8, 9, 18):
            if (head + file.read(_BLOCK)).strip(b"\0"):
                raise damaged(position, size)
            return  # filled up with zeros
        position += 15 + int.from_bytes(head[1:4], "big")  # with its length once more, behind it
        if position > size:
            raise early(size, position)


# --- PNG -------------------------------------------------------------------------------------------------------------


def check_png(file: BinaryIO, size: int) -> None:
    """Chunks and their checksums, to the last."""
    position, name = 8, b""
    while name != b"IEND":
        file.seek(position)
        head = file.read(8)
        length, name = int.from_bytes(head[:4], "big"), head[4:]
        if position + 12 + length > size:
            raise early(size, position + 12 + length)
        if _crc32(file, length, zlib.crc32(name)) != int.from_bytes(file.read(4), "big"):
            raise damaged(position, size)
        position += 12 + length
