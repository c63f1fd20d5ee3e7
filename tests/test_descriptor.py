"""The offline clip embedding."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from looping import each

from perturbations.analysis import descriptor
from perturbations.demo import film
from perturbations.media.clip import uniform_indices


def sampled(frames: list[np.ndarray], count: int = 12) -> list[np.ndarray]:
    return [frames[place] for place in uniform_indices(count, len(frames))]


@pytest.fixture(scope="module")
def films() -> list[list[np.ndarray]]:
    return [list(film.frames(index)) for index in range(16)]


def test_it_is_408_numbers_of_length_1_and_leaves_the_frames_alone(films: list[list[np.ndarray]]) -> None:
    frames = [frame.copy() for frame in sampled(films[0])]
    vector = descriptor.describe(frames)
    assert (vector.shape, vector.dtype) == ((408,), np.float32)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
    assert np.array_equal(descriptor.describe(sampled(films[0])), vector)
    assert all(np.array_equal(image, original) for image, original in zip(frames, sampled(films[0]), strict=True))


def test_odd_frames_and_brighter_ones_are_nearer_than_other_clips(films: list[list[np.ndarray]]) -> None:
    even = np.stack([descriptor.describe(sampled(frames[::2])) for frames in films])
    odd = np.stack([descriptor.describe(sampled(frames[1::2])) for frames in films])
    similar = even @ odd.T
    assert similar.argmax(axis=1).tolist() == list(range(len(films)))
    others = similar[~np.eye(len(films), dtype=bool)]
    assert np.diag(similar).min() > 0.95
    assert np.median(others) < 0.6
    plain = np.stack([descriptor.describe(sampled(frames)) for frames in films])
    for index, frames in enumerate(films):
        brighter = [cv2.convertScaleAbs(frame, alpha=1.1, beta=4) for frame in sampled(frames)]
        assert int((plain @ descriptor.describe(brighter)).argmax()) == index


@each("size", [(1, 1), (1, 90), (200, 3), (240, 320)])
@each("count", [1, 2, 12])
@each("level", [0, 128, 255])
def test_any_clip_has_one(size: tuple[int, int], count: int, level: int) -> None:
    vector = descriptor.describe([np.full((*size, 3), level, np.uint8)] * count)
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_black_and_white_are_not_alike_and_a_clip_needs_a_frame() -> None:
    black, white = (descriptor.describe([np.full((9, 9, 3), level, np.uint8)]) for level in (0, 255))
    assert float(black @ white) < 0.3
    with pytest.raises(ValueError, match="without frames"):
        descriptor.describe([])
