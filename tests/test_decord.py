"""decord gives the frames that PyAV gives, of every storage profile and tier, or the clip is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import clips
import numpy as np
import pytest
from looping import each
from needs import decord as needs_decord
from test_media import CODECS

from perturbations import open_clip
from perturbations.base import storage
from perturbations.base.errors import BackendError, ManifestError, MediaError
from perturbations.manifest.kinds import CompleteSource, VideoRow
from perturbations.media import decord_reader
from perturbations.media.clip import Image, MediaClip, uniform_indices
from perturbations.plan import recipe, tiers
from perturbations.suites import registry

STREAMS = [entry.key for entry in registry.perturbations(kind="video") if entry.method == "codec"]
TIERS = [
    *(tiers.stored_video(profile) for profile in storage.PROFILES),
    tiers.StoredFrames(num_frames=5),
    tiers.Unstored(),
]


@pytest.fixture(scope="module")
def decord() -> ModuleType:
    return needs_decord()


def moving(frames: int, height: int, width: int) -> Image:
    large = clips.noise(1, height, width + frames)[0]
    return np.stack([large[:, at : at + width] for at in range(frames)])


def assert_read_alike(row: VideoRow | CompleteSource) -> None:
    expected = open_clip(row)
    assert np.array_equal(open_clip(row, reader="decord"), expected)
    picked = [len(expected) - 1, 0, len(expected) // 2, 0]
    frames = open_clip(row, picked, "decord")
    assert frames.dtype == np.uint8
    assert frames.flags.c_contiguous
    assert np.array_equal(frames, expected[picked])


@pytest.mark.parametrize("tier", TIERS, ids=lambda tier: getattr(tier, "profile", tier.tier))
@pytest.mark.parametrize("shape", [(11, 48, 64), (7, 53, 37), (1, 16, 16)], ids=["even", "odd", "one-frame"])
def test_every_tier_opens_alike(
    decord: ModuleType, tier: tiers.Storage, shape: tuple[int, int, int], tmp_path: Path
) -> None:
    source = clips.source_row(clips.write_scene(tmp_path / "clip.mp4", moving(*shape)))
    row = clips.made_row("mlvp/fog", tier, source, tmp_path / "out")
    if shape[1] % 2 and isinstance(tier, tiers.StoredVideo) and tier.profile == "released":
        # decord takes the padding of MPEG-4's blocks for a part of the frame.
        with pytest.raises(MediaError, match="decord gives other frames"):
            open_clip(row, reader="decord")
    else:
        assert_read_alike(row)


def assert_evaluators_read_alike(decord: ModuleType, path: Path, expected: Image) -> None:
    """As papers' loaders use the library: `get_batch`, which seeks."""
    for num_frames in (3, 12, len(expected)):
        sampled = uniform_indices(num_frames, len(expected))
        reader = decord.VideoReader(str(path))
        assert len(reader) == len(expected)
        assert np.array_equal(reader.get_batch(sampled).asnumpy(), expected[sampled])


@pytest.mark.parametrize("key", STREAMS)
def test_encoders_streams_open_alike(decord: ModuleType, key: str, tmp_path: Path) -> None:
    source = clips.source_row(clips.write_scene(tmp_path / "clip.mp4", moving(60, 48, 64)))
    row = clips.made_row(key, tiers.stored_video("high"), source, tmp_path / "out")
    with decord.bridge.use_torch():
        assert_read_alike(row)
    assert_evaluators_read_alike(decord, Path(row.path or ""), open_clip(row))


SOURCES = ("b-frames.mp4", "h264.mkv", "interlaced.mp4", "mpeg4-b.avi", "fragmented.mp4")


@each("name", SOURCES)
def test_sources_and_their_spans_open_alike(decord: ModuleType, name: str, tmp_path: Path) -> None:
    path = clips.make(tmp_path / name, *CODECS[name], frames=30)
    assert_read_alike(clips.source_row(path))
    for start_s, end_s in ((0.17, 0.41), (0.36, 1.0)) if path.suffix != ".avi" else ():
        assert_read_alike(clips.source_row(path, start_s=start_s, end_s=end_s))


@each("width", [1, 3, 17, 47, 50])
def test_narrow_frames_come_without_their_padding(decord: ModuleType, width: int, tmp_path: Path) -> None:
    assert_read_alike(clips.source_row(clips.written(tmp_path / "a.mp4", clips.noise(3, 20, width))))


def mirrored(folder: Path) -> Path:
    inputs = ("-display_rotation:v:0", "0", "-display_hflip:v:0")
    return clips.copied(clips.make(folder / "a.mp4"), folder / "b.mp4", inputs=inputs)


OTHERWISE: dict[str, Callable[[Path], Path]] = {
    "10 bits": lambda folder: clips.make(folder / "a.mp4", *clips.X264_10),
    "mirrored": mirrored,
    "hidden frames": lambda folder: clips.copied(
        clips.make(folder / "a.mp4", *clips.X264_B, frames=30), folder / "b.mp4", inputs=("-ss", "0.3")
    ),
    "transport stream": lambda folder: clips.make(folder / "a.ts", *clips.X264_B),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_other_frames_are_refused(decord: ModuleType, name: str, tmp_path: Path) -> None:
    row = clips.source_row(OTHERWISE[name](tmp_path))
    for indices in (None, [0]):
        with pytest.raises(MediaError, match="decord gives other frames"):
            open_clip(row, indices, "decord")


def test_what_is_damaged_or_no_video_is_refused(decord: ModuleType, tmp_path: Path) -> None:
    source = clips.source_row(clips.write_scene(tmp_path / "clip.mp4", moving(30, 48, 64)))
    row = clips.made_row("mlvp/fog", tiers.stored_video("compatible"), source, tmp_path / "out")
    whole, damaged, short = Path(row.path or ""), tmp_path / "damaged.mp4", tmp_path / "short.mp4"
    clips.overwritten(whole, damaged, 0.5, 0.52)
    clips.cut(whole, short, 0.5)
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_bytes(b"no video " * 1000)
    for path in (damaged, short, tmp_path / "empty.mp4", tmp_path / "text.mp4"):
        with pytest.raises(MediaError):
            open_clip(replace(row, path=str(path)), [0], "decord")
        with pytest.raises(MediaError):
            list(decord_reader.decode(MediaClip(path), frames_sha256=row.frames_sha256 or ""))
    with pytest.raises(MediaError, match="no such file"):
        list(decord_reader.decode(MediaClip(tmp_path / "b.mp4"), frames_sha256=""))


def test_a_row_must_say_which_frames_it_has_and_who_reads_them_be_known(tmp_path: Path) -> None:
    wanted = recipe.make(registry.get("mlvp/fog"), 3, seed=0, storage=tiers.stored_video("high"))
    path = clips.written(tmp_path / "a.mp4", clips.noise(9))
    row = clips.video_row(wanted, storage="video/high", path=str(path))
    assert len(open_clip(row)) == 9
    with pytest.raises(ManifestError, match="has no frames_sha256"):
        open_clip(row, reader="decord")
    with pytest.raises(ValueError, match="no reader 'opencv'; known: pyav, decord"):
        open_clip(row, reader="opencv")  # type: ignore[arg-type]


@pytest.fixture
def without_decord(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    decord_reader.library.cache_clear()
    monkeypatch.setitem(sys.modules, "decord", None)
    yield
    decord_reader.library.cache_clear()


@pytest.mark.usefixtures("without_decord")
def test_without_decord_the_error_says_what_to_install(tmp_path: Path) -> None:
    row = clips.source_row(clips.make(tmp_path / "a.mp4"))
    with pytest.raises(BackendError, match=r"pip install 'decord>=0\.6,<0\.7'"):
        open_clip(row, reader="decord")
    assert len(open_clip(row, reader="pyav")) == row.frame_count
