"""`high` and `lossless` have key frames where evaluations sample, and readers decode nothing else."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from clips import TIMING, X264, X264_B, made_row, make, noise, overwritten, source_row, timed, written
from hypothesis import given, settings
from hypothesis import strategies as st
from looping import each

from perturbations import open_clip
from perturbations.base.errors import MediaError
from perturbations.corpus.plan import tiers
from perturbations.media import decoding, encoding, profiles
from perturbations.media.clip import MediaClip, uniform_indices

pytestmark = pytest.mark.usefixtures("in_this_process")

HIGH = profiles.PROFILES["high"]
FRAMES = 40


def key_frames(path: Path) -> list[int]:
    with av.open(str(path)) as container:
        return [place for place, packet in enumerate(container.demux(video=0)) if packet.size and packet.is_keyframe]


def all_frames(path: Path) -> list[np.ndarray]:
    return [frame.image for frame in decoding.decode(MediaClip(path))]


def assert_gives(path: Path, places: list[int], whole: list[np.ndarray]) -> None:
    frames = list(decoding.decode_stored(path, set(places)))
    assert [frame.position for frame in frames] == places
    assert all(np.array_equal(frame.image, whole[frame.position]) for frame in frames)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stored") / "a.mp4"
    encoding.encode(timed(noise(FRAMES)), path, HIGH, TIMING, key_frames={5, 17, 30})
    return path


@each("profile", ["high", "lossless"])
@each("num_frames", [1, 5, 12, 13, 300])
def test_the_sampled_frames_of_a_stored_clip_are_key_frames(profile: str, num_frames: int, tmp_path: Path) -> None:
    source = source_row(written(tmp_path / "a.mp4", noise(num_frames, 16, 16)))
    row = made_row("mlvp/gaussian_noise", tiers.stored_video(profile), source, tmp_path / "out")
    assert row.path is not None
    regular = {0, *range(0, num_frames, 250)}
    assert set(uniform_indices(12, num_frames)) <= set(key_frames(Path(row.path)))
    assert len(key_frames(Path(row.path))) <= len(regular) + 12


@given(st.sets(st.integers(0, FRAMES - 1), min_size=1))
@settings(deadline=None, max_examples=30)
def test_any_frames_are_those_that_reading_all_gives(stored: Path, only: set[int]) -> None:
    frames = list(decoding.decode_stored(stored, only))
    expected = [frame for frame in decoding.decode(MediaClip(stored)) if frame.position in only]
    assert [(frame.position, frame.pts) for frame in frames] == [(frame.position, frame.pts) for frame in expected]
    assert all(np.array_equal(frame.image, same.image) for frame, same in zip(frames, expected, strict=True))


@pytest.mark.parametrize("profile", profiles.PROFILES)
def test_every_profile_gives_its_frames(profile: str, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    encoding.encode(timed(noise(FRAMES)), path, profiles.PROFILES[profile], TIMING, key_frames={7, 20})
    assert_gives(path, [3, 7, 25], all_frames(path))


@pytest.mark.parametrize(
    "settings", [X264, X264_B, ("-c:v", "libx264", "-x264-params", "open-gop=1:keyint=6:bframes=2")]
)
def test_streams_of_encoders_give_their_frames(settings: tuple[str, ...], tmp_path: Path) -> None:
    path = make(tmp_path / "a.mp4", *settings, frames=FRAMES)
    assert_gives(path, [8, 21, 39], all_frames(path))


def test_only_what_the_wanted_frames_need_is_decoded(stored: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.mp4"
    with av.open(str(stored)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    content = bytearray(stored.read_bytes())
    start, size = packets[10]
    assert start is not None
    content[start + size // 4 : start + size // 2] = bytes(size // 2 - size // 4)
    damaged.write_bytes(content)
    assert_gives(damaged, [5, 17, 30], all_frames(stored))
    with pytest.raises(MediaError):
        list(decoding.decode_stored(damaged, {12}))


@pytest.mark.parametrize("only", [set(), {FRAMES}, {3, FRAMES + 5}])
def test_positions_behind_the_end_and_none_are_no_frames(only: set[int], stored: Path) -> None:
    positions = [frame.position for frame in decoding.decode_stored(stored, only)]
    assert positions == sorted(place for place in only if place < FRAMES)


@pytest.mark.parametrize("fraction", [0.3, 0.6, 0.9])
def test_a_file_that_was_cut_short_or_overwritten_is_damaged(fraction: float, stored: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.mp4").write_bytes(stored.read_bytes()[: int(stored.stat().st_size * fraction)])
    with pytest.raises(MediaError):
        list(decoding.decode_stored(tmp_path / "cut.mp4", {0, 20, 39}))
    with pytest.raises(MediaError):
        list(decoding.decode_stored(overwritten(stored, tmp_path / "b.mp4", 0.1, 0.9), {0, 20, 39}))


def test_a_row_gives_its_sampled_frames(tmp_path: Path) -> None:
    source = source_row(written(tmp_path / "a.mp4", noise(FRAMES)))
    row = made_row("mlvp/fog", tiers.stored_video("high"), source, tmp_path / "out")
    places = [*uniform_indices(12, FRAMES), 0, 0, 1]
    assert np.array_equal(open_clip(row, places), open_clip(row)[places])
