"""The offline clip embedding."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from perturbations import demo, media
from perturbations.analysis import descriptor


def sampled(frames: list[np.ndarray], count: int = 12) -> list[np.ndarray]:
    return [frames[place] for place in media.uniform_indices(count, len(frames))]


@pytest.fixture(scope="module")
def films() -> list[list[np.ndarray]]:
    return [list(demo.frames(index)) for index in range(10)]


def test_it_is_a_vector_of_length_1(films: list[list[np.ndarray]]) -> None:
    vector = descriptor.describe(sampled(films[0]))
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
    assert np.array_equal(descriptor.describe(sampled(films[0])), vector)


def test_odd_and_even_frames_of_a_clip_are_nearer_than_other_clips(films: list[list[np.ndarray]]) -> None:
    even = np.stack([descriptor.describe(sampled(frames[::2])) for frames in films])
    odd = np.stack([descriptor.describe(sampled(frames[1::2])) for frames in films])
    similar = even @ odd.T
    assert similar.argmax(axis=1).tolist() == list(range(len(films)))
    others = similar[~np.eye(len(films), dtype=bool)]
    assert np.diag(similar).min() > 0.95
    assert np.median(others) < 0.6


def test_the_size_of_the_frames_hardly_matters(films: list[list[np.ndarray]]) -> None:
    large = [cv2.resize(frame, (640, 480), interpolation=cv2.INTER_AREA) for frame in sampled(films[1])]
    assert float(descriptor.describe(large) @ descriptor.describe(sampled(films[1]))) > 0.98


def test_only_the_motion_depends_on_the_order(films: list[list[np.ndarray]]) -> None:
    frames = sampled(films[2])
    backwards = descriptor.describe(frames[::-1])
    np.testing.assert_allclose(backwards, descriptor.describe(frames), atol=1e-5)
    shuffled = descriptor.describe([*frames[::3], *frames[1::3], *frames[2::3]])
    assert 0.9 < float(shuffled @ descriptor.describe(frames)) < 1 - 1e-5


@pytest.mark.parametrize("size", [(1, 1), (1, 90), (200, 3), (240, 320)])
@pytest.mark.parametrize("count", [1, 2, 12])
@pytest.mark.parametrize("level", [0, 128, 255])
def test_any_clip_has_one(size: tuple[int, int], count: int, level: int) -> None:
    vector = descriptor.describe([np.full((*size, 3), level, np.uint8)] * count)
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_black_and_white_are_not_alike() -> None:
    black, white = (descriptor.describe([np.full((9, 9, 3), level, np.uint8)]) for level in (0, 255))
    assert float(black @ white) < 0.3
