"""The look at clips before a run survives whatever a dataset may list."""

from __future__ import annotations

from pathlib import Path

import clips
import pytest

from perturbations.plan.listed import ListedClip
from perturbations.preflight import survey


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return clips.make(tmp_path / "clip.mp4")


def part_of(path: Path, start_s: float, end_s: float) -> ListedClip:
    size = path.stat().st_size
    return ListedClip(
        item_id="a", source_video_id="a", path=str(path), bytes=size, start_s=start_s, end_s=end_s, split="test"
    )


@pytest.mark.parametrize("tier", ["high", "released", "frames"])
def test_a_span_that_is_shorter_than_half_a_frame_is_looked_at(tier: str, sound: Path, tmp_path: Path) -> None:
    look = survey.look([part_of(sound, 0.1, 0.11)], tier, tmp_path)
    assert look is not None
    assert look.clean is not None
    assert 0 < look.clean.keys <= look.clean.per_pixel
