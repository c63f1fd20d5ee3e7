"""decord and torchcodec give the frames that PyAV gives, of every profile and container, or the clip is refused."""

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
from media_files import CODECS, ODD, ODD_CODECS
from needs import decoder

from perturbations import open_clip
from perturbations.base.errors import BackendError, ManifestError, MediaError
from perturbations.base.readers import Reader
from perturbations.corpus.plan import recipe, tiers
from perturbations.manifest.rows import CompleteSource, VideoRow
from perturbations.media import other_readers, profiles
from perturbations.media.clip import Image, MediaClip, uniform_indices
from perturbations.suites import suite_registry

pytestmark = pytest.mark.usefixtures("in_this_process")

STREAMS = [entry.key for entry in suite_registry.perturbations(kind="video") if entry.method == "codec"]
TIERS = [
    *(tiers.stored_video(profile) for profile in profiles.PROFILES),
    tiers.stored_frames(5),
    tiers.UNSTORED,
]


@pytest.fixture(scope="module", params=["decord", "torchcodec"])
def reader(request: pytest.FixtureRequest) -> Reader:
    name: Reader = request.param
    decoder(name)
    return name


@pytest.fixture(scope="module")
def decord() -> ModuleType:
    return decoder("decord")


@pytest.fixture(scope="module")
def torchcodec() -> ModuleType:
    return decoder("torchcodec")


def moving(frames: int, height: int, width: int) -> Image:
    large = clips.noise(1, height, width + frames)[0]
    return np.stack([large[:, at : at + width] for at in range(frames)])


def is_decord_of_2018() -> bool:
    """Not decord2, which continues it under the same import and reads 10 bits and odd heights as PyAV does."""
    return bool(decoder("decord").__version__ == "0.6.0")


def assert_read_alike(row: VideoRow | CompleteSource, reader: Reader) -> None:
    expected = open_clip(row)
    assert np.array_equal(open_clip(row, reader=reader), expected)
    picked = [len(expected) - 1, 0, len(expected) // 2, 0]
    frames = open_clip(row, picked, reader)
    assert frames.dtype == np.uint8
    assert frames.flags.c_contiguous
    assert np.array_equal(frames, expected[picked])


@pytest.mark.parametrize("tier", TIERS, ids=lambda tier: tier.get("profile", tier["tier"]))
@pytest.mark.parametrize("shape", [(11, 48, 64), (7, 53, 37), (1, 16, 16)], ids=["even", "odd", "one-frame"])
def test_every_tier_opens_alike(
    reader: Reader, tier: tiers.Storage, shape: tuple[int, int, int], tmp_path: Path
) -> None:
    source = clips.source_row(clips.write_scene(tmp_path / "clip.mp4", moving(*shape)))
    row = clips.made_row("mlvp/fog", tier, source, tmp_path / "out")
    if reader == "decord" and is_decord_of_2018() and shape[1] % 2 and tier.get("profile") == "released":
        # decord takes the padding of MPEG-4's blocks for a part of the frame.
        with pytest.raises(MediaError, match="decord gives other frames"):
            open_clip(row, reader=reader)
    else:
        assert_read_alike(row, reader)


def picked(reader: Reader, path: Path, sampled: list[int]) -> Image:
    """As papers' loaders use the library: by a function that seeks."""
    module = decoder(reader)
    if reader == "decord":
        images: Image = module.VideoReader(str(path)).get_batch(sampled).asnumpy()
        return images
    frames: Image = module.decoders.VideoDecoder(str(path)).get_frames_at(sampled).data.numpy()
    return frames.transpose(0, 2, 3, 1)


@pytest.mark.parametrize("key", STREAMS)
def test_encoders_streams_open_alike(reader: Reader, key: str, tmp_path: Path) -> None:
    source = clips.source_row(clips.write_scene(tmp_path / "clip.mp4", moving(60, 48, 64)))
    row = clips.made_row(key, tiers.stored_video("high"), source, tmp_path / "out")
    assert_read_alike(row, reader)
    expected = open_clip(row)
    for num_frames in (3, 12, len(expected)):
        sampled = [int(position) for position in uniform_indices(num_frames, len(expected))]
        assert np.array_equal(picked(reader, Path(row.path or ""), sampled), expected[sampled])


def test_decord_s_frames_may_be_tensors_and_reordered_without_times(decord: ModuleType, tmp_path: Path) -> None:
    with decord.bridge.use_torch():
        assert_read_alike(clips.source_row(clips.make(tmp_path / "a.mp4")), "decord")
    assert_read_alike(clips.source_row(clips.make(tmp_path / "a.avi", *CODECS["mpeg4-b.avi"], frames=30)), "decord")


SOURCES = ("b-frames.mp4", "h264.mkv", "interlaced.mp4", "fragmented.mp4")


@each("name", SOURCES)
def test_sources_and_their_spans_open_alike(reader: Reader, name: str, tmp_path: Path) -> None:
    path = clips.make(tmp_path / name, *CODECS[name], frames=30)
    assert_read_alike(clips.source_row(path), reader)
    for start_s, end_s in ((0.17, 0.41), (0.36, 1.0)):
        assert_read_alike(clips.source_row(path, start_s=start_s, end_s=end_s), reader)


NOT_BY_TORCHCODEC = ("h264.ts", "mpeg2.mpg", "mpeg4-b.avi", "h264-b.avi", "10-bit-full-range.mp4")
"""What torchcodec reads otherwise or not to the end: streams, AVI with reordered frames, full-range 10 bits."""


@each("name", [*CODECS, *ODD_CODECS])
def test_torchcodec_reads_every_container_alike(torchcodec: ModuleType, name: str, tmp_path: Path) -> None:
    coded = (CODECS | ODD_CODECS)[name]
    size = ODD if name in ODD_CODECS else (clips.WIDTH, clips.HEIGHT)
    row = clips.source_row(clips.make(tmp_path / name, *coded, size=size))
    if name in NOT_BY_TORCHCODEC:
        with pytest.raises(MediaError, match="torchcodec (cannot read|gives other frames)"):
            open_clip(row, reader="torchcodec")
    else:
        assert_read_alike(row, "torchcodec")


def rotated(folder: Path, degrees: str) -> Path:
    return clips.copied(clips.make(folder / "a.mp4"), folder / "b.mp4", inputs=("-display_rotation:v:0", degrees))


ODD_FILES: dict[str, Callable[[Path], Path]] = {
    "rotated by 90": lambda folder: rotated(folder, "90"),
    "rotated by 180": lambda folder: rotated(folder, "180"),
    "hidden frames": lambda folder: clips.copied(
        clips.make(folder / "a.mp4", *clips.X264_B, frames=30), folder / "b.mp4", inputs=("-ss", "0.3")
    ),
    "with a cover": lambda folder: clips.with_cover(folder / "b.mp4", clips.make(folder / "a.mp4")),
    "with longer sound": lambda folder: clips.with_longer_sound(folder / "a.mp4"),
    "of several rates": lambda folder: clips.written(folder / "a.mp4", clips.noise(5), [0, 1, 5, 6, 20]),
    "of a quoted name": lambda folder: clips.make(folder / "a 'b'\n\"影\".mp4"),
}


@each("name", ODD_FILES)
def test_torchcodec_reads_odd_files_alike(torchcodec: ModuleType, name: str, tmp_path: Path) -> None:
    assert_read_alike(clips.source_row(ODD_FILES[name](tmp_path)), "torchcodec")


def test_narrow_frames_come_without_their_padding_and_pictures_from_no_decoder(reader: Reader, tmp_path: Path) -> None:
    for width in (1, 3, 17, 47, 50):
        path = clips.written(tmp_path / f"{width}.mp4", clips.noise(3, 20, width))
        assert_read_alike(clips.source_row(path), reader)
    assert_read_alike(clips.source_row(clips.make(tmp_path / "a.png", "-c:v", "png", frames=1)), reader)


MIRRORED = ("-display_rotation:v:0", "0", "-display_hflip:v:0")
NOT_READ: dict[str, tuple[tuple[Reader, ...], Callable[[Path], Path]]] = {
    "10 bits": (("decord",), lambda folder: clips.make(folder / "a.mp4", *clips.X264_10)),
    "hidden frames": (("decord",), ODD_FILES["hidden frames"]),
    "transport stream": (("decord",), lambda folder: clips.make(folder / "a.ts", *clips.X264_B)),
    "mirrored": (
        ("decord", "torchcodec"),
        lambda folder: clips.copied(clips.make(folder / "a.mp4"), folder / "b.mp4", inputs=MIRRORED),
    ),
}


@each("name", NOT_READ)
def test_other_frames_are_refused(reader: Reader, name: str, tmp_path: Path) -> None:
    readers, make = NOT_READ[name]
    if reader == "decord" and name == "10 bits" and not is_decord_of_2018():
        assert_read_alike(clips.source_row(make(tmp_path)), reader)
    elif reader in readers:
        for indices in (None, [0]):
            with pytest.raises(MediaError, match=f"{reader} gives other frames"):
                open_clip(clips.source_row(make(tmp_path)), indices, reader)


def test_what_is_damaged_or_no_video_is_refused(reader: Reader, tmp_path: Path) -> None:
    source = clips.source_row(clips.write_scene(tmp_path / "clip.mp4", moving(30, 48, 64)))
    row = clips.made_row("mlvp/fog", tiers.stored_video("compatible"), source, tmp_path / "out")
    whole, damaged, short = Path(row.path or ""), tmp_path / "damaged.mp4", tmp_path / "short.mp4"
    clips.overwritten(whole, damaged, 0.5, 0.52)
    clips.cut(whole, short, 0.5)
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_bytes(b"no video " * 1000)
    for path in (damaged, short, tmp_path / "empty.mp4", tmp_path / "text.mp4"):
        with pytest.raises(MediaError):
            open_clip(replace(row, path=str(path)), [0], reader)
        with pytest.raises(MediaError):
            list(other_readers.decode(MediaClip(path), reader, frames_sha256=row.frames_sha256 or ""))
    with pytest.raises(MediaError, match="no such file"):
        list(other_readers.decode(MediaClip(tmp_path / "b.mp4"), reader, frames_sha256=""))


def test_a_row_must_say_which_frames_it_has_and_who_reads_them_be_known(tmp_path: Path) -> None:
    wanted = recipe.make(suite_registry.get("mlvp/fog"), 3, seed=0, storage=tiers.stored_video("high"))
    path = clips.written(tmp_path / "a.mp4", clips.noise(9))
    row = clips.video_row(wanted, storage="video/high", path=str(path))
    assert len(open_clip(row)) == 9
    with pytest.raises(ManifestError, match="has no frames_sha256"):
        open_clip(row, reader="decord")
    with pytest.raises(ValueError, match="no reader 'opencv'; known: pyav, decord, torchcodec"):
        open_clip(row, reader="opencv")  # type: ignore[arg-type]


@pytest.fixture
def without_readers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    other_readers.library.cache_clear()
    monkeypatch.setitem(sys.modules, "decord", None)
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    yield
    other_readers.library.cache_clear()


@pytest.mark.usefixtures("without_readers")
def test_without_its_library_the_error_says_what_to_install(tmp_path: Path) -> None:
    row = clips.source_row(clips.make(tmp_path / "a.mp4"))
    with pytest.raises(BackendError, match=r"pip install 'decord>=0\.6,<0\.7'$"):
        open_clip(row, reader="decord")
    with pytest.raises(BackendError, match=r"pip install 'torchcodec>=0\.13', .* apt-get install ffmpeg$"):
        open_clip(row, reader="torchcodec")
    assert len(open_clip(row, reader="pyav")) == row.frame_count
