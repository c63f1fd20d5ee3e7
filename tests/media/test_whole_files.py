"""Files that look odd and are read whole, and files of a few frames."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import clips
import numpy as np
import pyarrow as pa
import pytest
from clips import MPEG4, decoded, make
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from looping import each
from media_files import pictures

from perturbations.base.errors import MediaError
from perturbations.media import decoding, framefile, probing
from perturbations.media.clip import MediaClip


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "avi"])
def test_bytes_behind_the_end_do_no_harm(suffix: str, tmp_path: Path) -> None:
    path = clips.make(tmp_path / f"a.{suffix}", *(clips.MPEG4 if suffix == "avi" else clips.X264))
    before = clips.images(path)
    for tail in (bytes(500), b"\xff" * 500, b"TAG and some text", b"x"):
        longer = tmp_path / f"longer.{suffix}"
        longer.write_bytes(path.read_bytes() + tail)
        assert np.array_equal(clips.images(longer), before)


def test_an_avi_that_could_not_go_back_to_its_header_is_read(tmp_path: Path) -> None:
    path = make(tmp_path / "a.avi", *MPEG4)
    whole = path.read_bytes()
    at = whole.index(b"strh") + 8 + 32  # the length in the stream's header, as ffmpeg leaves it in a pipe
    path.write_bytes(whole[:at] + struct.pack("<I", 1 << 30) + whole[at + 4 :])
    assert probing.probe(path).declared_frames is None
    assert len(decoded(path)) == 12


@each("name", ["img%03d.png", "%d.jpg"])
def test_a_picture_that_is_named_as_a_sequence_is_that_picture(name: str, tmp_path: Path) -> None:
    assert len(decoded(pictures(tmp_path, name, name % 1, name % 2))) == 1


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


# --- files of a few frames -------------------------------------------------------------------------------------------


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
