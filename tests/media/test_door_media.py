"""The first door: media files. Each line of a table is a file and what is said of it, and no refusal costs much."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import clips
import needs
import numpy as np
import pyarrow as pa
import pytest
from clips import MPEG4, VP9, WIDTH, X264, X264_B, decoded, listed, make, noise
from looping import each
from media_files import LIVE, pictures

from perturbations.base import limits, storage
from perturbations.base.errors import MediaError
from perturbations.corpus.render.clean_clips import source_of
from perturbations.media import decoding, framefile, probing
from perturbations.media.clip import MediaClip
from perturbations.models.guides import frost_photographs

MOST_MIB, MOST_CPU_S = 300, 5  # of a child process, its imports in MiB but not in seconds; to refuse takes a tenth


@pytest.fixture(autouse=True)
def _own_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_current", limits.DEFAULTS)


# --- files that are broken -------------------------------------------------------------------------------------------

FASTSTART = (*X264_B, "-movflags", "+faststart")
AV1 = ("-c:v", "libaom-av1", "-cpu-used", "8")


def from_sound(path: Path, change: Callable[[Path, Path], Path], *output: str) -> Path:
    return change(make(path.with_name(f"sound{path.suffix}"), *output, frames=24, size=(160, 120)), path)


def turned(path: Path) -> Path:
    lying = make(path.with_name("lying.mp4"), *X264)
    return clips.copied(lying, path, inputs=("-display_rotation:v:0", "33"))


def half(source: Path, path: Path) -> Path:
    return clips.cut(source, path, 0.5)


def all_but_the_end(source: Path, path: Path) -> Path:
    return clips.cut(source, path, 0.98)


def a_third_lost(source: Path, path: Path) -> Path:
    return clips.overwritten(source, path, 0.4, 0.7)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing.mp4": (lambda path: None, "no such file"),
    "folder.mp4": (Path.mkdir, "not a regular file"),
    "fifo.mp4": (os.mkfifo, "not a regular file"),
    "file/below.mp4": (lambda path: path.parent.touch(), "cannot be read: Not a directory"),
    "zero.mp4": (Path.touch, "the file is empty"),
    "one-byte.mp4": (lambda path: path.write_text("x"), "cannot be decoded"),
    "zeros.mp4": (lambda path: path.write_bytes(bytes(5000)), "cannot be decoded"),
    "text.mp4": (lambda path: path.write_text("this is no video\n" * 99), "cannot be decoded"),
    "page.mp4": (lambda path: path.write_text("<!DOCTYPE html><html><body>404</body></html>"), "cannot be decoded"),
    "text.txt": (lambda path: path.write_text("this is no video\n" * 99), "not a video"),
    "subtitles.mp4": (lambda path: path.write_text("1\n00:00:00,000 --> 00:00:01,000\nhi\n"), "not a video"),
    "still.avif": (lambda path: make(path, *AV1, "-still-picture", "1", frames=1), "not a video: a picture"),
    "animated.avif": (lambda path: make(path, *AV1), "not a video: a picture, or an animation of pictures"),
    "oblique.mp4": (turned, "shows the picture oblique"),
    "sound.m4a": (clips.audio_only, "there is no video stream"),
    "cover.m4a": (lambda path: clips.with_cover(path, None), "there is no video stream"),
    "sizes.h264": (clips.of_two_sizes, "the frame size changes from 64x48 to 32x24 at frame 12"),
    "half-faststart.mp4": (lambda path: from_sound(path, half, *FASTSTART), "the file ends early"),
    "half.mp4": (lambda path: from_sound(path, half), "the file ends early"),
    "no-index.mp4": (lambda path: from_sound(path, all_but_the_end), "cannot be decoded|ends early|no video"),
    "half.mkv": (lambda path: from_sound(path, half, *X264_B), "the file ends early"),
    "half-live.mkv": (lambda path: from_sound(path, half, *LIVE), "the file ends early"),
    "half.avi": (lambda path: from_sound(path, half, *MPEG4), "the file ends early"),
    "damaged.mp4": (lambda path: from_sound(path, a_third_lost), "damaged|cannot be decoded|ends early"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_alone_is_quarantined(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_broken, reason = BROKEN[name]
    path, whole = tmp_path / name, make(tmp_path / "~whole.mp4", frames=2)
    make_broken(path)
    with pytest.raises(MediaError, match=reason) as caught:
        decoded(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 120
    assert capfd.readouterr() == ("", "")
    first, second = clips.source_rows("data", [listed(video, video.name) for video in (path, whole)])
    assert (first.item_id, first.status, first.stage) == (path.name, "quarantined", "source")
    assert first.error
    assert (second.item_id, second.status, second.frame_count) == (whole.name, "complete", 2)


@pytest.mark.parametrize("name", ["half-faststart.mp4", "half.mkv", "half.avi"])
def test_a_span_of_a_truncated_file_is_refused_too(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    BROKEN[name][0](path)
    with pytest.raises(MediaError, match="the file ends early"):
        decoded(path, start_s=0.04, end_s=0.9)


@pytest.mark.parametrize("first", [2, 10, 19])
def test_frames_that_an_index_names_are_missed(first: int, tmp_path: Path) -> None:
    whole = make(tmp_path / "whole.avi", "-c:v", "mjpeg", "-pix_fmt", "yuvj420p", frames=24).read_bytes()
    head, *chunks = whole.split(b"00dc")
    marks = [b"xxxx" if first <= index < first + 5 else b"00dc" for index in range(len(chunks))]
    path = tmp_path / "a.avi"
    path.write_bytes(head + b"".join(mark + chunk for mark, chunk in zip(marks, chunks, strict=True)))
    with pytest.raises(MediaError, match="the file is damaged: 19 of 24 indexed frames are found"):
        decoded(path)


@pytest.mark.skipif(os.geteuid() == 0, reason=needs.REASON + needs.NO_ROOT)
def test_a_file_without_permission_is_a_short_reason(tmp_path: Path) -> None:
    path = make(tmp_path / "a.mp4")
    path.chmod(0)
    with pytest.raises(MediaError, match="cannot be (read|decoded): Permission denied"):
        decoded(path)


@pytest.mark.parametrize("change", ["other", "damaged", "gone"])
def test_a_source_that_is_no_longer_what_it_was_is_refused(change: str, tmp_path: Path) -> None:
    path = make(tmp_path / "a.mp4")
    row = clips.source_row(path, bytes=path.stat().st_size)
    if change == "other":
        make(path, frames=5)
    elif change == "damaged":
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    else:
        path.unlink()
    with pytest.raises(MediaError, match="no such file" if change == "gone" else "its content changed"):
        source_of(row)


def test_a_source_that_grows_while_the_run_starts_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "a.mp4")
    with pytest.raises(MediaError, match="the file changed"):
        clips.source_row(path, bytes=path.stat().st_size - 1)


# --- files that libav opens ------------------------------------------------------------------------------------------


def listing(text: str, name: str) -> Callable[[Path], Path]:
    def maker(folder: Path) -> Path:
        make(folder / "other.ts", frames=2)
        (folder / name).write_text(text)
        return folder / name

    return maker


M3U8 = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:0.48,\n{}\n#EXT-X-ENDLIST\n"
SDP = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n"
MPD = (
    '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period><AdaptationSet>'
    '<Representation id="1" bandwidth="1"><BaseURL>other.ts</BaseURL></Representation></AdaptationSet></Period></MPD>'
)
OPENS_OTHERS = {
    "img%03d.mp4": lambda folder: pictures(folder, "img%03d.mp4", "img001.mp4", "img002.mp4"),
    "%d.mkv": lambda folder: pictures(folder, "%d.mkv", "1.mkv", "2.mkv"),
    "a picture called .mp4": lambda folder: pictures(folder, "a.mp4"),
    "playlist.m3u8": listing(M3U8.format("other.ts"), "playlist.m3u8"),
    "playlist.mp4": listing(M3U8.format("other.ts"), "playlist.mp4"),
    "playlist of addresses": listing(M3U8.format("http://127.0.0.1:9/x.ts"), "addresses.m3u8"),
    "list.ffconcat": listing("ffconcat version 1.0\nfile other.ts\n", "list.ffconcat"),
    "list.mp4": listing("ffconcat version 1.0\nfile other.ts\n", "list.mp4"),
    "a.mpd": listing(MPD, "a.mpd"),
    "a.sdp": listing(SDP, "a.sdp"),
    "a.idx": listing("# VobSub index file, v7 (do not modify this line!)\nid: en, index: 0\n", "a.idx"),
    "a.txt": listing("no video\n" * 9, "a.txt"),
    "a.svg": listing('<svg xmlns="http://www.w3.org/2000/svg"><image href="other.ts"/></svg>', "a.svg"),
}


@each("name", OPENS_OTHERS)
def test_what_makes_libav_open_other_files_is_refused(name: str, tmp_path: Path) -> None:
    path = OPENS_OTHERS[name](tmp_path)
    with pytest.raises(MediaError, match=r"not a video|cannot be decoded"):
        probing.probe(path)
    with pytest.raises(MediaError):
        decoded(path)


def alias(path: Path) -> bytes:
    """A QuickTime alias record that names another file."""
    name = str(path).encode()
    head = bytes(10) + bytes([1]) + b"v".ljust(27, b"\0") + bytes(12) + bytes([1]) + b"o".ljust(63, b"\0") + bytes(16)
    tail = (2).to_bytes(2, "big") + len(name).to_bytes(2, "big") + name + bytes(len(name) % 2)
    return head + (0).to_bytes(2, "big") * 2 + bytes(16) + tail + b"\xff\xff\0\0"


def test_a_movie_whose_samples_are_in_another_file_does_not_open_it(tmp_path: Path) -> None:
    other, path = make(tmp_path / "other.mov", frames=3), tmp_path / "a.mov"
    data = other.read_bytes()
    place = data.index(b"url \0\0\0\x01") - 4
    record = alias(other)
    entry = (12 + len(record)).to_bytes(4, "big") + b"alis" + bytes(4) + record
    data = bytearray(data[:place] + entry + data[place + 12 :])
    for box in (b"moov", b"trak", b"mdia", b"minf", b"dinf", b"dref"):
        at = data.rindex(box, 0, place) - 4
        data[at : at + 4] = (int.from_bytes(data[at : at + 4], "big") + len(entry) - 12).to_bytes(4, "big")
    start = data.index(b"mdat") + 4
    end = data.index(b"moov") - 4
    data[start:end] = bytes(end - start)  # nothing to decode but what the other file holds
    path.write_bytes(data)
    with pytest.raises(MediaError):
        decoded(path)


# --- files that ask for more than the limits -------------------------------------------------------------------------


def gif(path: Path, width: int, height: int, frames: int) -> Path:
    """A GIF that declares a screen of any size, with images of one pixel."""
    screen = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    image = b"\x21\xf9\x04\x00\x04\x00\x00\x00\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x4c\x01\x00"
    path.write_bytes(screen + frames * image + b";")
    return path


def png(width: int, height: int) -> bytes:
    """A PNG that declares a size and holds no pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


_CHILD = """
import re, resource, sys
from pathlib import Path
from perturbations.media import decoding, framefile, probing
from perturbations.media.clip import MediaClip
from perturbations.base.errors import MediaError

ways = {
    "framefile": framefile.read,
    "probe": probing.probe,
    "decode": lambda path: [None for _ in decoding.decode(MediaClip(path))],
}
before = resource.getrusage(resource.RUSAGE_SELF)
for path in map(Path, sys.argv[2:]):
    try:
        ways[sys.argv[1]](path)
    except MediaError as error:
        print(error)
usage = resource.getrusage(resource.RUSAGE_SELF)
peak_kib = usage.ru_maxrss
if Path("/proc/self/status").exists():  # there, ru_maxrss is at least what the parent had when it started us
    (peak_kib,) = re.findall(r"VmHWM:\\s*([0-9]+) kB", Path("/proc/self/status").read_text())
print(int(peak_kib) / 1024, usage.ru_utime + usage.ru_stime - before.ru_utime - before.ru_stime)
"""


def refused(way: str, *paths: Path) -> list[str]:
    """The reasons; fails where refusing all of them took much memory or time."""
    command = [sys.executable, "-c", _CHILD, way, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    *reasons, used = done.stdout.splitlines()
    memory_mib, cpu_s = map(float, used.split())
    assert memory_mib < MOST_MIB
    assert cpu_s < MOST_CPU_S
    return reasons


ASKING: list[tuple[tuple[int, int], int, str]] = [
    ((16_000, 16_000), 1, "a frame of 16000x16000 has 256,000,000 pixels; limits.frame_pixels allows 40,000,000"),
    ((65_535, 65_535), 1, "limits.frame_pixels allows"),
    ((8_000, 8_000), 200, "a frame of 8000x8000 has 64,000,000 pixels; limits.frame_pixels allows 40,000,000"),
    ((1, 1), 1_000_000, "the file has 1,000,000 frames or more; limits.frames allows 500,000"),
]


@pytest.mark.parametrize(("way", "asking"), [("probe", ASKING[:3]), ("decode", ASKING)])  # a GIF declares no frames
def test_small_files_that_ask_for_much_cost_little(
    way: str, asking: list[tuple[tuple[int, int], int, str]], tmp_path: Path
) -> None:
    paths = [gif(tmp_path / f"{place}.gif", *size, frames) for place, (size, frames, _) in enumerate(asking)]
    for message, (_, _, reason) in zip(refused(way, *paths), asking, strict=True):
        assert reason in message


WAYS: dict[str, Callable[[Path], object]] = {
    "probe": probing.probe,
    "decode": decoded,
    "span": lambda path: decoded(path, start_s=0.1, end_s=0.2),
    "frame_times": lambda path: decoding.frame_times(MediaClip(path), 12),
    "pick": lambda path: list(decoding.pick(path, [0])),
    "is_constant_rate": probing.is_constant_rate,
    "video_bitrate": probing.video_bitrate,
}
TOO_MUCH = [
    ({"frame_pixels": 3071}, "a frame of 64x48 has 3,072 pixels; limits.frame_pixels allows 3,071"),
    ({"frames": 39}, "the file has 40 frames or more; limits.frames allows 39"),
    ({"seconds": 1}, "the file is 2 s long or more; limits.seconds allows 1"),
]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("limits") / "a.mp4", frames=40)


@each("way", WAYS)
@each(("allowed", "reason"), TOO_MUCH)
def test_no_way_leads_around_a_limit(way: str, allowed: dict[str, int], reason: str, clip: Path) -> None:
    limits.use(allowed)
    with pytest.raises(MediaError) as caught:
        WAYS[way](clip)
    assert str(caught.value) == reason
    limits.use({"frame_pixels": 3072, "frames": 40, "seconds": 2})
    WAYS[way](clip)


@each("way", ["decode", "is_constant_rate"])
@each(("suffix", "output"), [("mkv", X264), ("webm", VP9), ("ts", X264), ("h264", X264)])
def test_frames_that_no_header_declares_are_counted(
    suffix: str, output: tuple[str, ...], way: str, tmp_path: Path
) -> None:
    path = make(tmp_path / f"a.{suffix}", *output, frames=40)
    limits.use({"frames": 39})
    with pytest.raises(MediaError, match=r"frames or more; limits\.frames allows 39"):
        WAYS[way](path)
    limits.use({"frames": 40})
    WAYS[way](path)


def test_a_decoder_that_keeps_many_frames_needs_more_memory(tmp_path: Path) -> None:
    predicted = make(tmp_path / "a.mp4", size=(640, 480))
    alone = make(tmp_path / "a.avi", "-c:v", "mjpeg", "-pix_fmt", "yuvj420p", size=(640, 480))
    limits.use({"decode_mib": 7})
    decoded(alone)
    with pytest.raises(MediaError, match=r"decoding frames of 640x480 takes 11 MiB; limits\.decode_mib allows 7"):
        decoded(predicted)


def test_a_frame_that_becomes_too_large_later_is_refused(tmp_path: Path) -> None:
    small, large = make(tmp_path / "small.h264"), make(tmp_path / "large.h264", size=(2 * WIDTH, 96))
    path = tmp_path / "both.h264"
    path.write_bytes(small.read_bytes() + large.read_bytes())
    with pytest.raises(MediaError, match="the frame size changes from 64x48 to 128x96"):
        decoded(path)
    limits.use({"frame_pixels": 5000})
    with pytest.raises(MediaError, match="cannot be decoded"):  # before there is such a frame
        decoded(path)


def test_an_item_that_is_refused_is_quarantined_with_the_key(clip: Path) -> None:
    limits.use({"frames": 39})
    (row,) = clips.source_rows("data", [listed(clip)])
    assert (row.status, row.error) == ("quarantined", TOO_MUCH[1][1])


# --- frame files, and pictures of styles and frost --------------------------------------------------------------------


def header(shape: str, dtype: str = "|u1", version: bytes = b"\x01\x00") -> bytes:
    """What `numpy.save` puts before an array."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + version + struct.pack("<H" if version == b"\x01\x00" else "<I", len(text)) + text


NAME = header("()", "<U4") + "left".encode("utf-32-le")
FRAME_FILES = {
    "many": (NAME + header("(4096, 4320, 7680, 3)"), "limits.decode_mib allows 4,096"),
    "large": (NAME + header("(1, 8000, 8000, 3)"), "limits.frame_pixels allows 40,000,000"),
    "negative": (NAME + header("(-1, 8, 8, 3)"), "not uint8 of shape"),
    "other type": (NAME + header("(1, 8, 8, 3)", "<f8") + bytes(8 * 192), "not float64 of shape"),
    "objects": (NAME + header("(1, 8, 8, 3)", "|O") + bytes(192), "not the frames that this program writes"),
    "flat": (NAME + header("(192,)") + bytes(192), "not uint8 of shape"),
    "long name": (header("()", "<U400000000") + bytes(9), "does not begin with the name"),
    "other version": (header("()", "<U4", b"\x02\x00"), "not the frames that this program writes"),
    "longer": (NAME + header("(1, 8, 8, 3)") + bytes(193), "something follows the frames"),
    "shorter": (NAME + header("(12, 1080, 1920, 3)") + bytes(192), "the file ends early"),
}


def test_frame_files_that_ask_for_much_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.npy.zst" for name in FRAME_FILES]
    for path, (data, _) in zip(paths, FRAME_FILES.values(), strict=True):
        path.write_bytes(pa.Codec("zstd").compress(data, asbytes=True))
    # One that decompresses to much is not read to its end.
    with pa.output_stream(str(tmp_path / "endless.npy.zst"), compression="zstd") as stream:
        stream.write(NAME + header("(1, 8, 8, 3)"))
        for _ in range(512):
            stream.write(bytes(1 << 20))
    assert (tmp_path / "endless.npy.zst").stat().st_size < 1 << 20
    messages = refused("framefile", *paths, tmp_path / "endless.npy.zst")
    expected = [*(reason for _, reason in FRAME_FILES.values()), "something follows the frames"]
    for message, reason in zip(messages, expected, strict=True):
        assert reason in message


def test_a_frame_file_of_another_shape_than_its_row_is_refused(tmp_path: Path) -> None:
    framefile.write(tmp_path / "a.npy.zst", noise(3))
    assert np.array_equal(framefile.read(tmp_path / "a.npy.zst", (3, 48, 64)), noise(3))
    with pytest.raises(MediaError, match="4 x 48 x 64 frames are expected, not 3 x 48 x 64"):
        framefile.read(tmp_path / "a.npy.zst", (4, 48, 64))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        *((png(side, side), r".*pixels.*limits\.frame_pixels") for side in (7000, 12_000, 60_000)),
        (b"no image", " cannot be read"),
    ],
)
def test_an_image_of_too_many_pixels_or_none_is_a_reason(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(data)
    with pytest.raises(MediaError, match=rf"the frost image .*a\.png{reason}"):
        frost_photographs.photograph(storage.sha256(path), str(path))


@pytest.mark.parametrize(
    "data", [b"", b"no zstd", b"\x28\xb5\x2f\xfd" + bytes(50), pa.compress(b"no arrays", "zstd", asbytes=True)]
)
def test_what_is_no_frame_file_cannot_be_read(data: bytes, tmp_path: Path) -> None:
    path, whole = tmp_path / "x.npy.zst", tmp_path / "whole.npy.zst"
    framefile.write(whole, noise(3))
    cuts = [whole.read_bytes()[: whole.stat().st_size * percent // 100] for percent in range(1, 100, 7)]
    for content in (data, *cuts):
        path.write_bytes(content)
        with pytest.raises(MediaError, match=r"x\.npy\.zst cannot be read"):
            framefile.read(path)
