"""What MLVP's occlusion and snow of the variant `released` do on clips of every length and size."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perturbations.base.arrays import uniform_indices
from perturbations.suites import registry
from perturbations.video import occlusion, weather

# --- occlusion -------------------------------------------------------------------------------------------------------


def rectangles(boxes: list[list[float]], size: tuple[int, int], ratio: float, seed: int = 0) -> list[np.ndarray | None]:
    """The black rectangle of each frame: x0, y0, x1, y1."""
    height, width = size
    drawn = occlusion.draw_places(np.random.default_rng(seed), len(boxes), height, width)
    apply = occlusion.occlusion_released(drawn, np.array(boxes, float), len(boxes), height, width, ratio=ratio)
    white = np.full((height, width, 3), 255, np.uint8)
    covered = []
    for index in range(len(boxes)):
        rows, columns = np.nonzero((apply(white, index) == 0).all(axis=2))
        corners = None
        if len(rows):
            corners = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
            assert len(rows) == np.prod(corners[2:] - corners[:2])
        covered.append(corners)
    return covered


NOTHING = [float("nan")] * 4


@given(st.lists(st.integers(-30, 90), min_size=4, max_size=4), st.sampled_from([0.3, 0.8]), st.integers(0, 2**32))
def test_a_box_is_cut_to_the_frame(box: list[int], ratio: float, seed: int) -> None:
    height, width = 40, 60
    low, high = np.clip(np.reshape(box, (2, 2)), 0, (width, height))
    (covered,) = rectangles([box], (height, width), ratio, seed)
    if (high <= low).any():
        assert covered is None
        return
    assert covered is not None
    sides = ((high - low) * ratio**0.5).astype(int)
    assert (covered[:2] >= low).all()
    # One pixel more than the sides: both corners are drawn; but the ends of the box are not reached.
    assert (covered[2:] <= np.maximum(high, covered[:2] + sides + 1)).all()
    assert np.array_equal(covered[2:] - covered[:2], np.minimum(sides + 1, np.array([width, height]) - covered[:2]))


def test_a_rectangle_at_a_border_shrinks_and_does_not_grow_again() -> None:
    seen = rectangles([[50, 30, 60, 40], *[NOTHING] * 11], (40, 60), 0.8, seed=1)
    areas = [0 if corners is None else int(np.prod(corners[2:] - corners[:2])) for corners in seen]
    assert areas[-1] < areas[0]
    steps = [
        np.abs(after - before).max()
        for before, after in itertools.pairwise(seen)
        if before is not None and after is not None
    ]
    assert max(steps) <= 6  # one more where the last pixel's end is the frame's


def test_where_rectangles_without_a_box_are_drawn_and_move() -> None:
    seen = rectangles([NOTHING] * 100, (200, 300), 0.5)
    moved = [index for index in range(1, 100) if not np.array_equal(seen[index - 1], seen[index])]
    assert set(moved) <= set(uniform_indices(12, 100)[1:])
    assert len(moved) >= 9  # a step may be none
    first, none, third = rectangles([[10, 10, 30, 30], [5, 5, 5, 40], NOTHING], (60, 80), 0.5)
    assert none is None
    assert first is not None
    assert third is not None
    assert np.abs(third - first).max() <= 5
    covered = [rectangles([NOTHING], (48, 80), 0.5, seed)[0] for seed in range(300)]
    sides = [corners[2:] - corners[:2] for corners in covered if corners is not None]
    widths, heights = zip(*sides, strict=True)
    assert (min(widths), max(widths), min(heights), max(heights)) == (11, 20, 7, 12)


# --- snow ------------------------------------------------------------------------------------------------------------


def snowfall(num_frames: int, height: int = 20, width: int = 16) -> np.ndarray:
    """Snow on black frames."""
    entry = registry.get("mlvp/snow")
    drawn = weather.draw_sampled_snow(np.random.default_rng(0), num_frames, height, width)
    apply = weather.sampled_snow(drawn, num_frames, height, width, **entry.parameters(1))
    black = np.zeros((height, width, 3), np.uint8)
    return np.stack([apply(black, index) for index in range(num_frames)])


@pytest.mark.parametrize("num_frames", [1, 2, 5, 11, 12, 13, 24, 100, 301])
def test_the_12_sampled_frames_of_any_clip_see_the_snow_of_12_frames(num_frames: int) -> None:
    sampled = min(12, num_frames)
    drawn = weather.draw_snow(np.random.default_rng(0), sampled, 20, 16)
    apply = weather.snow(drawn, sampled, 20, 16, **registry.get("mlvp/snow").parameters(1))
    expected = np.stack([apply(np.zeros((20, 16, 3), np.uint8), index) for index in range(sampled)])
    assert np.array_equal(snowfall(num_frames)[uniform_indices(sampled, num_frames)], expected)


def test_snow_falls_row_by_row_between_sampled_frames() -> None:
    frames = snowfall(288, 60, 50)
    changes = [index for index in range(1, 288) if not np.array_equal(frames[index - 1], frames[index])]
    assert len(changes) == 33
    assert set(np.diff(changes)) <= {7, 8, 9}
