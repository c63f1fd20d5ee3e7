"""What a file proves of itself: a damaged one is refused or gives the whole one's pictures, an unusual one is taken."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from clips import MPEG4, RATE, VP9, X264_B, copied, decoded, ffmpeg, images, make

from perturbations.base.errors import MediaError
from perturbations.media import containers

THEORA = ("-c:v", "libtheora", "-q:v", "6", "-page_duration", "200000", "-vf", "noise=alls=20:all_seed=1:allf=t")
HEVC = ("-c:v", "libx265", "-x265-params", "log-level=none", "-pix_fmt", "yuv420p", "-g", "12")
SLICES = ("-c:v", "libx265", "-x265-params", "log-level=none:slices=2", "-g", "12")
SMALL_CLUSTERS = ("-cluster_time_limit", "200")
FRAGMENTS = (*X264_B, "-movflags", "+frag_keyframe+empty_moov")
WMV, FLV = ("-c:v", "wmv2", "-q:v", "3"), ("-c:v", "flv", "-q:v", "3")
SOUND = ("-f", "lavfi", "-i", "sine=frequency=440:duration=2")
PACKET = 188

FILES: dict[str, tuple[str, ...]] = {
    "h264.mkv": (*X264_B, *SMALL_CLUSTERS),
    "huffyuv.mkv": ("-c:v", "huffyuv", *SMALL_CLUSTERS),
    "theora.ogv": THEORA,
    "wmv2.wmv": WMV,
    "index.mp4": FRAGMENTS,
    "segments.mp4": (*X264_B, "-movflags", "+dash+global_sidx+frag_keyframe+skip_trailer"),
    "bare.mp4": (*X264_B, "-movflags", "+frag_keyframe+empty_moov+skip_trailer"),
    "h264.ts": X264_B,
    "hevc.ts": HEVC,
    "slices.ts": SLICES,
    "h264.m2ts": (*X264_B, "-mpegts_m2ts_mode", "1", "-f", "mpegts"),
    "hevc.hevc": HEVC,
    "flv1.flv": FLV,
    "mpeg4.nut": MPEG4,
}


def whole(folder: Path, name: str) -> Path:
    return make(folder / name, *FILES[name], frames=24, size=(160, 128))


def places(data: bytes, count: int, behind: int = 0) -> list[int]:
    """Random places in a file; its first bytes, without which it is none, are not among them."""
    return random.Random(len(data)).sample(range(len(data) // 10, len(data) - behind), count)


def cut(data: bytes) -> Iterator[bytes]:
    yield from (data[:place] for place in [*places(data, 8), len(data) - 1, len(data) - 5])


def with_other_bits(data: bytes) -> Iterator[bytes]:
    for place in places(data, 12):
        yield data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]


def less(data: bytes) -> Iterator[bytes]:
    for count in (1, 16, PACKET, 701):
        yield from (data[:place] + data[place + count :] for place in places(data, 3, count))


def more(data: bytes) -> Iterator[bytes]:
    yield from (data[:place] + random.Random(place).randbytes(50) + data[place:] for place in places(data, 3))


def overwritten(data: bytes) -> Iterator[bytes]:
    for place in places(data, 4, 4000):
        yield data[:place] + random.Random(place).randbytes(4000) + data[place + 4000 :]


def without_a_packet(data: bytes) -> Iterator[bytes]:
    for place in range(4 * PACKET, len(data) - PACKET, PACKET):
        yield data[:place] + data[place + PACKET :]


def to_a_packet(data: bytes) -> Iterator[bytes]:
    yield from (data[:place] for place in range(len(data) // 4 // PACKET * PACKET, len(data), 3 * PACKET))


def to_half_a_packet(data: bytes) -> Iterator[bytes]:
    yield from (data[:place] for place in range(len(data) // 2 // 192 * 192 + 96, len(data), 2000 // 192 * 192))


def with_another_name(data: bytes) -> Iterator[bytes]:
    """A fragment's header has another name or size; without an index, what the first one begins is not known."""
    fragments = [place for place in range(len(data)) if data.startswith(b"moof", place)]
    for place in fragments[1 if data.find(b"mfra") < 0 and data.find(b"sidx") < 0 else 0 :]:
        yield data[: place + 3] + b"g" + data[place + 4 :]
        yield data[: place - 4] + bytes(3) + b"\3" + data[place:]
        yield data[: place - 2] + b"\xff" + data[place - 1 :]
        yield data[: place + 3] + b"g" + data[place + 4 :].replace(b"mdat", b"mdxt", 1)


DAMAGES: list[tuple[str, Callable[[bytes], Iterator[bytes]]]] = [
    *((name, damage) for name in ("h264.mkv", "huffyuv.mkv") for damage in (cut, with_other_bits, less, overwritten)),
    *(("theora.ogv", damage) for damage in (cut, with_other_bits, less, more, overwritten)),
    *(("wmv2.wmv", damage) for damage in (cut, less, more)),
    *(("flv1.flv", damage) for damage in (cut, less, more)),
    ("mpeg4.nut", more),
    *((name, damage) for name in ("index.mp4", "segments.mp4") for damage in (cut, less, more, with_another_name)),
    (
        "bare.mp4",
        lambda data: list(with_another_name(data))[::4],
    ),  # without a name for its media, it is of no known kind
    *((name, without_a_packet) for name in ("h264.ts", "hevc.ts")),
    ("h264.m2ts", to_half_a_packet),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGES, ids=lambda value: getattr(value, "__name__", value))
def test_no_damage_that_a_file_proves_is_shown(
    name: str, damage: Callable[[bytes], Iterator[bytes]], tmp_path: Path
) -> None:
    path = whole(tmp_path, name)
    data, right = path.read_bytes(), images(path)
    wrong = 0
    for other in damage(data):
        path.write_bytes(other)
        try:
            wrong += not np.array_equal(images(path), right)
        except MediaError as error:
            assert str(error)
    assert wrong == 0


@pytest.mark.parametrize(
    ("name", "damage"),
    [("hevc.ts", to_a_packet), ("slices.ts", to_a_packet), ("h264.ts", to_a_packet), ("hevc.hevc", cut)],
)
def test_a_picture_that_ends_early_is_not_shown(
    name: str, damage: Callable[[bytes], Iterator[bytes]], tmp_path: Path
) -> None:
    """Where no length is declared, a file may pass for a shorter one, but shows pictures of the whole one only."""
    path = whole(tmp_path, name)
    data, right = path.read_bytes(), {image.tobytes() for image in images(path)}
    for other in damage(data):
        path.write_bytes(other)
        try:
            shown = {image.tobytes() for image in images(path)}
        except MediaError:
            continue
        assert shown <= right


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("h264.mkv", with_other_bits, "the file is damaged: a checksum differs"),
        ("theora.ogv", with_other_bits, "a checksum differs|CRC mismatch"),
        ("theora.ogv", cut, "the file ends early: "),
        ("wmv2.wmv", cut, "the file ends early: "),
        ("index.mp4", with_another_name, "a part of the file is damaged or missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_the_reason_is_what_the_file_proves(
    name: str, damage: Callable[[bytes], Iterator[bytes]], reason: str, tmp_path: Path
) -> None:
    path = whole(tmp_path, name)
    path.write_bytes(next(iter(damage(path.read_bytes()))))
    with pytest.raises(MediaError, match=reason):
        decoded(path)


# --- unusual files ---------------------------------------------------------------------------------------------------


def box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), name) + content


def behind(rest: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data + rest


def streamed(container: str, *output: str) -> Callable[[bytes], bytes]:
    """The same by a writer that cannot go back."""
    source = ("-f", "lavfi", "-i", f"testsrc2=size=160x128:rate={RATE}")
    return lambda _: ffmpeg(*source, *SOUND, *output, "-frames:v", "24", "-shortest", "-f", container, "-")


def with_a_list_of_lists(data: bytes) -> bytes:
    """A `sidx` before another one, which it lists."""
    place = data.index(b"sidx") - 4
    (length,) = struct.unpack(">I", data[place : place + 4])
    fields = struct.pack(">IIIIIHHIII", 0, 1, 1000, 0, 0, 0, 1, 1 << 31 | length, 960, 0)
    return data[:place] + box(b"sidx", fields) + data[place:]


def packets_of(data: bytes) -> list[bytearray]:
    return [bytearray(data[place : place + PACKET]) for place in range(0, len(data), PACKET)]


def is_video(packet: bytes) -> bool:
    return (packet[1] & 31) << 8 | packet[2] == 256


def with_other_packets(data: bytes) -> bytes:
    """Packets of no stream, and those of the video that hold nothing but a clock, which are not counted."""
    packets = b""
    for packet in packets_of(data):
        packets += packet + b"\x47\x1f\xff\x10" + bytes(PACKET - 4)
        if is_video(packet):
            packets += bytes([0x47, 1, 0, 0x20 | packet[3] & 15, PACKET - 5, 0]) + b"\xff" * (PACKET - 6)
    return packets


def with_an_announced_gap(data: bytes) -> bytes:
    packets = packets_of(data)
    shift = 0
    for packet in packets[len(packets) // 2 :]:
        if is_video(packet):
            if not shift and packet[3] & 0x20 and packet[4]:
                shift, packet[5] = 5, packet[5] | 0x80
            packet[3] = packet[3] & 0xF0 | packet[3] + shift & 15
    assert shift
    return b"".join(packets)


def with_check_bytes(data: bytes) -> bytes:
    return b"".join(packet + bytes(16) for packet in packets_of(data))


def with_other_lengths(data: bytes) -> bytes:
    """An FLV of a writer who counts a tag without its header."""
    other = bytearray(data)
    place = 13
    while place < len(other):
        length = int.from_bytes(other[place + 1 : place + 4], "big")
        other[place + 11 + length : place + 15 + length] = length.to_bytes(4, "big")
        place += 15 + length
    return bytes(other)


UNUSUAL: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "streamed.mkv": ("h264.mkv", streamed("matroska", *X264_B)),
    "streamed.webm": ("h264.mkv", streamed("webm", *VP9, *SMALL_CLUSTERS)),
    "live.mkv": ("h264.mkv", streamed("matroska", *X264_B, "-live", "1")),
    "zeros-behind.mkv": ("h264.mkv", lambda _: streamed("matroska", *X264_B, "-live", "1")(b"") + bytes(4000)),
    "no-checksums.mkv": ("h264.mkv", streamed("matroska", *X264_B, "-write_crc32", "0")),
    "void.mkv": ("h264.mkv", streamed("matroska", *X264_B, "-reserve_index_space", "4000")),
    "behind.mkv": ("h264.mkv", behind(b"other data")),
    "sound.ogv": ("theora.ogv", streamed("ogg", *THEORA, "-c:a", "flac")),
    "pages.ogv": ("theora.ogv", streamed("ogg", *THEORA, "-an", "-page_duration", "1")),
    "behind.ogv": ("theora.ogv", behind(b"other data")),
    "broadcast.wmv": ("wmv2.wmv", streamed("asf", *WMV)),
    "no-index.wmv": ("wmv2.wmv", lambda data: data[: data.index(bytes.fromhex("90080033B1E5CF1189F400A0C90349CB"))]),
    "behind.wmv": ("wmv2.wmv", behind(b"other data")),
    "boxes.mp4": ("index.mp4", behind(box(b"free", bytes(99)) + box(b"abcd", b"other data"))),
    "behind.mp4": ("index.mp4", behind(b"\0\0\0\2 other data")),
    "moved.mp4": (
        "segments.mp4",
        lambda data: (at := data.index(b"sidx") - 4, data[:at] + box(b"abcd", b"x") + data[at:])[1],
    ),
    "packets.ts": ("h264.ts", with_other_packets),
    "announced.ts": ("h264.ts", with_an_announced_gap),
    "check-bytes.ts": ("h264.ts", with_check_bytes),
    "junk-before.ts": ("h264.ts", lambda data: b"junk" + data),
    "lengths.flv": ("flv1.flv", with_other_lengths),
    "streamed.flv": ("flv1.flv", streamed("flv", *FLV)),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_file_is_taken(name: str, tmp_path: Path) -> None:
    usual, change = UNUSUAL[name]
    path = tmp_path / name
    path.write_bytes(change(whole(tmp_path, usual).read_bytes()))
    assert len(decoded(path)) == 24
    assert len(decoded(path, start_s=0.4, end_s=0.8)) == 10


def test_a_list_of_segments_may_lie_in_another(tmp_path: Path) -> None:
    """FFmpeg does not read it."""
    path = whole(tmp_path, "segments.mp4")
    path.write_bytes(with_a_list_of_lists(path.read_bytes()))
    containers.check_length(path)


@pytest.mark.parametrize("parameters", ["slices=2", "hash=1", "aud=1:repeat-headers=1:bframes=0", "lossless=1:wpp=0"])
@pytest.mark.parametrize("suffix", ["ts", "hevc"])
def test_whole_last_pictures_are_known(parameters: str, suffix: str, tmp_path: Path) -> None:
    encoder = ("-c:v", "libx265", "-pix_fmt", "yuv420p", "-x265-params", f"log-level=none:{parameters}")
    for frames in (1, 15):
        assert len(decoded(make(tmp_path / f"a.{suffix}", *encoder, frames=frames, size=(160, 128)))) == frames
    cut_out = copied(
        make(tmp_path / "a.mkv", *encoder, frames=24, size=(160, 128)), tmp_path / f"b.{suffix}", "-t", "0.5"
    )
    assert decoded(cut_out)
