"""Clips of less than a frame per second, such as slide shows, keep their rate."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import clips
import numpy as np
import pytest

from perturbations import perturb
from perturbations.base.storage import PROFILES
from perturbations.engine import shards
from perturbations.engine.source import source_of
from perturbations.media import encoding
from perturbations.media.clip import Frame, Timing
from perturbations.plan.listed import ListedClip


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 1800), Fraction(1, 3600)])
def test_the_rate_of_a_slide_show_is_its_own(rate: Fraction, tmp_path: Path) -> None:
    path = tmp_path / "slides.mp4"
    frames = (Frame(image, place, place) for place, image in enumerate(clips.noise(4)))
    encoding.encode(frames, path, PROFILES["compatible"], Timing(1 / rate, rate))
    row = shards.source_row("d", ListedClip(item_id="a", source_video_id="a", path=str(path)))
    assert row.fps == pytest.approx(float(rate))
    assert source_of(row).timing.frame_rate == pytest.approx(float(rate))


@pytest.mark.parametrize("fps", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(fps: float) -> None:
    with pytest.raises(ValueError, match="fps must be"):
        perturb(clips.noise(4), "mlvp/h264_compression", 1, seed=0, item_id="a", fps=fps)


def test_an_array_of_slides_goes_through_an_encoder() -> None:
    frames = np.repeat(clips.noise(1), 4, axis=0)
    assert perturb(frames, "mlvp/h264_compression", 1, seed=0, item_id="a", fps=1 / 3600).shape == frames.shape
