"""decord gives the frames that PyAV gives, of every storage profile and tier, or the clip is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tiny_models
from clips import (
    RATE,
    X264_10,
    X264_B,
    copied,
    cut,
    made_row,
    make,
    noise,
    overwritten,
    source_row,
    timed,
    video_row,
    with_cover,
    write_scene,
    written,
)
from looping import each
from needs import decord as needs_decord
from test_media import CODECS

from perturbations import open_clip
from perturbations.base import storage
from perturbations.base.errors import BackendError, ManifestError, MediaError
from perturbations.evaluation import backbone, galleries, queries
from perturbations.evaluation.scenarios import Clean
from perturbations.manifest.kinds import CompleteSource, VideoRow
from perturbations.media import decoding, decord_reader, encoding
from perturbations.media.clip import Image, MediaClip, Timing, uniform_indices
from perturbations.plan import recipe, tiers
from perturbations.suites import registry

STREAMS = [entry.key for entry in registry.perturbations(kind="video") if entry.method == "codec"]


@pytest.fixture(scope="module")
def decord() -> ModuleType:
    return needs_decord()


def moving(frames: int, height: int, width: int) -> Image:
    large = noise(1, height, width + frames)[0]
    return np.stack([large[:, at : at + width] for at in range(frames)])


def assert_read_alike(row: VideoRow | CompleteSource) -> None:
    expected = open_clip(row)
    assert np.array_equal(open_clip(row, reader="decord"), expected)
    picked = [len(expected) - 1, 0, len(expected) // 2, 0]
    frames = open_clip(row, picked, "decord")
    assert frames.dtype == np.uint8
    assert frames.flags.c_contiguous
    assert np.array_equal(frames, expected[picked])


# --- what a corpus holds ---------------------------------------------------------------------------------------------

TIERS = [
    *(tiers.stored_video(profile) for profile in storage.PROFILES),
    tiers.StoredFrames(num_frames=5),
    tiers.Unstored(),
]


@pytest.mark.parametrize("tier", TIERS, ids=lambda tier: getattr(tier, "profile", tier.tier))
@pytest.mark.parametrize("shape", [(11, 48, 64), (7, 53, 37), (1, 16, 16)], ids=["even", "odd", "one-frame"])
def test_every_tier_opens_alike(
    decord: ModuleType, tier: tiers.Storage, shape: tuple[int, int, int], tmp_path: Path
) -> None:
    source = source_row(write_scene(tmp_path / "clip.mp4", moving(*shape)))
    row = made_row("mlvp/fog", tier, source, tmp_path / "out")
    if shape[1] % 2 and isinstance(tier, tiers.StoredVideo) and tier.profile == "released":
        # decord takes the padding of MPEG-4's blocks for a part of the frame.
        with pytest.raises(MediaError, match="decord gives other frames"):
            open_clip(row, reader="decord")
    else:
        assert_read_alike(row)


@pytest.mark.parametrize("key", STREAMS)
def test_encoders_streams_open_alike(decord: ModuleType, key: str, tmp_path: Path) -> None:
    source = source_row(write_scene(tmp_path / "clip.mp4", moving(60, 48, 64)))
    row = made_row(key, tiers.stored_video("high"), source, tmp_path / "out")
    assert_read_alike(row)
    assert_evaluators_read_alike(decord, Path(row.path or ""), open_clip(row))


def assert_evaluators_read_alike(decord: ModuleType, path: Path, expected: Image) -> None:
    """As papers' loaders use the library: `get_batch`, which seeks."""
    assert np.array_equal(decord.VideoReader(str(path)).get_batch(range(len(expected))).asnumpy(), expected)
    for num_frames in (3, 12):
        sampled = uniform_indices(num_frames, len(expected))
        reader = decord.VideoReader(str(path))
        assert len(reader) == len(expected)
        assert np.array_equal(reader.get_batch(sampled).asnumpy(), expected[sampled])


@pytest.mark.parametrize(
    ("profile", "size"),
    [
        (profile, size)
        for profile in storage.PROFILES
        for size in ((64, 48), (85, 53))
        if (profile, size) != ("released", (85, 53))  # refused, see above
    ],
)
def test_evaluators_own_code_reads_stored_clips_alike(
    decord: ModuleType, profile: str, size: tuple[int, int], tmp_path: Path
) -> None:
    """Longer than the distance of key frames, and at a variable rate."""
    for name, ticks in (("even", None), ("variable", [40 * at + at % 3 for at in range(300)])):
        path = tmp_path / f"{name}.mp4"
        timing = Timing(Fraction(1, 1000), RATE) if ticks else Timing(1 / RATE, RATE)
        encoding.encode(timed(moving(300, size[1], size[0]), ticks), path, storage.PROFILES[profile], timing)
        expected = np.stack([frame.image for frame in decoding.decode(MediaClip(path))])
        assert_evaluators_read_alike(decord, path, expected)


@each("width", [1, 2, 3, 17, 30, 40, 47, 50, 63, 65, 100])
def test_narrow_frames_come_without_their_padding(decord: ModuleType, width: int, tmp_path: Path) -> None:
    assert_read_alike(source_row(written(tmp_path / "a.mp4", noise(3, 20, width))))


# --- clean clips -----------------------------------------------------------------------------------------------------

OPEN_GOPS = ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-bf", "3", "-g", "8", "-x264-params", "open-gop=1:scenecut=0")
NAMES = ("b-frames.mp4", "h264.mkv", "h264.mov", "4:2:2.mp4", "full-range.mp4", "bt709.mp4")
NAMES += ("interlaced.mp4", "interlaced-bottom.mkv", "mpeg4-b.avi", "fragmented.mp4")
SOURCES = {**{name: CODECS[name] for name in NAMES}, "open-gops.mp4": OPEN_GOPS}


@each("name", SOURCES)
def test_sources_open_alike(decord: ModuleType, name: str, tmp_path: Path) -> None:
    assert_read_alike(source_row(make(tmp_path / name, *SOURCES[name], frames=30)))


@pytest.mark.parametrize("name", ["b-frames.mp4", "h264.mkv"])
def test_spans_open_alike(decord: ModuleType, name: str, tmp_path: Path) -> None:
    path = make(tmp_path / name, *SOURCES[name], frames=30)
    for start_s, end_s in ((0.0, 0.2), (0.04, 0.08), (0.17, 0.21), (0.36, 1.0), (1.0, 99.0)):
        assert_read_alike(source_row(path, start_s=start_s, end_s=end_s))


def test_times_and_positions_are_those_of_pyav(decord: ModuleType, tmp_path: Path) -> None:
    path = make(tmp_path / "a.mp4", *X264_B, frames=30)
    row = source_row(copied(path, tmp_path / "late.mkv", inputs=("-itsoffset", "1.5")), start_s=0.24, end_s=0.6)
    clip = MediaClip(Path(row.path), row.start_s, row.end_s)
    for only in (None, {1, 4}):
        expected = list(decoding.decode(clip, only=only))
        frames = list(decord_reader.decode(clip, frames_sha256=row.frames_sha256, only=only))
        assert [frame[1:] for frame in frames] == [frame[1:] for frame in expected]


@pytest.mark.parametrize("degrees", ["90", "180", "270"])
def test_turned_clips_open_upright(decord: ModuleType, degrees: str, tmp_path: Path) -> None:
    lying = make(tmp_path / "lying.mp4", frames=3)
    turned = copied(lying, tmp_path / "turned.mp4", inputs=("-display_rotation:v:0", degrees))
    assert_read_alike(source_row(turned))


def test_a_cover_picture_is_no_video(decord: ModuleType, tmp_path: Path) -> None:
    assert_read_alike(source_row(with_cover(tmp_path / "cover.mp4", make(tmp_path / "a.mp4"))))


# --- what decord reads otherwise -------------------------------------------------------------------------------------


def of_ten_bits(folder: Path) -> Path:
    return make(folder / "a.mp4", *X264_10)


def mirrored(folder: Path) -> Path:
    return copied(make(folder / "a.mp4"), folder / "b.mp4", inputs=("-display_rotation:v:0", "0", "-display_hflip:v:0"))


def with_hidden_frames(folder: Path) -> Path:
    return copied(make(folder / "a.mp4", *X264_B, frames=30), folder / "b.mp4", inputs=("-ss", "0.3"))


def transport_stream(folder: Path) -> Path:
    return make(folder / "a.ts", *X264_B)


@pytest.mark.parametrize("written_by", [of_ten_bits, mirrored, with_hidden_frames, transport_stream])
def test_other_frames_are_refused(decord: ModuleType, written_by: object, tmp_path: Path) -> None:
    assert callable(written_by)
    row = source_row(written_by(tmp_path))
    for indices in (None, [0]):
        with pytest.raises(MediaError, match=r"decord (gives other frames|finds \d+ frames)"):
            open_clip(row, indices, "decord")


@pytest.mark.parametrize("break_it", ["damaged", "cut off"])
def test_a_stored_clip_that_is_damaged_is_refused(decord: ModuleType, break_it: str, tmp_path: Path) -> None:
    source = source_row(write_scene(tmp_path / "clip.mp4", moving(30, 48, 64)))
    row = made_row("mlvp/fog", tiers.stored_video("compatible"), source, tmp_path / "out")
    whole, broken = Path(row.path or ""), tmp_path / "broken.mp4"
    if break_it == "damaged":
        overwritten(whole, broken, 0.5, 0.52)
    else:
        cut(whole, broken, 0.5)
    with pytest.raises(MediaError):
        open_clip(replace(row, path=str(broken)), [0], "decord")


@pytest.mark.parametrize("content", [b"", b"no video " * 1000])
def test_what_is_no_video_is_an_error(decord: ModuleType, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(content)
    with pytest.raises(MediaError):
        list(decord_reader.decode(MediaClip(path), frames_sha256=""))
    with pytest.raises(MediaError, match="no such file"):
        list(decord_reader.decode(MediaClip(tmp_path / "b.mp4"), frames_sha256=""))


def test_a_row_must_say_which_frames_it_has_and_who_reads_them_be_known(tmp_path: Path) -> None:
    wanted = recipe.make(registry.get("mlvp/fog"), 3, seed=0, storage=tiers.stored_video("high"))
    path = written(tmp_path / "a.mp4", noise(9))
    row = video_row(wanted, storage="video/high", path=str(path))
    assert len(open_clip(row)) == 9
    with pytest.raises(ManifestError, match="has no frames_sha256"):
        open_clip(row, reader="decord")
    with pytest.raises(ValueError, match="no reader 'opencv'; known: pyav, decord"):
        open_clip(row, reader="opencv")  # type: ignore[arg-type]


# --- as a library of a program ---------------------------------------------------------------------------------------


def test_clips_open_alike_in_threads_and_with_the_program_s_bridge(decord: ModuleType, tmp_path: Path) -> None:
    row = source_row(make(tmp_path / "a.mp4"))
    with decord.bridge.use_torch():
        assert_read_alike(row)
    rows = [source_row(make(tmp_path / f"{at}.mp4", *X264_B, frames=20 + at), f"{at}") for at in range(4)]
    expected = [open_clip(row) for row in rows]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda row: open_clip(row, reader="decord"), rows * 3))
    for frames, same in zip(together, expected * 3, strict=True):
        assert np.array_equal(frames, same)


@pytest.fixture
def without_decord(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    decord_reader.library.cache_clear()
    monkeypatch.setitem(sys.modules, "decord", None)
    yield
    decord_reader.library.cache_clear()


@pytest.mark.usefixtures("without_decord")
def test_without_decord_the_error_says_what_to_install(tmp_path: Path) -> None:
    row = source_row(make(tmp_path / "a.mp4"))
    with pytest.raises(BackendError, match=r"pip install 'decord>=0\.6,<0\.7'"):
        open_clip(row, reader="decord")
    assert len(open_clip(row, reader="pyav")) == row.frame_count


def test_an_evaluation_sees_the_same(decord: ModuleType, tmp_path: Path) -> None:
    rows = [source_row(written(tmp_path / f"{at}.mp4", noise(6 + at, seed=at)), f"{at}") for at in range(3)]
    model = tiny_models.save_clip(tmp_path / "model")
    loaded = backbone.load(
        {"model": "clip4clip", "pretrained": "clip", "revision": None, "num_frames": 3}, str(model), None, "cpu"
    )
    for reader in ("pyav", "decord"):
        folder = tmp_path / reader
        folder.mkdir()
        galleries.write(folder / "clips.safetensors", loaded, Clean(rows, []), "clips", 3, reader)
        queries.of_rows(rows, 3, loaded, folder, reader)
    for name in ("clips.safetensors", "frames.npy"):
        assert (tmp_path / "pyav" / name).read_bytes() == (tmp_path / "decord" / name).read_bytes()
