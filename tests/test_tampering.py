"""One stretch of a clip is tampered with: where it lies, and what becomes of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perturbations.suites import registry
from perturbations.video import tampering

PLACES = st.floats(0, 1, exclude_max=True)
LENGTHS = st.integers(1, 300)
SHARES = st.floats(0, 1)


@given(PLACES, LENGTHS, SHARES, SHARES)
def test_longer_stretches_contain_shorter_ones(place: float, num_frames: int, one: float, other: float) -> None:
    start, end = tampering.stretch(place, num_frames, min(one, other))
    outer_start, outer_end = tampering.stretch(place, num_frames, max(one, other))
    assert 0 <= outer_start <= start < end <= outer_end <= num_frames


def test_the_place_reaches_both_ends_of_the_clip() -> None:
    stretches = {tampering.stretch(place, 10, 0.3) for place in np.linspace(0, 0.999, 50)}
    assert stretches == {(start, start + 3) for start in range(8)}


@pytest.mark.parametrize("name", ["mask", "rotate"])
def test_frames_outside_of_the_stretch_stay(name: str) -> None:
    frames = np.random.default_rng(0).integers(1, 256, (20, 6, 8, 3), dtype=np.uint8)
    apply = getattr(tampering, name)(0.5, 20, 6, 8, share=0.3)
    result = np.stack([apply(frame, index) for index, frame in enumerate(frames)])
    start, end = tampering.stretch(0.5, 20, 0.3)
    expected = frames.copy()
    expected[start:end] = 0 if name == "mask" else frames[start:end, ::-1, ::-1]
    assert end - start == 6
    assert np.array_equal(result, expected)


def test_plans_of_one_stretch() -> None:
    """Of ten frames, 4, 5 and 6."""
    assert tampering.stretch(0.5, 10, 0.3) == (4, 7)
    assert tampering.repeat(0.5, 10, share=0.3).tolist() == [0, 1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8, 9]
    assert tampering.drop(0.5, 10, share=0.3).tolist() == [0, 1, 2, 3, 7, 8, 9]
    assert tampering.reverse(0.5, 10, share=0.3).tolist() == [0, 1, 2, 3, 6, 5, 4, 7, 8, 9]


def test_another_clip_is_seen_in_the_stretch() -> None:
    plan = tampering.substitute((0.5, 0.75), (8, 2.0), 10, share=0.3, donors=1)
    # From frame 6 on, two frames per frame of the clip: at place 4 it is frame 14, which is the 6th again.
    assert plan.tolist() == [0, 1, 2, 3, ~6, ~0, ~2, 7, 8, 9]


@given(PLACES, PLACES, LENGTHS, st.integers(1, 50), st.floats(0.1, 5))
def test_severities_show_the_same_of_the_other_clip(
    place: float, offset: float, num_frames: int, donor_frames: int, step: float
) -> None:
    plans = [
        tampering.substitute((place, offset), (donor_frames, step), num_frames, donors=1, **_share(severity))
        for severity in registry.get("tampering/substitute").severities
    ]
    for milder, stronger in itertools.pairwise(plans):
        assert np.array_equal(milder[milder < 0], stronger[milder < 0])
    assert all((~plan[plan < 0] < donor_frames).all() for plan in plans)
    assert all((plan >= 0).any() for plan in plans)


def _share(severity: int) -> dict[str, float]:
    share = registry.get("tampering/mask").parameters(severity)["share"]
    assert isinstance(share, float)
    return {"share": share}


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_clip_of_one_frame_is_kept(share: float) -> None:
    assert tampering.drop(0.3, 1, share=share).tolist() == [0]
    assert tampering.reverse(0.3, 1, share=share).tolist() == [0]
    assert tampering.substitute((0.3, 0.3), (5, 1.0), 1, share=share, donors=1).tolist() == [0]
    assert tampering.repeat(0.3, 1, share=share).tolist() == [0, 0]
