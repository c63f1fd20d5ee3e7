"""Rectangles over the main object."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perturbations.video import occlusion

RATIOS = st.floats(0.05, 1.0)


def covered(boxes: np.ndarray, size: tuple[int, int], ratio: float, seed: int = 0) -> np.ndarray:
    """Which pixels are black, N x H x W."""
    drawn = occlusion.draw_places(np.random.default_rng(seed), len(boxes), *size)
    apply = occlusion.main_object_occlusion(drawn, boxes, len(boxes), *size, ratio=ratio)
    white = np.full((*size, 3), 255, np.uint8)
    return np.stack([(apply(white, index) == 0).all(axis=2) for index in range(len(boxes))])


def rectangle(mask: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    box = int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
    assert mask[box[1] : box[3], box[0] : box[2]].all()
    assert mask.sum() == (box[2] - box[0]) * (box[3] - box[1])
    return box


@given(st.integers(0, 60), st.integers(0, 40), st.integers(8, 60), st.integers(8, 50), RATIOS, st.integers(0, 99))
def test_the_rectangle_is_a_part_of_the_box(x: int, y: int, width: int, height: int, ratio: float, seed: int) -> None:
    size = (120, 160)
    (mask,) = covered(np.array([[x, y, x + width, y + height]], float), size, ratio, seed)
    x0, y0, x1, y1 = rectangle(mask)
    assert (x0 >= x, y0 >= y, x1 <= x + width + 1, y1 <= y + height + 1) == (True,) * 4
    assert (x1 - x0, y1 - y0) == (int(width * ratio**0.5) + 1, int(height * ratio**0.5) + 1)


def test_the_area_grows_with_the_ratio_at_the_same_place() -> None:
    boxes = np.array([[20, 10, 120, 90]], float)
    small, large = (covered(boxes, (120, 160), ratio)[0] for ratio in (0.3, 0.8))
    assert small.sum() == pytest.approx(0.3 * 8000, rel=0.06)
    assert large.sum() == pytest.approx(0.8 * 8000, rel=0.06)


def test_the_place_is_drawn_for_each_frame_and_anywhere_in_the_box() -> None:
    boxes = np.repeat(np.array([[10, 10, 60, 50]], float), 400, axis=0)
    corners = {rectangle(mask)[:2] for mask in covered(boxes, (60, 80), 0.5)}
    across, down = zip(*corners, strict=True)
    assert (min(across), max(across), min(down), max(down)) == (10, 25, 10, 22)


def test_without_a_box_the_last_rectangle_moves_a_little() -> None:
    boxes = np.full((300, 4), np.nan)
    boxes[0] = 40, 30, 80, 60
    rectangles = np.array([rectangle(mask) for mask in covered(boxes, (90, 120), 0.5)])
    steps = np.diff(rectangles[:, :2], axis=0)
    assert np.abs(steps).max() == 5
    assert len({tuple(step) for step in steps.tolist()}) > 60
    # Never larger, and never outside.
    assert (rectangles[:, 2] - rectangles[:, 0]).max() == rectangles[0, 2] - rectangles[0, 0]
    assert (rectangles[:, 2] <= 120).all()
    assert (rectangles[:, 3] <= 90).all()


def test_where_no_rectangle_was_yet_a_centred_one_stands_in() -> None:
    boxes = np.full((3, 4), np.nan)
    boxes[2] = 0, 0, 20, 20
    for seed in range(20):
        first, second, third = (rectangle(mask) for mask in covered(boxes, (80, 160), 0.5, seed))
        width, height = first[2] - first[0], first[3] - first[1]
        assert 160 // 8 <= width - 1 <= 160 // 4
        assert 80 // 8 <= height - 1 <= 80 // 4
        assert abs((first[0] + first[2]) / 2 - 80) <= 1
        assert abs((first[1] + first[3]) / 2 - 40) <= 1
        assert max(abs(before - after) for before, after in zip(first[:2], second[:2], strict=True)) <= 5
        assert third[2] <= 21


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (1, 9), (7, 5)])
def test_tiny_frames(size: tuple[int, int]) -> None:
    height, width = size
    boxes = np.array([[np.nan] * 4, [0, 0, width, height], [np.nan] * 4], float)
    for ratio in (0.3, 0.8):
        assert covered(boxes, size, ratio).any(axis=(1, 2)).all()


def test_a_box_that_reaches_out_of_the_frame() -> None:
    boxes = np.array([[-10, -10, 30, 30], [50, 50, 90, 90]], float)
    assert covered(boxes, (60, 60), 0.8).any(axis=(1, 2)).all()
