"""Codec perturbations show the same colours whatever the source's pixel format, range, matrix and tags."""

from __future__ import annotations

import math
from pathlib import Path

import av
import clips
import cv2
import numpy as np
import pytest
from kernel_scenes import psnr

import perturbations
from perturbations.base.arrays import Image
from perturbations.base.progress import no_tick
from perturbations.corpus.plan import recipe, tiers
from perturbations.corpus.render import rendering
from perturbations.corpus.render.clean_clips import source_of
from perturbations.corpus.store import stored_clip
from perturbations.media import encoding, pixels, profiles
from perturbations.media.clip import uniform_indices
from perturbations.suites import suite_registry

FFV1, X264 = ("-c:v", "ffv1"), ("-c:v", "libx264", "-preset", "ultrafast", "-qp", "0")
FULL = ("-color_range", "pc")
BT709 = ("-colorspace", "bt709", "-color_range", "tv")


def of(pix_fmt: str, *tags: str, matrix: str = "bt601", levels: str = "limited") -> tuple[str, ...]:
    codec = X264 if pix_fmt in ("yuv420p", "yuvj420p", "yuv444p", "yuvj444p") else FFV1
    scale = f"scale=out_color_matrix={matrix}:out_range={levels},format={pix_fmt}"
    if matrix == "bt709":
        scale += ",setparams=color_primaries=bt709:color_trc=bt709"
    return (*codec, "-vf", scale, "-pix_fmt", pix_fmt, *tags)


SOURCES = {
    "rgb.mp4": ("-c:v", "libx264rgb", "-preset", "ultrafast", "-qp", "0"),
    "4:2:0.mp4": of("yuv420p"),
    "4:2:0-said.mp4": of("yuv420p", "-colorspace", "smpte170m", "-color_range", "tv"),
    "4:2:0-bt709.mp4": of("yuv420p", *BT709, matrix="bt709"),
    "full-range.mp4": of("yuvj420p", *FULL, levels="full"),
    "full-range-bt709.mp4": of("yuvj420p", *BT709, *FULL, matrix="bt709", levels="full"),
    "4:2:2.mkv": of("yuv422p"),
    "4:4:4.mp4": of("yuv444p"),
    "4:4:4-bt709.mp4": of("yuv444p", *BT709, matrix="bt709"),
    "4:4:4-full-range.mp4": of("yuvj444p", *FULL, levels="full"),
    "10-bit.mkv": of("yuv420p10le"),
    "10-bit-bt709.mkv": of("yuv420p10le", *BT709, matrix="bt709"),
    "interlaced.mp4": (*of("yuv420p"), "-x264-params", "tff=1"),
    "rgba.mov": ("-c:v", "png", "-pix_fmt", "rgba"),
}
OTHER_PICTURES = {
    "grey.mkv": (*FFV1, "-pix_fmt", "gray"),
    "palette.mov": ("-vf", "split[a][b];[a]palettegen[p];[b][p]paletteuse", "-c:v", "png", "-pix_fmt", "pal8"),
    "palette.gif": ("-vf", "split[a][b];[a]palettegen[p];[b][p]paletteuse"),
}
UNSTORED = tiers.UNSTORED
RECIPES = {
    "mpeg1": ("msrvtt_p/mpeg1", "released", 1),
    "mpeg2": ("msrvtt_p/mpeg2", "released", 1),
    "h264": ("mlvp/h264_compression", "released", 3),
    "h264-4:2:0": ("mlvp/h264_compression", "paper", 3),
}
_RATE_CONTROL_DB = 1.2
"""At a given bitrate, x264 spends more or fewer bits per frame on pictures that hardly differ."""
TOLERANCES_DB = {"mpeg1": 0.2, "mpeg2": 0.2, "h264": _RATE_CONTROL_DB, "h264-4:2:0": _RATE_CONTROL_DB}
"""A wrong range or matrix costs 5 dB here."""


def picture() -> Image:
    """Slow colours under a fine grey texture that moves, as in most videos: 4:2:0 loses little of them."""
    generator = np.random.default_rng(3)
    colours = cv2.resize(
        generator.integers(50, 206, (3, 4, 3), dtype=np.uint8), (96, 64), interpolation=cv2.INTER_CUBIC
    )
    texture = cv2.resize(generator.integers(0, 80, (16, 26), dtype=np.uint8), (104, 64), interpolation=cv2.INTER_CUBIC)
    moving = np.stack([texture[:, 2 * at : 2 * at + 96] for at in range(4)])
    return np.clip(colours + (moving.astype(int) - 40)[..., None], 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    lossless = clips.written(folder / "pictures.mp4", picture())
    for name, output in (SOURCES | OTHER_PICTURES).items():
        clips.ffmpeg("-i", f"file:{lossless}", *output, f"file:{folder / name}")
    return {name: folder / name for name in SOURCES | OTHER_PICTURES}


def recipe_of(name: str, tier: tiers.Storage = UNSTORED) -> recipe.VideoRecipe:
    key, variant, severity = RECIPES[name]
    return recipe.make(suite_registry.get(key), severity, variant=variant, seed=0, storage=tier)


def encoded(name: str, source: Path, path: Path) -> Image:
    write_stream = rendering.planned_clip(recipe_of(name), source_of(clips.source_row(source))).write_stream
    assert write_stream is not None
    write_stream(path, no_tick, None)
    return clips.images(path)


def moved(frames: Image, others: Image) -> float:
    """The largest difference between mean colours, in levels."""
    return float(np.abs(frames.mean((0, 1, 2)) - others.mean((0, 1, 2))).max())


def psnr_db(frames: Image, others: Image) -> float:
    return psnr(*zip(frames, others, strict=True))


@pytest.fixture(scope="module")
def of_rgb(sources: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """The PSNR of each recipe on RGB frames."""
    folder = tmp_path_factory.mktemp("rgb")
    source = sources["rgb.mp4"]
    clean = clips.images(source)
    return {name: psnr_db(clean, encoded(name, source, folder / "a.mp4")) for name in RECIPES}


@pytest.mark.parametrize(
    ("name", "recipe_name"),
    [
        *((name, recipe_name) for name in SOURCES for recipe_name in ("mpeg1", "h264")),
        *(
            (name, recipe_name)
            for name in ("full-range-bt709.mp4", "10-bit.mkv")
            for recipe_name in ("mpeg2", "h264-4:2:0")
        ),
    ],
)
def test_every_source_loses_the_same(
    name: str, recipe_name: str, sources: dict[str, Path], of_rgb: dict[str, float], tmp_path: Path
) -> None:
    clean = clips.images(sources[name])
    assert psnr_db(picture(), clean) > 40  # the source itself shows the pictures
    result = encoded(recipe_name, sources[name], tmp_path / "a.mp4")
    assert psnr_db(clean, result) == pytest.approx(of_rgb[recipe_name], abs=TOLERANCES_DB[recipe_name])
    assert moved(clean, result) < 2
    with av.open(str(tmp_path / "a.mp4")) as container:
        frame = next(container.decode(video=0))
    assert (frame.colorspace, frame.color_range) == (5, 1)  # BT.601, limited
    tagged = 1 if "bt709" in name else 2
    assert (frame.color_primaries, frame.color_trc) == (tagged, tagged)


@pytest.mark.parametrize(
    ("name", "recipe_name"),
    [
        *((name, "mpeg1") for name in [*SOURCES, *OTHER_PICTURES]),
        *(("full-range-bt709.mp4", recipe_name) for recipe_name in RECIPES if recipe_name != "mpeg1"),
    ],
)
def test_an_array_gives_what_its_file_gives(
    name: str, recipe_name: str, sources: dict[str, Path], tmp_path: Path
) -> None:
    clean = clips.images(sources[name])
    key, variant, severity = RECIPES[recipe_name]
    fps = source_of(clips.source_row(sources[name])).fps
    array = perturbations.perturb(clean, key, severity, seed=0, item_id="it", fps=fps, variant=variant)
    result = encoded(recipe_name, sources[name], tmp_path / "a.mp4")
    assert np.array_equal(result, array)
    assert moved(clean, result) < 2


@pytest.mark.parametrize("tier", [tiers.stored_video("high"), tiers.stored_frames(3), tiers.UNSTORED])
def test_the_row_is_measured_against_the_source(tier: tiers.Storage, sources: dict[str, Path], tmp_path: Path) -> None:
    source = source_of(clips.source_row(sources["full-range.mp4"]))
    wanted = recipe_of("mpeg1", tier)
    row = stored_clip.make_clip(wanted, source, tmp_path / f"a{stored_clip.extension(wanted) or ''}")
    clean, result = clips.images(source.clip.path), encoded("mpeg1", source.clip.path, tmp_path / "b.mp4")
    places = uniform_indices(3 if tier["tier"] == "frames" else stored_clip.MEASURED_FRAMES, len(clean))
    assert row["psnr_db"] == pytest.approx(psnr_db(clean[sorted(set(places))], result[sorted(set(places))]))
    assert row["psnr_db"] < 40
    assert row["storage_psnr_db"] == math.inf  # what is stored is what was intended


@pytest.mark.parametrize("size", [(48, 64), (50, 66), (2, 2)])
def test_planes_are_shown_as_the_frames_they_were(size: tuple[int, int]) -> None:
    """Blocks of 2 x 2 that agree in chroma come back but for rounding: no level of luma is lost."""
    generator = np.random.default_rng(0)
    small = generator.integers(60, 190, (size[0] // 2, size[1] // 2, 3))
    grain = generator.integers(-40, 40, size)[..., None]
    frame = (np.kron(small, np.ones((2, 2, 1), int)) + grain).astype(np.uint8)
    planes = pixels.to_planes()(frame)
    shown = av.VideoFrame.from_ndarray(planes, format="yuv420p").reformat(format="rgb24").to_ndarray()
    error = shown.astype(int) - frame
    assert abs(error.mean()) < 0.5
    assert np.abs(error).max() <= 3


@pytest.mark.parametrize("name", ["rgb.mp4", "4:2:0-bt709.mp4", "full-range.mp4", "10-bit-bt709.mkv"])
def test_a_profile_with_other_colours_shows_these(name: str, sources: dict[str, Path], tmp_path: Path) -> None:
    clean = clips.images(sources[name])
    encoding.encode(clips.timed(clean), tmp_path / "a.mp4", profiles.PROFILES["compatible"], clips.TIMING)
    stored = clips.images(tmp_path / "a.mp4")
    assert moved(clean, stored) < 2
    assert psnr_db(clean, stored) > 36
