"""Rectangles over the main object (MLVP, Alg. 3), as the text says it and as its code does it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perturbations.base.arrays import uniform_indices
from perturbations.video import occlusion

NOTHING = [float("nan")] * 4
RATIOS = st.floats(0.05, 1.0)


def rectangles(
    kernel: Callable[..., Callable[[np.ndarray, int], np.ndarray]],
    boxes: list[list[float]],
    size: tuple[int, int],
    ratio: float,
    seed: int = 0,
) -> list[np.ndarray | None]:
    """The black rectangle of each frame: x0, y0, x1, y1, the ends excluded; None where nothing is covered."""
    drawn = occlusion.draw_places(np.random.default_rng(seed), len(boxes), *size)
    apply = kernel(drawn, np.array(boxes, float), len(boxes), *size, ratio=ratio)
    white = np.full((*size, 3), 255, np.uint8)
    covered: list[np.ndarray | None] = []
    for index in range(len(boxes)):
        rows, columns = np.nonzero((apply(white, index) == 0).all(axis=2))
        corners = None
        if len(rows):
            corners = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
            assert len(rows) == np.prod(corners[2:] - corners[:2])
        covered.append(corners)
    return covered


# --- the text --------------------------------------------------------------------------------------------------------


def of_text(boxes: list[list[float]], size: tuple[int, int], ratio: float, seed: int = 0) -> np.ndarray:
    """N x 4; every frame has a rectangle."""
    return np.array(rectangles(occlusion.main_object_occlusion, boxes, size, ratio, seed), int)


@given(st.integers(0, 60), st.integers(0, 40), st.integers(8, 60), st.integers(8, 50), RATIOS, st.integers(0, 99))
def test_the_rectangle_is_a_part_of_the_box(x: int, y: int, width: int, height: int, ratio: float, seed: int) -> None:
    ((x0, y0, x1, y1),) = of_text([[x, y, x + width, y + height]], (120, 160), ratio, seed)
    assert (x0 >= x, y0 >= y, x1 <= x + width + 1, y1 <= y + height + 1) == (True,) * 4
    assert (x1 - x0, y1 - y0) == (int(width * ratio**0.5) + 1, int(height * ratio**0.5) + 1)


def test_without_a_box_the_last_rectangle_moves_a_little() -> None:
    seen = of_text([[40, 30, 80, 60], *[NOTHING] * 299], (90, 120), 0.5)
    steps = np.diff(seen[:, :2], axis=0)
    assert np.abs(steps).max() == 5
    assert len({tuple(step) for step in steps.tolist()}) > 60
    # Never larger, and never outside.
    assert (seen[:, 2] - seen[:, 0]).max() == seen[0, 2] - seen[0, 0]
    assert (seen[:, 2:] <= (120, 90)).all()


def test_before_the_first_box_a_centred_rectangle_is_covered() -> None:
    for seed in range(20):
        first, second, third = of_text([NOTHING, NOTHING, [0, 0, 20, 20]], (80, 160), 0.5, seed)
        sides = first[2:] - first[:2] - 1
        assert ((sides >= (160 // 8, 80 // 8)) & (sides <= (160 // 4, 80 // 4))).all()
        assert np.abs((first[:2] + first[2:]) / 2 - (80, 40)).max() <= 1
        assert np.abs(first[:2] - second[:2]).max() <= 5
        assert third[2] <= 21


def test_a_box_that_leaves_the_frame_is_covered_inside() -> None:
    assert len(of_text([[-10, -10, 30, 30], [50, 50, 90, 90]], (60, 60), 0.8)) == 2


# --- the code --------------------------------------------------------------------------------------------------------


def released(boxes: list[list[float]], size: tuple[int, int], ratio: float, seed: int = 0) -> list[np.ndarray | None]:
    return rectangles(occlusion.occlusion_released, boxes, size, ratio, seed)


@given(st.lists(st.integers(-30, 90), min_size=4, max_size=4), st.sampled_from([0.3, 0.8]), st.integers(0, 2**32))
def test_a_box_is_cut_to_the_frame(box: list[int], ratio: float, seed: int) -> None:
    height, width = 40, 60
    low, high = np.clip(np.reshape(box, (2, 2)), 0, (width, height))
    (covered,) = released([box], (height, width), ratio, seed)
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
    seen = released([[50, 30, 60, 40], *[NOTHING] * 11], (40, 60), 0.8, seed=1)
    areas = [0 if corners is None else int(np.prod(corners[2:] - corners[:2])) for corners in seen]
    assert areas[-1] < areas[0]
    steps = [
        np.abs(after - before).max()
        for before, after in itertools.pairwise(seen)
        if before is not None and after is not None
    ]
    assert max(steps) <= 6  # one more where the last pixel's end is the frame's


def test_where_rectangles_without_a_box_are_drawn_and_move() -> None:
    seen = released([NOTHING] * 100, (200, 300), 0.5)
    moved = [index for index in range(1, 100) if not np.array_equal(seen[index - 1], seen[index])]
    assert set(moved) <= set(uniform_indices(12, 100)[1:])
    assert len(moved) >= 9  # a step may be none
    first, none, third = released([[10, 10, 30, 30], [5, 5, 5, 40], NOTHING], (60, 80), 0.5)
    assert none is None
    assert first is not None
    assert third is not None
    assert np.abs(third - first).max() <= 5
    covered = [released([NOTHING], (48, 80), 0.5, seed)[0] for seed in range(300)]
    sides = [corners[2:] - corners[:2] for corners in covered if corners is not None]
    widths, heights = zip(*sides, strict=True)
    assert (min(widths), max(widths), min(heights), max(heights)) == (11, 20, 7, 12)
