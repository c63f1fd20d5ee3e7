"""Files that were cut short or damaged are refused; intact files, streamed ones too, are read whole."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from clips import (
    MPEG4,
    RATE,
    VP9,
    X264_B,
    copied,
    decoded,
    ffmpeg,
    ffmpeg_frames,
    images,
    make,
    times,
)
from media_files import HEVC, MJPEG, MPEG1, MPEG2, refused

from perturbations.base.errors import MediaError
from perturbations.media import probing

WMV, FLV = ("-c:v", "wmv2", "-q:v", "3"), ("-c:v", "flv", "-q:v", "3")
# Theora has packets of no bytes for what does not change.
THEORA = ("-c:v", "libtheora", "-q:v", "6", "-vf", "noise=alls=20:all_seed=1:allf=t")
SOUND = ("-f", "lavfi", "-i", "sine=frequency=440:duration=0.96")

# name: ffmpeg's name of the container, arguments of the video, arguments of a sound beside it
CONTAINERS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "h264.mp4": ("mp4", (*X264_B, "-movflags", "+faststart"), ("-c:a", "aac")),
    "fragments.mp4": ("mp4", (*X264_B, "-movflags", "+frag_keyframe+empty_moov"), ("-c:a", "aac")),
    "mpeg4.mov": ("mov", MPEG4, ()),
    "h264.mkv": ("matroska", X264_B, ("-c:a", "aac")),
    "ffv1.mkv": ("matroska", ("-c:v", "ffv1", "-level", "3", "-g", "1"), ()),
    "vp9.webm": ("webm", VP9, ()),
    "vp8.webm": ("webm", ("-c:v", "libvpx", "-auto-alt-ref", "1", "-lag-in-frames", "8"), ()),
    "mpeg4.avi": ("avi", MPEG4, ("-c:a", "mp2")),
    "mjpeg.avi": ("avi", MJPEG, ()),
    "mpeg1.mpg": ("mpeg", MPEG1, ("-c:a", "mp2")),
    "mpeg1.vcd": ("vcd", MPEG1, ("-c:a", "mp2")),
    "mpeg2.vob": ("vob", MPEG2, ("-c:a", "mp2")),
    "h264.ts": ("mpegts", X264_B, ("-c:a", "aac")),
    "mpeg2.ts": ("mpegts", MPEG2, ("-c:a", "mp2")),
    "h264.m2ts": ("mpegts", (*X264_B, "-mpegts_m2ts_mode", "1"), ("-c:a", "aac")),
    "flv1.flv": ("flv", FLV, ()),
    "h264.flv": ("flv", X264_B, ("-c:a", "aac")),
    "wmv2.wmv": ("asf", WMV, ("-c:a", "wmav2")),
    "theora.ogv": ("ogg", THEORA, ("-c:a", "flac")),
    "picture.gif": ("gif", ("-c:v", "gif"), ()),
    "picture.apng": ("apng", ("-c:v", "apng"), ()),
}
# A writer that cannot go back leaves AVI and MP4 without their index.
STREAMED = [name for name in CONTAINERS if not name.endswith((".mov", "h264.mp4"))]
# Only libav reports damage in these: it may read on behind it, and misses an end of less than a second.
REPORTED = ["flv1.flv", "h264.flv", "picture.apng"]
# Others, such as GIF, and transport and program streams, do not say how long they are.
CUTS = ["h264.mp4", "mpeg4.mov", "h264.mkv", "ffv1.mkv", "vp9.webm", "vp8.webm", "mpeg4.avi", "mjpeg.avi"]
CUTS += ["fragments.mp4", "theora.ogv", "wmv2.wmv"]


def whole(folder: Path, name: str, *, sound: bool = False, frames: int = 24) -> Path:
    """A sound file."""
    container, video, audio = CONTAINERS[name]
    inputs, audio = (SOUND, audio) if sound else ((), ("-an",))
    return make(folder / name, *video, *audio, "-f", container, frames=frames, inputs=inputs)


def changed(path: Path, change: Callable[[bytes], bytes]) -> Path:
    """A file beside it, of other bytes."""
    other = path.with_name(f"changed-{path.name}")
    other.write_bytes(change(path.read_bytes()))
    return other


def shorter(path: Path) -> bool:
    """Whether a file of 24 frames passes for a shorter one; what it lost may not have been of a frame."""
    try:
        return len(decoded(path)) < 24
    except MediaError:
        return False


# --- sound files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_sound_file_is_read_whole(name: str, tmp_path: Path) -> None:
    """Also with a sound beside the picture, and where its writer could not go back."""
    container, video, audio = CONTAINERS[name]
    assert len(decoded(whole(tmp_path, name))) == 24
    if audio:
        path = whole(tmp_path, name, sound=True)
        probing.probe(path)
        assert len(decoded(path)) == 24
    if name in STREAMED:
        source = ("-f", "lavfi", "-i", f"testsrc2=size=64x48:rate={RATE}")
        path = tmp_path / name
        path.write_bytes(ffmpeg(*source, *video, "-frames:v", "24", "-f", container, "-"))
        assert len(decoded(path)) == 24


@pytest.mark.parametrize("name", ["theora.ogv", "picture.gif", "picture.apng", "flv1.flv"])
def test_zeros_behind_the_end_do_no_harm(name: str, tmp_path: Path) -> None:
    assert len(decoded(changed(whole(tmp_path, name), lambda data: data + bytes(3000)))) == 24


# --- files cut short, and filled up ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CUTS)
def test_what_is_cut_filled_with_zeros_or_lacks_a_block_does_not_pass_for_a_clip(name: str, tmp_path: Path) -> None:
    path = whole(tmp_path, name)
    data = path.read_bytes()
    size = len(data)
    # Odd lengths, as no boundary of packets and sectors is.
    damaged = [data[: size * percent // 100 | 1] for percent in range(3, 98, 4)]
    damaged += [data[: size * percent // 100 | 1].ljust(size, b"\0") for percent in range(10, 90, 10)]
    rng = random.Random(0)
    starts = [rng.randrange(size) for _ in range(12)]
    damaged += [data[:start] + data[start + 701 :] for start in starts]
    for other in damaged:
        path.write_bytes(other)
        assert not shorter(path)


@pytest.mark.parametrize("name", REPORTED)
def test_a_part_of_a_file_is_refused(name: str, tmp_path: Path) -> None:
    path = whole(tmp_path, name, sound=name == "h264.flv", frames=75)
    for percent in (11, 33, 55):
        refused(changed(path, lambda data, percent=percent: data[: len(data) * percent // 100]))  # type: ignore[misc]


def with_another_bit(data: bytes) -> bytes:
    at = len(data) * 2 // 3
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


# --- Matroska, MP4, FLV, MPEG -----------------------------------------------------------------------------------


def test_a_checksum_that_differs_or_half_a_cluster_is_refused(tmp_path: Path) -> None:
    assert "a checksum differs" in refused(changed(whole(tmp_path, "ffv1.mkv"), with_another_bit))
    source = make(tmp_path / "a.ogv", *THEORA, "-page_duration", "40000", frames=24)
    assert "CRC mismatch" in refused(changed(source, with_another_bit))
    path = make(tmp_path / "live.webm", *VP9, "-live", "1", frames=24)
    data = path.read_bytes()
    start = data.rindex(b"\xa3")  # where a block may end
    for end in [at for at in range(start - 2000, start) if data[at : at + 1] == b"\xa3"]:
        assert len(decoded(path)) == 24
        refused(changed(path, lambda data, end=end: data[:end]))  # type: ignore[misc]


def test_files_that_are_cut_or_in_which_another_begins_are_refused(tmp_path: Path) -> None:
    path = whole(tmp_path, "fragments.mp4")
    at = path.read_bytes().rindex(b"moof")
    assert "the file ends early" in refused(changed(path, lambda data: data[: at + 20]))
    path = whole(tmp_path, "h264.ts")
    size = path.stat().st_size
    shorter = changed(path, lambda data: data[:-1])
    assert refused(shorter) == f"the file ends early: {size - 1} of {size} declared bytes"
    other = whole(tmp_path, "flv1.flv").read_bytes()
    path = whole(tmp_path, "h264.flv", sound=True, frames=75)  # longer than what libav looks at in advance
    assert "another stream begins" in refused(changed(path, lambda data: data + other[13:]))


@pytest.mark.parametrize("lost", [1, 7, 187, 188, 189])
@pytest.mark.parametrize("name", ["h264.ts", "mpeg2.ts", "h264.m2ts"])
def test_packets_of_a_transport_stream_follow_one_another(name: str, lost: int, tmp_path: Path) -> None:
    path = whole(tmp_path, name)
    packet = 192 if name.endswith("m2ts") else 188
    start = path.stat().st_size // 2 // packet * packet + 4
    refused(changed(path, lambda data: data[:start] + data[start + lost :]))


@pytest.mark.parametrize("name", ["mjpeg.avi", "mpeg1.mpg", "flv1.flv"])
def test_a_decoder_that_makes_up_pixels_says_so(name: str, tmp_path: Path) -> None:
    """Overwritten in the middle, a file of these has a place where its bits mean nothing."""
    path = whole(tmp_path, name)
    for seed in range(4):
        noise = random.Random(seed).randbytes(1500)
        at = path.stat().st_size * (3 + seed) // 10
        refused(changed(path, lambda data, at=at, noise=noise: data[:at] + noise + data[at + 1500 :]))  # type: ignore[misc]


# --- cuts, joins, clocks ---------------------------------------------------------------------------------------------

OPEN = ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-x264-params", "open-gop=1:keyint=14:bframes=3:ref=4:scenecut=0")
REFRESH = ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-x264-params", "intra-refresh=1:keyint=14:bframes=0")
CUT: dict[str, tuple[str, ...]] = {
    **{f"h264.{suffix}": OPEN for suffix in ("mp4", "mkv", "mov", "flv")},
    **{f"hevc.{suffix}": HEVC for suffix in ("mp4", "mkv", "ts")},
    **{f"mpeg2.{suffix}": (*MPEG2, "-g", "12") for suffix in ("mkv", "ts", "mp4")},
    "mpeg4.mp4": (*MPEG4, "-bf", "2", "-g", "12"),
    "vp9.webm": (*VP9, "-g", "14"),
    "refresh.mkv": REFRESH,
}


def equals_ffmpeg(path: Path) -> int:
    """The number of frames, which are those of the ffmpeg program."""
    frames = images(path)
    assert np.array_equal(frames, ffmpeg_frames(path))
    return len(frames)


def long_clip(folder: Path, *video: str) -> Path:
    return make(folder / "original.mkv", *video, frames=56)


@pytest.mark.parametrize("start", ["0.7", "1.1", "1.4"])
@pytest.mark.parametrize("name", CUT)
def test_a_cut_by_stream_copy_gives_the_frames_of_ffmpeg(name: str, start: str, tmp_path: Path) -> None:
    """Behind a cut, decoders miss pictures that no picture of the clip needs."""
    path = copied(long_clip(tmp_path, *CUT[name]), tmp_path / name, inputs=("-ss", start))
    assert equals_ffmpeg(path) >= 14


def test_a_cut_that_begins_before_its_first_whole_picture_says_so(tmp_path: Path) -> None:
    path = copied(long_clip(tmp_path, *REFRESH), tmp_path / "a.mp4", inputs=("-ss", "0.56"))
    assert re.fullmatch(r"the file begins late: \d+ of \d+ declared frames", refused(path))


@pytest.mark.parametrize("kind", [0, 1, 4, 5])
@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_a_supplemental_message_of_a_wrong_length_does_no_harm(kind: int, suffix: str, tmp_path: Path) -> None:
    path = make(tmp_path / f"a.{suffix}", *X264_B, frames=24)
    whole, data = images(path), path.read_bytes()
    message = data.index(b"\x06\x05\xff\xff")  # x264's own: a type and a length
    if suffix == "mkv":  # whose checksums would show the change
        path = make(tmp_path / "a.h264", *X264_B, "-f", "h264", frames=24)
        data = path.read_bytes()
        message = data.index(b"\x06\x05\xff\xff")
    path.write_bytes(
        data[: message + 1] + bytes([kind]) + data[message + 2 : message + 4] + b"\xf0" + data[message + 5 :]
    )
    assert path.read_bytes() != data
    assert np.array_equal(images(path), whole)


@pytest.mark.parametrize("video", [X264_B, OPEN, HEVC, MPEG2], ids=["h264", "open", "hevc", "mpeg2"])
def test_transport_streams_one_behind_the_other_are_one_clip(video: tuple[str, ...], tmp_path: Path) -> None:
    part = copied(long_clip(tmp_path, *video), tmp_path / "a.ts").read_bytes()
    path = tmp_path / "b.ts"
    path.write_bytes(part + part)
    assert equals_ffmpeg(path) == 112
    steps = {later - before for before, later in itertools.pairwise(times(path))}
    assert max(steps) - min(steps) <= Fraction(1, 1000)
    with pytest.raises(MediaError, match="damaged"):  # the same place, and packets lost before it
        path.write_bytes(part[: -188 * 3] + part[188 * 5 :])
        decoded(path)


@pytest.mark.parametrize("offset", ["95441.5", "95443.2", "95443.7"])
def test_the_clock_of_a_transport_stream_may_begin_again(offset: str, tmp_path: Path) -> None:
    path = copied(long_clip(tmp_path, *X264_B), tmp_path / "a.ts", "-output_ts_offset", offset, "-muxdelay", "0")
    assert equals_ffmpeg(path) == 56
    steps = {later - before for before, later in itertools.pairwise(times(path))}
    assert steps == {1 / RATE}


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_a_picture_that_is_missing_within_is_not_a_cut(suffix: str, tmp_path: Path) -> None:
    source = long_clip(tmp_path, *OPEN)
    for first in (17, 30, 44):  # more than one, so that others refer to them
        lost = copied(source, tmp_path / f"a.{suffix}", "-bsf:v", f"noise=drop=between(n\\,{first}\\,{first + 3})")
        refused(lost)
