"""A file that asks for more than the limits is refused before it takes anything, with the key in the reason."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from clips import DATASET, MPEG4, VP9, WIDTH, X264, decoded, listed, make, noise
from looping import each

from perturbations.base import limits, storage
from perturbations.base.errors import MediaError
from perturbations.base.limits import Limits
from perturbations.cli.main import main
from perturbations.config import file as config_file
from perturbations.engine import shards
from perturbations.guides import frost
from perturbations.media import decoding, framefile, probing
from perturbations.media.clip import MediaClip
from perturbations.plan import recipe

MOST_MIB, MOST_CPU_S = 300, 5  # of a child process, its imports in MiB but not in seconds; to refuse takes a tenth
CONFIG = {"datasets": {"demo": DATASET}, "suites": {"mlvp": {}}}


@pytest.fixture(autouse=True)
def _own_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_limits", [limits.DEFAULT])


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


@pytest.mark.parametrize("way", ["probe", "decode"])
def test_small_files_that_ask_for_much_cost_little(way: str, tmp_path: Path) -> None:
    paths = [gif(tmp_path / f"{place}.gif", *size, frames) for place, (size, frames, _) in enumerate(ASKING)]
    for message, (_, _, reason) in zip(refused(way, *paths), ASKING, strict=True):
        assert reason in message


# --- each limit, each way to open a file -----------------------------------------------------------------------------

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
    (Limits(frame_pixels=3071), "a frame of 64x48 has 3,072 pixels; limits.frame_pixels allows 3,071"),
    (Limits(frames=39), "the file has 40 frames or more; limits.frames allows 39"),
    (Limits(seconds=1), "the file is 2 s long or more; limits.seconds allows 1"),
]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("limits") / "a.mp4", frames=40)


@each("way", WAYS)
@each(("allowed", "reason"), TOO_MUCH)
def test_no_way_leads_around_a_limit(way: str, allowed: Limits, reason: str, clip: Path) -> None:
    limits.use(allowed)
    with pytest.raises(MediaError) as caught:
        WAYS[way](clip)
    assert str(caught.value) == reason
    limits.use(Limits(frame_pixels=3072, frames=40, seconds=2))
    WAYS[way](clip)


@each("way", ["probe", "decode", "is_constant_rate"])
@each(("suffix", "output"), [("mkv", X264), ("webm", VP9), ("ts", X264), ("h264", X264)])
def test_frames_that_no_header_declares_are_counted(
    suffix: str, output: tuple[str, ...], way: str, tmp_path: Path
) -> None:
    path = make(tmp_path / f"a.{suffix}", *output, frames=40)
    limits.use(Limits(frames=39))
    with pytest.raises(MediaError, match=r"frames or more; limits\.frames allows 39"):
        WAYS[way](path)
    limits.use(Limits(frames=40))
    WAYS[way](path)


def test_a_decoder_that_keeps_many_frames_needs_more_memory(tmp_path: Path) -> None:
    predicted = make(tmp_path / "a.mp4", size=(640, 480))
    alone = make(tmp_path / "a.avi", "-c:v", "mjpeg", "-pix_fmt", "yuvj420p", size=(640, 480))
    limits.use(Limits(decode_mib=7))
    decoded(alone)
    with pytest.raises(MediaError, match=r"decoding frames of 640x480 takes 11 MiB; limits\.decode_mib allows 7"):
        decoded(predicted)


def test_a_frame_that_becomes_too_large_later_is_refused(tmp_path: Path) -> None:
    small, large = make(tmp_path / "small.h264"), make(tmp_path / "large.h264", size=(2 * WIDTH, 96))
    path = tmp_path / "both.h264"
    path.write_bytes(small.read_bytes() + large.read_bytes())
    with pytest.raises(MediaError, match="the frame size changes from 64x48 to 128x96"):
        decoded(path)
    limits.use(Limits(frame_pixels=5000))
    with pytest.raises(MediaError, match="cannot be decoded"):  # before there is such a frame
        decoded(path)


def test_an_avi_that_could_not_go_back_to_its_header_is_read(tmp_path: Path) -> None:
    path = make(tmp_path / "a.avi", *MPEG4)
    whole = path.read_bytes()
    at = whole.index(b"strh") + 8 + 32  # the length in the stream's header, as ffmpeg leaves it in a pipe
    path.write_bytes(whole[:at] + struct.pack("<I", 1 << 30) + whole[at + 4 :])
    assert probing.probe(path).declared_frames is None
    assert len(decoded(path)) == 12


def test_an_item_that_is_refused_is_quarantined_with_the_key(clip: Path) -> None:
    limits.use(Limits(frames=39))
    (row,) = shards.run_sources("data", [listed(clip)], stall_limit_s=30)
    assert (row.status, row.error) == ("quarantined", TOO_MUCH[1][1])


# --- frame files -----------------------------------------------------------------------------------------------------


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
        frost.photograph(storage.sha256(path), str(path))


# --- where limits come from ------------------------------------------------------------------------------------------


def test_limits_have_the_defaults_of_the_package_and_are_in_no_recipe() -> None:
    section = config_file.parse(CONFIG).limits
    assert limits.parse(section.model_dump_json()) == limits.DEFAULT
    other = config_file.parse({**CONFIG, "limits": {"frames": 7, "decode_mib": 9}})
    assert other.limits.frames == 7
    texts = {recipe.from_config(parsed, "demo", "mlvp", "fog", 3).text for parsed in (config_file.parse(CONFIG), other)}
    assert len(texts) == 1
    assert "limits" not in texts.pop()


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ('{"frames": 0}', "limits.frames: a whole number above 0, not 0"),
        ('{"frames": true}', "limits.frames: a whole number above 0, not True"),
        ('{"frames": 1.5}', "limits.frames: a whole number above 0, not 1.5"),
        ('{"frame": 1}', "limits.frame: unknown key; known: frame_pixels, frames, seconds, decode_mib"),
        ("[]", "limits: a JSON object such as"),
        ("frames=1", "limits: a JSON object such as"),
    ],
)
def test_limits_of_a_command_are_checked(setting: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--limits", setting, "list"]) == 1
    assert reason in capsys.readouterr().err


def test_a_command_takes_limits_from_its_option(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    video = ["video", str(clip), str(tmp_path / "b.mp4"), "-p", "mlvp/fog", "-s", "1"]
    assert main(["--limits", '{"frames": 39}', *video]) == 1
    assert "limits.frames allows 39" in capsys.readouterr().err
    assert main(["--limits", '{"frames": 40}', *video]) == 0
