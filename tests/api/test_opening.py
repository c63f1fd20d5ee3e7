"""Clips opened and perturbed by other programs."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import clips
import numpy as np
import pandas as pd
import pytest
from pipeline_rows import ENTRIES, FRAMES, LOSSLESS, RECIPE, made_row, scene

import perturbations
import perturbations.base.errors
from perturbations import perturb
from perturbations.base.errors import UnknownPerturbationError
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.corpus.render.clean_clips import source_of
from perturbations.corpus.store import clip_rows
from perturbations.manifest.columns import values_of
from perturbations.media import encoding
from perturbations.media.clip import Frame, Timing
from perturbations.media.profiles import PROFILES

pytestmark = pytest.mark.usefixtures("in_this_process")


def test_clips_open_alike_in_threads(tmp_path: Path) -> None:
    """Nothing that kernels share is written to: evaluation opens many clips at once."""
    path = clips.write_scene(tmp_path / "clip.mp4", scene(10, 24, 32))
    entries = [*{entry.kernel: entry for entry in ENTRIES}.values()]
    rows = [made_row(entry.key, len(entry.severities), RECIPE, path, tmp_path / entry.key) for entry in entries]
    alone = [perturbations.open_clip(row) for row in rows]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(perturbations.open_clip, [row for row in rows for _ in range(2)]))
    for index, frames in enumerate(together):
        assert np.array_equal(frames, alone[index // 2]), entries[index // 2].key


def test_open_clip_picks_positions(tmp_path: Path) -> None:
    path = clips.write_scene(tmp_path / "clip.mp4", scene(9, 48, 64))
    for index, tier in enumerate([LOSSLESS, RECIPE, FRAMES]):
        row = made_row("mlvp/impulse_noise", 2, tier, path, tmp_path / str(index))
        whole = perturbations.open_clip(row)
        assert np.array_equal(perturbations.open_clip(row, [3, 0, 3]), whole[[3, 0, 3]])
        with pytest.raises(IndexError, match="there is no frame 9"):
            perturbations.open_clip(row, [9])


def test_open_clip_opens_clean_clips_and_refuses_a_quarantined_row(tmp_path: Path) -> None:
    frames = scene(4, 48, 64)
    row = clips.source_row(clips.write_scene(tmp_path / "clip.mp4", frames))
    assert np.array_equal(perturbations.open_clip(row), frames)
    row = {"dataset": "data", "split": "", "item_id": "it", "status": "quarantined", "error": "damaged"}
    with pytest.raises(perturbations.base.errors.ManifestError, match="'it' is not complete but quarantined: damaged"):
        perturbations.open_clip(row)


def test_a_stored_clip_opens_without_the_columns_that_became_an_index(tmp_path: Path) -> None:
    path = clips.write_scene(tmp_path / "clip.mp4", scene(4, 48, 64))
    row = made_row("mlvp/fog", 2, LOSSLESS, path, tmp_path / "out")
    table = pd.DataFrame([values_of(row)]).set_index(["item_id", "perturbation", "severity"])
    for frame in (table, table.convert_dtypes()):  # with NaN, and with `pandas.NA`
        assert np.array_equal(perturbations.open_clip(frame.iloc[0]), perturbations.open_clip(row))
    on_demand = table.assign(storage="recipe")
    with pytest.raises(perturbations.base.errors.ManifestError, match="does not have the column"):
        perturbations.open_clip(on_demand.iloc[0])


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (np.zeros((2, 8, 8), np.uint8), "T x H x W x 3"),
        (np.zeros((2, 8, 8, 3), np.float32), "uint8"),
        (np.zeros((0, 8, 8, 3), np.uint8), "at least one frame"),
        (np.full((2, 8, 8, 3), np.nan), "infinite or not a number"),
        (np.full((2, 8, 8, 3), -3.0), "values from -3 to -3 must be brought"),
    ],
)
def test_perturb_refuses_what_is_no_clip(frames: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        perturbations.perturb(frames, "mlvp/fog", 1, seed=0, item_id="it", fps=25)


CLIP = np.arange(2 * 8 * 9 * 3, dtype=np.uint8).reshape(2, 8, 9, 3)
GREY = np.repeat(CLIP[..., :1], 3, axis=-1)


@pytest.mark.parametrize("whole", [True, False], ids=["clip", "picture"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (lambda clip: clip / 255, CLIP),
        (lambda clip: clip / np.float32(127.5) - 1, CLIP),
        (lambda clip: np.abs(clip.astype(np.float32) - 0.25), CLIP),
        (lambda clip: clip.astype(np.int64), CLIP),
        (lambda clip: clip.astype(np.uint16) * 257, CLIP),
        (lambda clip: (clip * (1023 / 255)).round().astype(np.uint16), CLIP),
        (lambda clip: clip > 99, np.where(CLIP > 99, np.uint8(255), np.uint8(0))),
        (lambda clip: np.moveaxis(clip, -1, -3), CLIP),
        (lambda clip: np.moveaxis(clip, -1, 0) / 255, CLIP),
        (lambda clip: clip[..., 0], GREY),
        (lambda clip: clip[..., :1], GREY),
        (lambda clip: np.moveaxis(clip[..., :1], -1, -3), GREY),
        (lambda clip: clip[..., [0, 1, 2, 0]], CLIP),
        (lambda clip: clip[None] if clip.ndim == 4 else clip / 255, CLIP),
        (list, CLIP),
        (lambda clip: pytest.importorskip("torch").from_numpy(clip), CLIP),
    ],
)
def test_who_follows_the_advice_has_a_clip(given: Any, expected: np.ndarray, whole: bool) -> None:
    """Each message ends with an expression that makes the array a clip of the same picture."""
    value = given(CLIP if whole else CLIP[0])
    for call, name in (
        (partial(perturbations.perturb, seed=0, item_id="", fps=25), "frames"),
        (perturbations.corrupt, "clip"),
    ):
        mended: Any = value
        for _ in range(3):
            with contextlib.suppress(ValueError):
                taken = call(mended, "mlvp/fog", 0)
                break
            with pytest.raises(ValueError, match=f"{name} must be a uint8 array") as refused:
                call(mended, "mlvp/fog", 0)
            mended = eval(str(refused.value).split(", give ")[1], {"numpy": np, name: mended})
        wanted = expected if whole else expected[0]
        assert np.array_equal(np.squeeze(taken), wanted)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"seed": -1}, ValueError, "a seed is a whole number from 0 to"),
        ({"seed": "0"}, ValueError, "a seed is a whole number"),
        ({"seed": True}, ValueError, "a seed is a whole number"),
        ({"item_id": None}, TypeError, "an id is a text or a whole number, not NoneType"),
        ({"item_id": 7.0}, TypeError, "an id is a text or a whole number, not float: 7.0"),
        ({"dataset": None}, TypeError, "dataset is a text"),
        ({"severity": "3"}, UnknownPerturbationError, "no severity '3'"),
        ({"severity": 0.0}, UnknownPerturbationError, "no severity 0.0"),
        ({"severity": False}, UnknownPerturbationError, "no severity False"),
        ({"fps": "25"}, ValueError, "fps must be positive"),
        ({"variant": "relased"}, UnknownPerturbationError, "released"),
        ({"name": "mlvp/event_insertion"}, ValueError, "give `donors`, a list of other clips"),
        ({"name": "mlvp/event_insertion", "donors": [scene(3, 16, 16)]}, ValueError, "only the clip itself"),
        ({"name": "mlvp/event_insertion", "donors": scene(3, 16, 16)}, ValueError, "donor must be a uint8 array"),
    ],
)
def test_perturb_refuses_what_no_recipe_has(changed: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"name": "mlvp/fog", "severity": 1, "seed": 0, "item_id": "it", "fps": 25, **changed}
    with pytest.raises(error, match=message):
        perturbations.perturb(scene(3, 16, 16), **given)
    if not changed.keys() & {"name", "fps", "variant"}:
        given = {"name": "mm_robustness/ocr", "severity": 1, "seed": 0, "item_id": "it", **changed}
        with pytest.raises(error, match=message):
            perturbations.perturb_text("a dog", **given)


def test_a_number_is_the_id_of_its_digits() -> None:
    clip = scene(3, 16, 16)
    perturbed = [
        perturbations.perturb(clip, "mlvp/fog", 3, seed=0, item_id=id_, fps=25) for id_ in ("7", 7, np.int64(7))
    ]
    assert np.array_equal(perturbed[0], perturbed[1])
    assert np.array_equal(perturbed[0], perturbed[2])
    texts = {perturbations.perturb_text("a dog runs", "mm_robustness/ocr", seed=0, item_id=id_) for id_ in ("7", 7)}
    assert len(texts) == 1


def test_perturb_names_what_there_is_and_severity_0_is_the_clean_clip() -> None:
    frames = np.zeros((1, 8, 8, 3), np.uint8)
    with pytest.raises(perturbations.base.errors.UnknownPerturbationError, match="did you mean mlvp/fog"):
        perturbations.perturb(frames, "mlvp/fogg", 1, seed=0, item_id="it", fps=25)
    with pytest.raises(perturbations.base.errors.UnknownPerturbationError, match="no severity 6"):
        perturbations.perturb(frames, "mlvp/fog", 6, seed=0, item_id="it", fps=25)
    frames = scene(3, 16, 16)
    same = perturbations.perturb(frames, "mlvp/fog", 0, seed=0, item_id="it", fps=25)
    assert np.array_equal(same, frames)
    assert same is not frames


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 1800), Fraction(1, 3600)])
def test_the_rate_of_a_slide_show_is_its_own(rate: Fraction, tmp_path: Path) -> None:
    path = tmp_path / "slides.mp4"
    frames = (Frame(image, place, place) for place, image in enumerate(clips.noise(4)))
    encoding.encode(frames, path, PROFILES["compatible"], Timing(1 / rate, rate))
    row = clip_rows.source_row("d", ListedClip(item_id="a", source_video_id="a", path=str(path)))
    assert row.fps == pytest.approx(float(rate))
    assert source_of(row).timing.frame_rate == pytest.approx(float(rate))


@pytest.mark.parametrize("fps", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(fps: float) -> None:
    with pytest.raises(ValueError, match="fps must be"):
        perturb(clips.noise(4), "mlvp/h264_compression", 1, seed=0, item_id="a", fps=fps)


def test_an_array_of_slides_goes_through_an_encoder() -> None:
    frames = np.repeat(clips.noise(1), 4, axis=0)
    assert perturb(frames, "mlvp/h264_compression", 1, seed=0, item_id="a", fps=1 / 3600).shape == frames.shape
