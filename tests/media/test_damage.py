"""A file is sound that gives its pictures, whatever a decoder says; a picture that is missing or wrong is damage."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
from clips import FRAMES, MPEG4, RATE, VP9, X264_B, copied, ffmpeg_frames, images, make
from media_files import HEVC, MJPEG, MPEG2, refused

from perturbations.media import probing

AV1 = ("-c:v", "libaom-av1", "-cpu-used", "8", "-g", "6", "-lag-in-frames", "6", "-pix_fmt", "yuv420p")
VP8 = ("-c:v", "libvpx", "-deadline", "realtime", "-pix_fmt", "yuv420p")

Edit = Callable[[int, bytes], list[bytes]]
"""From a packet and its place to the packets that take its place; the last one has its time."""


def packets(path: Path) -> list[av.Packet[av.VideoStream]]:
    with av.open(str(path)) as container:
        return [packet for packet in container.demux(video=0) if packet.size]


def edited(path: Path, edit: Edit, header: Callable[[bytes], bytes] = bytes) -> Path:
    """A copy of other packets. What is put before a packet has a time of its own."""
    other = path.with_name(f"edited-{path.name}")
    with av.open(str(path)) as container, av.open(str(other), "w") as writer:
        stream = container.streams.video[0]
        copy = writer.add_stream_from_template(stream, opaque=True)
        copy.codec_context.extradata = header(stream.codec_context.extradata or b"") or None
        assert stream.time_base is not None
        step = round(1 / (RATE * stream.time_base))
        old = packets(path)
        shown = sorted(packet.pts or 0 for packet in old)
        lag = max(time - (packet.pts or 0) for time, packet in zip(shown, old, strict=True))
        shift = latest = 0
        for place, (time, packet) in enumerate(zip(shown, old, strict=True)):
            parts = edit(place, bytes(packet))
            for data in parts:
                new = av.Packet(data)
                new.dts = time - lag + shift
                new.pts = (packet.pts or 0) + shift if data is parts[-1] else max(latest, new.dts)
                new.time_base, new.stream, new.duration = packet.time_base, copy, step
                new.is_keyframe = packet.is_keyframe and data is parts[-1]
                latest = max(latest, new.pts)
                shift += step if data is not parts[-1] else 0
                writer.mux(new)
    return other


def assert_sound(path: Path, whole: Path) -> None:
    assert np.array_equal(images(path), images(whole))
    assert probing.probe(path).width == 64


# --- units of H.264, HEVC, AV1 ---------------------------------------------------------------------------------------


def with_length(unit: bytes) -> bytes:
    return len(unit).to_bytes(4, "big") + unit


ABSENT_PPS = bytes([0x68, 0x30, 0xA7, 0x8F, 0x20])  # number 5, of a sequence 9 that is not there
UNITS: dict[str, dict[str, bytes]] = {
    "h264": {
        "message": bytes([6, 5, 18, *range(65, 83), 0x80]),
        "message of a wrong length": bytes([6, 1, 200, 1, 2]),
        "T.35, LCEVC": bytes.fromhex("060407b400500001020380"),
        "delimiter": b"\x09\xf0",
        "filler": b"\x0c" + 20 * b"\xff" + b"\x80",
        "parameter set": ABSENT_PPS,
    },
    "hevc": {
        "message": bytes([0x4E, 1, 5, 18, *range(65, 83), 0x80]),
        "T.35, HDR10+": bytes.fromhex("4e010408b5003c000104010280"),
        "delimiter": b"\x46\x01\x50",
        "filler": b"\x4c\x01" + 20 * b"\xff" + b"\x80",
        "parameter set": bytes.fromhex("440130afffff"),
        "reserved": b"\x52\x01abc",
    },
    "av1": {
        "reserved": bytes([9 << 3 | 2, 4, 1, 2, 3, 0x80]),
        "T.35, LCEVC": bytes([5 << 3 | 2, 7, 4, 0xB4, 0, 0x50, 0, 1, 0x80]),
        "light levels": bytes([5 << 3 | 2, 6, 1, 3, 0xE8, 1, 0x90, 0x80]),
    },
}
CODECS = {"h264": X264_B, "hevc": HEVC, "av1": AV1}


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
@pytest.mark.parametrize(("codec", "name"), [(codec, name) for codec, units in UNITS.items() for name in units])
def test_a_unit_that_no_picture_needs_does_no_harm(codec: str, name: str, suffix: str, tmp_path: Path) -> None:
    """Beside a picture, and as a sample of its own."""
    whole = make(tmp_path / f"a.{suffix}", *CODECS[codec])
    unit = UNITS[codec][name] if codec == "av1" else with_length(UNITS[codec][name])

    def beside(place: int, data: bytes) -> list[bytes]:
        sequence = 2 + data[1] if codec == "av1" and data[0] >> 3 == 1 else 0  # the header of a sequence is first
        return [data[:sequence] + unit + data[sequence:] if place % 3 == 0 else data]

    assert_sound(edited(whole, beside), whole)
    assert_sound(edited(whole, lambda place, data: [unit, data] if place in (4, 7) else [data]), whole)


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "flv"])
@pytest.mark.parametrize("bits", [1, 2, 5])
def test_a_header_that_ends_early_does_no_harm(bits: int, suffix: str, tmp_path: Path) -> None:
    def shorter(header: bytes) -> bytes:
        end = 8 + int.from_bytes(header[6:8], "big")
        coded = "".join(f"{byte:08b}" for byte in header[8:end]).rstrip("0")[: -1 - bits] + "1"
        data = int(coded.ljust(-(-len(coded) // 8) * 8, "0"), 2).to_bytes(-(-len(coded) // 8), "big")
        return header[:6] + len(data).to_bytes(2, "big") + data + header[end:]

    whole = make(tmp_path / f"a.{suffix}", *X264_B)
    other = edited(whole, lambda _, data: [data], shorter)
    assert other.read_bytes() != whole.read_bytes()
    assert_sound(other, whole)


PASSING = [("h264", 0x00), ("h264", 0x6A), ("h264", 0xE1), ("hevc", 0x43), ("hevc", 0x80)]


@pytest.mark.parametrize(("codec", "first"), PASSING)
def test_a_picture_whose_unit_passes_for_another_is_damage(codec: str, first: int, tmp_path: Path) -> None:
    def without(place: int, data: bytes) -> list[bytes]:
        return [data[:4] + bytes([first]) + data[5:] if place == 7 else data]

    refused(edited(make(tmp_path / "a.mp4", *CODECS[codec]), without))


def test_zeros_in_place_of_a_picture_of_av1_are_damage(tmp_path: Path) -> None:
    path = make(tmp_path / "a.mp4", *AV1)
    refused(edited(path, lambda place, data: [bytes(len(data)) if place == 7 else data]))


# --- Motion JPEG -----------------------------------------------------------------------------------------------------

EXIF = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0%c\0\0\0\0\0\0\0"
SEGMENTS = {
    "valid": (0xE1, EXIF % 1),
    "unreadable": (0xE1, EXIF.replace(b"II", b"XX") % 1),
    "short": (0xE1, b"Exif\0\0II"),
    "far": (0xE1, b"Exif\0\0II*\0\xff\xff\xff\x7f\x01\0"),
    "XMP": (0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>"),
    "colour profile": (0xE2, b"ICC_PROFILE\0\0\0abc"),
    "comment": (0xFE, b""),
}


def with_segment(path: Path, kind: int, content: bytes) -> Path:
    segment = bytes([0xFF, kind]) + (len(content) + 2).to_bytes(2, "big") + content
    return edited(path, lambda _, data: [data[:2] + segment + data[2:]])


@pytest.mark.parametrize("suffix", ["mov", "avi", "mkv"])
@pytest.mark.parametrize("name", SEGMENTS)
def test_what_cameras_write_into_motion_jpeg_does_no_harm(name: str, suffix: str, tmp_path: Path) -> None:
    whole = make(tmp_path / f"a.{suffix}", *MJPEG)
    assert_sound(with_segment(whole, *SEGMENTS[name]), whole)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_orientation_in_motion_jpeg_is_applied_as_by_ffmpeg(orientation: int, tmp_path: Path) -> None:
    path = with_segment(make(tmp_path / "a.mov", *MJPEG), 0xE1, EXIF % orientation)
    frames = images(path)
    assert np.array_equal(frames, ffmpeg_frames(path, (frames.shape[2], frames.shape[1])))


# --- invisible frames, IVF -------------------------------------------------------------------------------------------


def ivf(source: Path, fourcc: bytes, rate: int, tick: int, number: int, *, split: str = "") -> Path:
    """The packets of a file as IVF: `rate` ticks per second, one packet each `tick` ticks, `number` in the header."""
    parts = [bytes(packet) for packet in packets(source)]
    if split:
        with av.open(str(source)) as container:
            units = av.bitstream.BitStreamFilterContext(split, container.streams.video[0])
            parts = [bytes(part) for data in parts for part in units.filter(av.Packet(data))]
    header = struct.pack("<4sHH4sHHIIII", b"DKIF", 0, 32, fourcc, 64, 48, rate, 1, number, 0)
    frames = (struct.pack("<IQ", len(data), place * tick) + data for place, data in enumerate(parts))
    path = source.with_suffix(".ivf")
    path.write_bytes(header + b"".join(frames))
    return path


NUMBERS = {
    "frames": (25, 1, 12),
    "frames, a finer clock": (1000, 40, 12),
    "ticks": (1000, 40, 480),
    "many ticks": (90_000, 3600, 43_200),
    "none": (25, 1, 0),
    "a stream's": (25, 1, 0xFFFFFFFF),
}


@pytest.mark.parametrize(("fourcc", "video"), [(b"VP80", VP8), (b"VP90", VP9), (b"AV01", AV1)], ids=["8", "9", "av1"])
@pytest.mark.parametrize("number", NUMBERS)
def test_the_number_in_an_ivf_is_one_of_frames_or_of_ticks(
    number: str, fourcc: bytes, video: tuple[str, ...], tmp_path: Path
) -> None:
    whole = make(tmp_path / "a.mkv", *video)
    path = ivf(whole, fourcc, *NUMBERS[number])
    assert_sound(path, whole)
    if NUMBERS[number][2] in (0, 0xFFFFFFFF):
        return
    data = path.read_bytes()
    for left in (7, 11):
        end = 32
        for _ in range(left):
            end += 12 + int.from_bytes(data[end : end + 4], "little")
        path.write_bytes(data[:end])
        assert refused(path) == f"the file ends early: {left} of {NUMBERS[number][2]} declared frames"


@pytest.mark.parametrize("suffix", ["ivf", "avi", "webm"])
def test_a_frame_that_is_not_to_be_shown_is_not_missing(suffix: str, tmp_path: Path) -> None:
    def without(place: int, data: bytes) -> list[bytes]:
        return [bytes([data[0] & 0xEF]) + data[1:] if place == 5 else data]

    path = edited(make(tmp_path / "a.webm", *VP8), without)
    path = ivf(path, b"VP80", 25, 1, 12) if suffix == "ivf" else copied(path, tmp_path / f"b.{suffix}")
    assert np.array_equal(images(path), ffmpeg_frames(path))
    assert len(images(path)) == 11


def test_frames_of_av1_that_are_stored_one_by_one_are_all_shown(tmp_path: Path) -> None:
    whole = make(tmp_path / "a.mkv", *AV1, "-lag-in-frames", "12", "-vf", "noise=alls=20:all_seed=1:allf=t")
    path = ivf(whole, b"AV01", 25, 1, 0, split="av1_frame_split")
    assert len(packets(path)) > FRAMES
    assert_sound(path, whole)


# --- pictures that are missing or wrong, without a number ------------------------------------------------------------


def test_a_picture_that_a_decoder_does_not_know_as_such_is_missed(tmp_path: Path) -> None:
    def without(place: int, data: bytes) -> list[bytes]:
        return [data.replace(b"\0\0\1\0", b"\0\0\1\xb0") if place == 7 else data]

    assert "damaged" in refused(edited(make(tmp_path / "a.mkv", *MPEG2), without))


@pytest.mark.parametrize("suffix", ["avi", "mkv"])
def test_a_first_picture_that_refers_to_none_is_damage(suffix: str, tmp_path: Path) -> None:
    path = make(tmp_path / f"a.{suffix}", *MPEG4)
    refused(edited(path, lambda place, data: [data] if place else []))


def test_user_data_of_mpeg_does_no_harm(tmp_path: Path) -> None:
    caption = b"\0\0\1\xb2GA94\x03\xff"
    for name, video, before in (("a.ts", MPEG2, b"\0\0\1\1"), ("a.mp4", MPEG4, b"\0\0\1\xb6")):
        whole = make(tmp_path / name, *video)
        assert_sound(edited(whole, lambda _, data, at=before: [data.replace(at, caption + at, 1)]), whole)  # type: ignore[misc]
