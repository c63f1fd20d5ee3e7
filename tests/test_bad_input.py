"""Whatever is wrong with a file becomes a one-line `MediaError`, and never a clip that is silently shorter."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import clips
import needs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perturbations.base.errors import MediaError
from perturbations.engine import shards
from perturbations.engine.source import source_of
from perturbations.media import decoding, framefile
from perturbations.media.clip import MediaClip

FASTSTART = (*clips.X264_B, "-movflags", "+faststart")
AV1 = ("-c:v", "libaom-av1", "-cpu-used", "8")
LIVE = (*clips.X264, "-live", "1")  # Matroska that does not say how long it is


def from_sound(path: Path, change: Callable[[Path, Path], Path], *output: str) -> Path:
    return change(clips.make(path.with_name(f"sound{path.suffix}"), *output, frames=24, size=(160, 120)), path)


def turned(path: Path, degrees: str) -> Path:
    lying = clips.make(path.with_name("lying.mp4"), *clips.X264)
    return clips.copied(lying, path, inputs=("-display_rotation:v:0", degrees))


def half(source: Path, path: Path) -> Path:
    return clips.cut(source, path, 0.5)


def all_but_the_end(source: Path, path: Path) -> Path:
    return clips.cut(source, path, 0.98)


def a_third_lost(source: Path, path: Path) -> Path:
    return clips.overwritten(source, path, 0.4, 0.7)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing.mp4": (lambda path: None, "no such file"),
    "dangling.mp4": (lambda path: path.symlink_to("nothing"), "no such file"),
    "loop.mp4": (lambda path: path.symlink_to(path), "cannot be read: Too many levels of symbolic links"),
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
    "still.avif": (lambda path: clips.make(path, *AV1, "-still-picture", "1", frames=1), "not a video: a picture"),
    "animated.avif": (lambda path: clips.make(path, *AV1), "not a video: a picture, or an animation of pictures"),
    "oblique.mp4": (lambda path: turned(path, "33"), "shows the picture oblique"),
    "sound.m4a": (clips.audio_only, "there is no video stream"),
    "cover.m4a": (lambda path: clips.with_cover(path, None), "there is no video stream"),
    "sizes.h264": (clips.of_two_sizes, "the frame size changes from 64x48 to 32x24 at frame 12"),
    "half-faststart.mp4": (lambda path: from_sound(path, half, *FASTSTART), "the file ends early"),
    "half.mp4": (lambda path: from_sound(path, half), "the file ends early"),
    "no-index.mp4": (lambda path: from_sound(path, all_but_the_end), "cannot be decoded|ends early|no video"),
    "half.mkv": (lambda path: from_sound(path, half, *clips.X264_B), "the file ends early"),
    "end.mkv": (lambda path: from_sound(path, all_but_the_end, *clips.X264_B), "the file ends early"),
    "half-live.mkv": (lambda path: from_sound(path, half, *LIVE), "the file ends early"),
    "half.webm": (lambda path: from_sound(path, half, *clips.VP9), "the file ends early"),
    "half.avi": (lambda path: from_sound(path, half, *clips.MPEG4), "the file ends early"),
    "half.flv": (lambda path: from_sound(path, half), "damaged or missing"),
    "damaged.mp4": (lambda path: from_sound(path, a_third_lost), "damaged|cannot be decoded|ends early"),
    "damaged.mkv": (lambda path: from_sound(path, a_third_lost, *clips.X264), "damaged|cannot be decoded|ends early"),
    "damaged.avi": (lambda path: from_sound(path, a_third_lost, *clips.MPEG4), "damaged|cannot be decoded|ends early"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_alone_is_quarantined(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_broken, reason = BROKEN[name]
    path, whole = tmp_path / name, clips.make(tmp_path / "whole-one.mp4", frames=2)
    make_broken(path)
    with pytest.raises(MediaError, match=reason) as caught:
        clips.decoded(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 120
    assert capfd.readouterr() == ("", "")
    first, second = shards.run_sources(
        "data", [clips.listed(video, video.name) for video in (path, whole)], stall_limit_s=30
    )
    assert (first.item_id, first.status, first.stage) == (path.name, "quarantined", "source")
    assert first.error
    assert (second.item_id, second.status, second.frame_count) == (whole.name, "complete", 2)


@pytest.mark.parametrize("name", ["half-faststart.mp4", "half.mkv", "half.avi"])
def test_a_span_of_a_truncated_file_is_refused_too(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    BROKEN[name][0](path)
    with pytest.raises(MediaError, match="the file ends early"):
        clips.decoded(path, start_s=0.04, end_s=0.9)


@pytest.mark.parametrize(
    ("name", "output"),
    [("faststart.mp4", FASTSTART), ("plain.mp4", clips.X264), ("plain.mov", clips.X264), ("plain.mkv", clips.X264_B)],
)
def test_no_damage_makes_a_clip_shorter(name: str, output: tuple[str, ...], tmp_path: Path) -> None:
    """Decoders do not notice every wrong bit, but a frame that is lost is noticed."""
    whole = clips.make(tmp_path / name, *output, frames=24)
    refused = 0
    for percent in range(5, 95, 3):
        try:
            damaged = clips.overwritten(whole, tmp_path / f"damaged{whole.suffix}", percent / 100, percent / 100 + 0.05)
            assert len(clips.decoded(damaged)) == 24
        except MediaError:
            refused += 1
    assert refused > 20


@pytest.mark.parametrize("first", [2, 10, 19])
def test_frames_that_an_index_names_are_missed(first: int, tmp_path: Path) -> None:
    whole = clips.make(tmp_path / "whole.avi", "-c:v", "mjpeg", "-pix_fmt", "yuvj420p", frames=24).read_bytes()
    head, *chunks = whole.split(b"00dc")
    marks = [b"xxxx" if first <= index < first + 5 else b"00dc" for index in range(len(chunks))]
    path = tmp_path / "a.avi"
    path.write_bytes(head + b"".join(mark + chunk for mark, chunk in zip(marks, chunks, strict=True)))
    with pytest.raises(MediaError, match="the file is damaged: 19 of 24 indexed frames are found"):
        clips.decoded(path)


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "avi"])
def test_bytes_behind_the_end_do_no_harm(suffix: str, tmp_path: Path) -> None:
    path = clips.make(tmp_path / f"a.{suffix}", *(clips.MPEG4 if suffix == "avi" else clips.X264))
    before = clips.images(path)
    for tail in (bytes(500), b"\xff" * 500, b"TAG and some text", b"x"):
        longer = tmp_path / f"longer.{suffix}"
        longer.write_bytes(path.read_bytes() + tail)
        assert np.array_equal(clips.images(longer), before)


def test_a_matroska_file_of_unknown_length_is_read(tmp_path: Path) -> None:
    assert len(clips.decoded(clips.make(tmp_path / "live.mkv", *LIVE))) == clips.FRAMES


@pytest.mark.skipif(os.geteuid() == 0, reason=needs.REASON + needs.NO_ROOT)
def test_a_file_without_permission_is_a_short_reason(tmp_path: Path) -> None:
    path = clips.make(tmp_path / "a.mp4")
    path.chmod(0)
    with pytest.raises(MediaError, match="cannot be (read|decoded): Permission denied"):
        clips.decoded(path)


@pytest.mark.parametrize("change", ["other", "damaged", "gone"])
def test_a_source_that_is_no_longer_what_it_was_is_refused(change: str, tmp_path: Path) -> None:
    path = clips.make(tmp_path / "a.mp4")
    row = clips.source_row(path, bytes=path.stat().st_size)
    if change == "other":
        clips.make(path, frames=5)
    elif change == "damaged":
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    else:
        path.unlink()
    with pytest.raises(MediaError, match="no such file" if change == "gone" else "its content changed"):
        source_of(row)


def test_a_source_that_grows_while_the_run_starts_is_refused(tmp_path: Path) -> None:
    path = clips.make(tmp_path / "a.mp4")
    with pytest.raises(MediaError, match="the file changed"):
        clips.source_row(path, bytes=path.stat().st_size - 1)


def test_a_cut_frame_file_is_an_error(tmp_path: Path) -> None:
    whole = tmp_path / "whole.npy.zst"
    framefile.write(whole, clips.noise(3))
    assert np.array_equal(framefile.read(whole), clips.noise(3))
    for percent in range(1, 100, 7):
        with pytest.raises(MediaError, match="cannot be read"):
            framefile.read(clips.cut(whole, tmp_path / "cut.npy.zst", percent / 100))


# --- real files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "frames", "size"),
    [
        ("arm_wrestling.mp4", 280, (256, 340)),
        ("flipping_a_pancake.mkv", 310, (240, 426)),
        ("rotated_90.mov", 3, (568, 320)),
        ("unordered.mov", 4, (50, 50)),
    ],
)
def test_real_clips_are_read_whole(name: str, frames: int, size: tuple[int, int], reference: Path) -> None:
    path = reference / "data" / "clips" / name
    count = 0
    last = -1
    for frame in decoding.decode(MediaClip(path)):
        assert frame.image.shape == (*size, 3)
        assert frame.pts > last
        last = frame.pts
        count += 1
    assert count == frames


def test_a_real_damaged_clip_is_an_error(reference: Path, capfd: pytest.CaptureFixture[str]) -> None:
    count = 0
    with pytest.raises(MediaError, match="cannot be decoded: Invalid data"):
        for _ in decoding.decode(MediaClip(reference / "data" / "clips" / "corrupted.mp4")):
            count += 1
    assert 0 < count < 50
    assert capfd.readouterr() == ("", "")


# --- Files of a few frames ---


shapes = st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), st.just(3))


@given(frames=arrays(np.uint8, shapes))
def test_what_is_read_is_what_was_written(tmp_path_factory: pytest.TempPathFactory, frames: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("f") / "x.npy.zst"
    framefile.write(path, frames)
    again = framefile.read(path)
    assert again.dtype == np.uint8
    assert np.array_equal(again, frames)


def test_both_predictors_pack_what_they_are_for(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    noise = generator.integers(0, 255, (1, 64, 64, 3), dtype=np.uint8)
    still = noise + generator.integers(0, 2, (4, 64, 64, 3), dtype=np.uint8)
    smooth = np.arange(4 * 64 * 64 * 3).reshape(4, 64, 64, 3).astype(np.uint8) // 2
    for frames, name in (
        (still, "previous"),
        (smooth * generator.integers(1, 3, (4, 1, 1, 1), dtype=np.uint8), "left"),
    ):
        path = tmp_path / f"{name}.npy.zst"
        framefile.write(path, frames)
        with pa.input_stream(str(path), compression="zstd") as stream:
            file = io.BytesIO(stream.read())
        assert str(np.load(file)) == name
        axis = {"left": 2, "previous": 0}[name]
        assert np.array_equal(np.cumsum(np.load(file), axis=axis, dtype=np.uint8), frames)
        assert path.stat().st_size < frames.nbytes / 2


@pytest.mark.parametrize(
    "content", [b"", b"no zstd", b"\x28\xb5\x2f\xfd" + bytes(50), pa.compress(b"no arrays", "zstd", asbytes=True)]
)
def test_a_damaged_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npy.zst"
    path.write_bytes(content)
    with pytest.raises(MediaError, match=r"x\.npy\.zst cannot be read"):
        framefile.read(path)
