"""Encoding of each profile: what is kept, and what others read of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from clips import (
    FRAMES,
    HEIGHT,
    RATE,
    TIMING,
    WIDTH,
    X264,
    container_times,
    decoded,
    ffmpeg,
    ffmpeg_frames,
    images,
    make,
    noise,
    of_two_sizes,
    timed,
    times,
    written,
)
from media_files import VARIABLE

from perturbations.base.errors import MediaError
from perturbations.media import decoding, encoding, pixels, probing, profiles, quality
from perturbations.media.clip import Frame, Image, MediaClip, Timing

SIZES = [(48, 64), (53, 37), (16, 17), (2, 2)]


def encoded(path: Path, images: Image, profile: str, ticks: list[int] | None = None) -> str:
    return encoding.encode(timed(images, ticks), path, profiles.PROFILES[profile], TIMING)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("frames", [1, 7])
def test_lossless_is_exact(frames: int, size: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    clip = noise(frames, *size)
    assert encoded(path, clip, "lossless") == "rgb24"
    assert np.array_equal(images(path), clip)
    assert np.array_equal(ffmpeg_frames(path, size[::-1]), clip)


@pytest.mark.parametrize("profile", [name for name, held in profiles.PROFILES.items() if held.pixel_bits is None])
def test_times_are_kept(profile: str, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    encoded(path, noise(len(VARIABLE)), profile, VARIABLE)
    assert times(path) == container_times(path) == [tick / RATE for tick in VARIABLE]


@pytest.mark.parametrize("rate", [Fraction(30000, 1001), Fraction(15, 2), Fraction(1000)])
def test_frame_rates_are_kept(rate: Fraction, tmp_path: Path) -> None:
    path = written(tmp_path / "a.mp4", noise(5), timing=Timing(1 / rate, rate))
    assert times(path) == [index / rate for index in range(5)]
    assert probing.probe(path).frame_rate == rate
    for size in SIZES:
        timing = Timing(Fraction(1001, 120_000), Fraction(120_000, 1001))
        encoding.encode(timed(noise(3, *size)), path, profiles.PROFILES["released"], timing)
        assert images(path).shape == (3, *size, 3)


@pytest.mark.parametrize("size", SIZES[:-1])
def test_high_keeps_40_db_of_noise(size: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    clip = noise(7, *size)
    encoded(path, clip, "high")
    distortion = quality.Distortion(structural=False)
    for original, stored in zip(clip, images(path), strict=True):
        distortion.add(original, stored)
    assert distortion.psnr_db is not None
    assert 40 <= distortion.psnr_db < math.inf


@pytest.mark.parametrize(("size", "pix_fmt"), [((48, 64), "yuv420p"), ((53, 37), "yuv444p"), ((48, 37), "yuv444p")])
def test_compatible_is_what_players_play(size: tuple[int, int], pix_fmt: str, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    assert encoded(path, noise(7, *size), "compatible") == pix_fmt
    info = probing.probe(path)
    assert (info.codec, info.pix_fmt, info.width, info.height) == ("h264", pix_fmt, size[1], size[0])
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        assert (context.colorspace, context.color_range) == (5, 1)  # BT.601, limited


def test_compatible_keeps_colours(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    patches = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0), (12, 200, 99)]
    clip = np.stack([np.full((HEIGHT, WIDTH, 3), colour, np.uint8) for colour in patches])
    encoded(path, clip, "compatible")
    assert np.abs(images(path).astype(int) - clip).max() <= 6


@pytest.mark.parametrize("rate", [Fraction(25), Fraction(30000, 1001)])
@pytest.mark.parametrize("contrast", [0.1, 1.0])
def test_released_stores_as_opencv_does(rate: Fraction, contrast: float, tmp_path: Path) -> None:
    clip = (noise(30, 96, 128) * contrast).astype(np.uint8)
    theirs, ours = tmp_path / "theirs.mp4", tmp_path / "ours.mp4"
    writer = cv2.VideoWriter(str(theirs), cv2.VideoWriter.fourcc(*"mp4v"), float(rate), (128, 96))
    for image in clip:
        writer.write(cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
    writer.release()
    timing = Timing(1 / rate, rate)
    encoding.encode(timed(clip, [0, *range(100, 129)]), ours, profiles.PROFILES["released"], timing)
    # Bit by bit with the same libavcodec; the tolerance is for another.
    stored, expected = images(ours), images(theirs)
    assert abs(cv2.PSNR(stored, clip) - cv2.PSNR(expected, clip)) < 0.1
    assert cv2.PSNR(stored, expected) > 45
    assert cv2.PSNR(stored, clip) < 38
    assert probing.probe(ours).frame_rate == probing.probe(theirs).frame_rate
    assert [round(time * rate) for time in times(ours)] == list(range(30))


@pytest.mark.parametrize("profile", profiles.PROFILES)
def test_encoding_again_gives_the_same_bytes_and_leaves_the_frames_alone(profile: str, tmp_path: Path) -> None:
    clip = noise(FRAMES)
    for name in ("one.mp4", "two.mp4"):
        encoded(tmp_path / name, clip, profile)
    assert (tmp_path / "one.mp4").read_bytes() == (tmp_path / "two.mp4").read_bytes()
    assert np.array_equal(clip, noise(FRAMES))


def test_no_frames_are_an_error_and_a_source_that_fails_is_the_reason_not_ffmpeg(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="no frame to encode"):
        encoding.encode([], tmp_path / "a.mp4", profiles.PROFILES["high"], TIMING)
    with pytest.raises(MediaError, match="ffmpeg failed"):
        by_ffmpeg(tmp_path / "a.mp4", [], **H264)
    frames = decoding.decode(MediaClip(of_two_sizes(tmp_path / "sizes.ts")))
    with pytest.raises(MediaError, match="the frame size changes"):
        by_ffmpeg(tmp_path / "a.mp4", frames, **H264)


H264 = {"vcodec": "libx264", "preset": "veryfast", "threads": 1, "fflags": "+bitexact", "flags:v": "+bitexact"}


def by_ffmpeg(path: Path, frames: Iterable[Frame], size: tuple[int, int] = (WIDTH, HEIGHT), **arguments: Any) -> Path:
    encoding.encode_with_ffmpeg(frames, path, TIMING, size, "rgb24", arguments)
    return path


@pytest.mark.parametrize(("fed", "stored"), [("rgb24", "yuv444p"), ("yuv420p", "yuv420p")])
def test_the_bitrate_is_real(fed: str, stored: str, tmp_path: Path) -> None:
    still = noise(1, HEIGHT, 2 * WIDTH)[0] // 4
    panned = np.stack([np.roll(still, index, axis=1)[:, :WIDTH] for index in range(100)]) + noise(100) // 8
    noisy = written(tmp_path / "noisy.mp4", panned)
    source = tmp_path / "source.mp4"
    ffmpeg("-i", str(noisy), *X264, "-qp", "4", str(source))
    for bitrate in (100_000, 400_000):
        path = tmp_path / f"{bitrate}.mp4"
        frames = decoding.decode(MediaClip(source))
        if fed == "yuv420p":
            to_planes = pixels.to_planes()
            frames = (frame._replace(image=to_planes(frame.image)) for frame in frames)
        timing = Timing(probing.probe(source).time_base, RATE)
        arguments = {**H264, "video_bitrate": bitrate, "pix_fmt": stored}
        encoding.encode_with_ffmpeg(frames, path, timing, (WIDTH, HEIGHT), fed, arguments)
        assert probing.video_bitrate(path) == pytest.approx(bitrate, rel=0.2)
        assert probing.probe(path).pix_fmt == stored
        assert len(decoded(path)) == 100


def test_ffmpeg_keeps_times_and_gives_the_same_bytes_again(tmp_path: Path) -> None:
    arguments = {**H264, "video_bitrate": 100_000, "pix_fmt": "yuv444p"}
    first, two = (
        by_ffmpeg(tmp_path / name, timed(noise(len(VARIABLE)), VARIABLE), **arguments)
        for name in ("one.mp4", "two.mp4")
    )
    assert times(first) == [tick / RATE for tick in VARIABLE]
    assert first.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("frames", [1, 200])
def test_ffmpegs_own_words_are_the_reason_and_always_the_same(frames: int, tmp_path: Path) -> None:
    reasons = set()
    for name in ("one.mp4", "two.mp4"):
        with pytest.raises(MediaError, match="Unknown encoder 'nonsense'") as caught:
            by_ffmpeg(tmp_path / name, timed(noise(frames)), vcodec="nonsense")
        reasons.add(str(caught.value))
    assert len(reasons) == 1
    assert "\n" not in reasons.pop()


NAMES = [
    "with space.mp4",
    "quote'and\".mp4",
    "semi;$(colon).mp4",
    "new\nline.mp4",
    "\N{GRINNING FACE}.mp4",
    "-dash.mp4",
    "per%cent%05d.mp4",
    "concat:a|b.mp4",
    "http:x.mp4",
    "file:a.mp4",
    "pipe:0.mp4",
    "subfile,,start,0,end,0,,:x.mp4",
    "[brackets]*?.mp4",
    "x" * 251 + ".mp4",
    "not-\udcff-utf8.mp4",
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("plain") / "plain.mp4", frames=2)


@pytest.mark.parametrize("name", NAMES, ids=[ascii(name)[1:20] for name in NAMES])
def test_any_name_is_only_a_name(name: str, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(plain.read_bytes())
    for path in (Path(name), tmp_path / name):
        assert len(decoded(path)) == 2
        assert probing.probe(path).width == WIDTH
        assert probing.is_constant_rate(path)
    Path(name).unlink()
    encoding.encode(timed(noise(1)), Path(name), profiles.PROFILES["lossless"], TIMING)
    assert np.array_equal(images(tmp_path / name), noise(1))
    if "\udcff" in name:
        return  # ffmpeg-python does not take it
    Path(name).unlink()
    by_ffmpeg(Path(name), timed(noise(1)), **H264)
    assert len(decoded(tmp_path / name)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]
