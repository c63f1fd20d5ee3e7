"""One call for a picture or a clip, and what is asked of a perturbation by its name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import clips
import cv2
import numpy as np
import PIL.Image
import PIL.ImageSequence
import pytest
from PIL import Image

import perturbations
from perturbations.base.errors import MediaError, UnknownPerturbationError
from perturbations.suites import suite_registry

FRAMES = np.random.default_rng(0).integers(0, 256, (3, 40, 56, 3), np.uint8)
PICTURE = FRAMES[0]
VIDEO = suite_registry.perturbations(kind="video")
OF_FRAMES = [entry for entry in VIDEO if not entry.applies_to_one_frame and not entry.encodes]


def test_a_clip_is_that_of_perturb() -> None:
    corrupted = perturbations.corrupt(FRAMES, "mlvp/fog", 3, seed=5, item_id=7, dataset="data")
    expected = perturbations.perturb(FRAMES, "mlvp/fog", 3, seed=5, item_id="7", dataset="data", fps=25)
    assert np.array_equal(corrupted, expected)
    assert not np.array_equal(
        corrupted, perturbations.corrupt(FRAMES, "mlvp/fog", 3, seed=5, item_id=8, dataset="data")
    )


@pytest.mark.parametrize("name", [entry.key for entry in VIDEO if entry.applies_to_one_frame])
def test_a_picture_gives_a_picture(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a photograph.png"
    Image.fromarray(PICTURE).save(path)
    clean = PICTURE.copy()
    corrupted = perturbations.corrupt(PICTURE, name, 1, seed=1, item_id="a")
    assert np.array_equal(PICTURE, clean)
    assert corrupted.ndim == 3
    assert corrupted.dtype == np.uint8
    expected = perturbations.perturb(PICTURE[None], name, 1, seed=1, item_id="a", fps=25)
    assert np.array_equal(corrupted[None], expected)
    of_pillow = perturbations.corrupt(Image.fromarray(PICTURE), name, 1, seed=1, item_id="a")
    assert isinstance(of_pillow, Image.Image)
    assert np.array_equal(corrupted, np.asarray(of_pillow))
    assert np.array_equal(corrupted, perturbations.corrupt(str(path), name, 1, seed=1, item_id="a"))


TURNED = Image.Exif()
TURNED[0x0112] = 6
DRAWN = Image.fromarray(PICTURE)
OTHER = Image.fromarray(FRAMES[1])
DEEP = Image.fromarray(np.linspace(0, 65535, 40 * 56).reshape(40, 56).astype(np.uint16))


@pytest.mark.parametrize(
    ("ending", "picture", "options"),
    [
        ("jpg", DRAWN, {"exif": TURNED}),
        ("webp", DRAWN, {"exif": TURNED}),
        ("png", DRAWN.convert("1"), {"exif": TURNED}),
        *(("png", DRAWN.convert(mode), {}) for mode in ("L", "LA", "RGBA")),
        ("png", DRAWN.quantize(), {"transparency": bytes(range(200))}),
        ("gif", DRAWN.quantize(), {}),
    ],
)
def test_a_picture_of_pillow_is_that_of_its_file(
    ending: str, picture: Image.Image, options: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / f"a.{ending}"
    picture.save(path, **options)
    of_file = perturbations.corrupt(path, "mlvp/fog", 2)
    of_pillow = perturbations.corrupt(Image.open(path), "mlvp/fog", 2)
    assert of_pillow.mode == "RGB"
    assert np.array_equal(of_file, np.asarray(of_pillow))
    assert of_file.shape == ((56, 40, 3) if options.get("exif") else (40, 56, 3))


@pytest.mark.parametrize("mode", ["La", "PA", "RGBa", "RGBX", "YCbCr", "HSV"])
def test_pictures_of_other_modes_become_rgb(mode: str) -> None:
    between = {"La": "LA", "PA": "P", "RGBa": "RGBA"}.get(mode, "RGB")
    picture = DRAWN.convert(between).convert(mode)
    assert picture.mode == mode
    expected = picture.convert("LA").convert("RGB") if mode == "La" else picture.convert("RGB")
    assert np.array_equal(np.asarray(perturbations.corrupt(picture, "mlvp/fog", 0)), np.asarray(expected))


@pytest.mark.parametrize(
    ("ending", "picture", "message", "shape"),
    [
        ("png", DEEP, "16 bits or more per sample", (40, 56, 3)),
        ("tiff", Image.fromarray(np.float32(PICTURE[..., 0]) / 255), "16 bits or more per sample", (40, 56, 3)),
        ("tiff", DRAWN.convert("I"), "16 bits or more per sample", (40, 56, 3)),
        ("jpg", DRAWN.convert("CMYK"), "a CMYK picture", (40, 56, 3)),
        *((ending, (DRAWN, OTHER), "an animated picture", (2, 40, 56, 3)) for ending in ("gif", "webp", "png", "tiff")),
    ],
)
def test_what_is_refused_of_pillow_says_what_to_give(
    ending: str, picture: Any, message: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    path = tmp_path / f"a.{ending}"
    first, *others = picture if isinstance(picture, tuple) else (picture,)
    first.save(path, **({"save_all": True, "append_images": others} if others else {}))
    for clip in (Image.open(path), *([path] if ending != "gif" else [])):
        with pytest.raises(
            MediaError, match=message if clip is not path or ending != "tiff" else "not a video"
        ) as refused:
            perturbations.corrupt(clip, "mlvp/fog", 0)
        (way,) = re.findall(r"give (?:all its frames, )?(.*?)(?:, or the current one, .*)?$", str(refused.value))
        given = eval(way, {"numpy": np, "PIL": PIL, "picture": clip})
        taken = np.asarray(perturbations.corrupt(given, "mlvp/fog", 0))
        assert taken.shape == shape
        assert others or np.ptp(taken) > 200


def test_16_bits_of_colour_are_not_cut_to_8_in_silence(tmp_path: Path) -> None:
    path = str(tmp_path / "a.png")
    cv2.imwrite(path, PICTURE.astype(np.uint16) * 257)
    for clip in (path, Image.open(path)):
        with pytest.raises(MediaError, match="16 bits"):
            perturbations.corrupt(clip, "mlvp/fog", 0)


@pytest.mark.parametrize("entry", OF_FRAMES, ids=lambda entry: entry.key)
def test_what_moves_frames_needs_a_clip(entry: suite_registry.Perturbation) -> None:
    with pytest.raises(MediaError, match=f"{entry.key} .* needs a clip, not a picture"):
        perturbations.corrupt(PICTURE, entry.key, 3)


def test_a_name_without_its_suite() -> None:
    alone = perturbations.corrupt(PICTURE, "jpeg", 3)
    assert np.array_equal(alone, perturbations.corrupt(PICTURE, "msrvtt_p/jpeg", 3))
    with pytest.warns(UserWarning, match="several suites have fog: mlvp/fog, mm_robustness/fog") as warned:
        several = perturbations.corrupt(PICTURE, "fog", severity=3, seed=0)
    assert warned[0].filename == __file__
    assert np.array_equal(several, perturbations.corrupt(PICTURE, "mlvp/fog", severity=3, seed=0))
    with pytest.warns(UserWarning, match="keyboard"):
        assert perturbations.perturb_text("a man rides a horse", "keyboard").text


def test_what_is_asked_by_name() -> None:
    every = perturbations.names() + perturbations.names(kind="text")
    assert every == [entry.key for kind in ("video", "text") for entry in suite_registry.perturbations(None, kind)]
    assert perturbations.names("tampering") == [entry.key for entry in suite_registry.perturbations("tampering")]
    for name in every:
        of_name = perturbations.severities(name)
        assert of_name == tuple(range(1, len(of_name) + 1))
        assert all(perturbations.parameters(name, severity) is not None for severity in of_name)
    assert perturbations.parameters("mm_robustness/jpeg_compression", 3) == {"quality": 15}
    with pytest.raises(UnknownPerturbationError, match="choose one of"):
        perturbations.parameters("mlvp/fog", 9)


@pytest.mark.parametrize(
    ("picture", "name", "error", "message"),
    [
        (PICTURE, "fogg", UnknownPerturbationError, "did you mean fog"),
        (PICTURE, "msrvtt_p/typos", UnknownPerturbationError, "captions, not videos"),
        (PICTURE, "typos", UnknownPerturbationError, "no perturbation"),
        (PICTURE, 3, TypeError, "named by a text"),
        ("/nowhere/a.mp4", "mlvp/fog", MediaError, "/nowhere/a.mp4: No such file"),
        (__file__, "mlvp/fog", MediaError, "test_corrupt.py.*cannot be decoded"),
    ],
)
def test_what_is_refused(picture: object, name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        perturbations.corrupt(picture, name, 3)


def test_a_damaged_picture_is_named(tmp_path: Path) -> None:
    path = tmp_path / "half.png"
    Image.fromarray(PICTURE).save(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(MediaError, match=re.escape(str(path))):
        perturbations.corrupt(path, "mlvp/fog", 3)


def test_a_bitrate_is_that_of_the_videos_file(tmp_path: Path) -> None:
    path = clips.write_scene(tmp_path / "clip.mp4", np.repeat(FRAMES, 5, axis=0))
    assert perturbations.corrupt(path, "transmission/h264_bitrate", 3).shape == (15, 40, 56, 3)
