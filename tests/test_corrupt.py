"""One call for a picture or a clip, and what is asked of a perturbation by its name."""

from __future__ import annotations

import re
from pathlib import Path

import clips
import numpy as np
import pytest
from PIL import Image

import perturbations
from perturbations.base.errors import MediaError, UnknownPerturbationError
from perturbations.suites import registry

FRAMES = np.random.default_rng(0).integers(0, 256, (3, 40, 56, 3), np.uint8)
PICTURE = FRAMES[0]
VIDEO = registry.perturbations(kind="video")
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


def test_pictures_of_other_modes_become_rgb() -> None:
    grey = Image.fromarray(PICTURE).convert("L")
    assert perturbations.corrupt(grey, "mlvp/fog", 1).mode == "RGB"
    assert np.array_equal(np.asarray(perturbations.corrupt(grey, "mlvp/fog", 0)), np.asarray(grey.convert("RGB")))


@pytest.mark.parametrize("entry", OF_FRAMES, ids=lambda entry: entry.key)
def test_what_moves_frames_needs_a_clip(entry: registry.Perturbation) -> None:
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
    assert every == [entry.key for kind in ("video", "text") for entry in registry.perturbations(None, kind)]
    assert perturbations.names("tampering") == [entry.key for entry in registry.perturbations("tampering")]
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
        (PICTURE[..., 0], "mlvp/fog", ValueError, "of grey, give"),
        (PICTURE[..., :1], "mlvp/fog", ValueError, "of grey, give"),
        (np.zeros((4, 4, 4), np.uint8), "mlvp/fog", ValueError, "without the alpha channel"),
        (PICTURE / 255, "mlvp/fog", ValueError, "of values from 0 to 1"),
        ([PICTURE], "mlvp/fog", ValueError, "numpy.stack"),
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
