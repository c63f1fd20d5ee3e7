"""The offline embedding of clips, exact nearest neighbours, and the choice of donors."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from looping import each

from perturbations.demo import film
from perturbations.media.clip import uniform_indices
from perturbations.models.analysis import descriptor, neighbours
from perturbations.models.analysis.neighbours import largest_product, nearest, subset

# Small whole numbers: many equal directions, exact ties, zero vectors.
coarse = st.integers(-2, 2).map(float)
fine = st.floats(-1, 1, width=32)

ALL = np.zeros(3, bool)
"""None of three is excluded."""


@st.composite
def searches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count, number, dimensions = draw(st.integers(1, 6)), draw(st.integers(1, 12)), draw(st.integers(1, 9))
    values = draw(st.sampled_from((coarse, fine)))
    queries = draw(hnp.arrays(np.float32, (count, dimensions), elements=values))
    vectors = draw(hnp.arrays(np.float32, (number, dimensions), elements=values))
    return queries, vectors, draw(hnp.arrays(np.bool_, (count, number)))


def cosine(query: list[float], row: list[float]) -> float:
    """Without NumPy: sums that are rounded once."""
    sizes = math.hypot(*query), math.hypot(*row)
    return math.fsum(a / sizes[0] * b / sizes[1] for a, b in zip(query, row, strict=True) if all(sizes))


def product(query: list[float], row: list[float]) -> float:
    return math.fsum(map(float.__mul__, query, row))


@pytest.mark.parametrize(("search", "similarity"), [(nearest, cosine), (largest_product, product)])
@given(case=searches(), random=st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_it_is_what_brute_force_finds_in_any_order(
    search: Any, similarity: Any, case: tuple[np.ndarray, np.ndarray, np.ndarray], random: Any
) -> None:
    queries, vectors, excluded = case
    order = list(range(len(vectors)))
    random.shuffle(order)
    for query, mask in zip(queries, excluded, strict=True):
        expected = [round(similarity(query.tolist(), row), 12) for row in vectors.tolist()]
        allowed = [value for value, out in zip(expected, mask, strict=True) if not out]
        neighbour, moved = search(query, vectors, mask), search(query, vectors[order], mask[order])
        assert (neighbour is None) == (moved is None) == (not allowed)
        if neighbour is None:
            continue
        assert not mask[neighbour[0]]
        # Where the oracle's own rounding falls on the other side, the two are equally near.
        assert neighbour[1] == pytest.approx(max(allowed), abs=2e-12)
        assert expected[neighbour[0]] == pytest.approx(max(allowed), abs=2e-12)
        assert neighbour[1] == moved[1]


@pytest.mark.parametrize("dimensions", [3, 130, 512, 1500])
def test_neither_parts_nor_the_order_of_memory_change_a_bit(dimensions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(dimensions)
    vectors = rng.standard_normal((300, dimensions)).astype(np.float32)
    vectors[200:] = vectors[:100]  # ties
    queries = vectors + np.float32(1e-4) * rng.standard_normal(vectors.shape).astype(np.float32)
    none = np.zeros(300, bool)
    neighbours_of = [nearest(query, vectors, none) for query in queries]
    assert [neighbour[0] if neighbour else None for neighbour in neighbours_of] == [*range(200), *range(100)]
    others = [
        nearest(query, vectors, mask) for query, mask in zip(queries[:100], np.eye(300, dtype=bool), strict=False)
    ]
    assert [neighbour[0] for neighbour in others if neighbour] == [*range(200, 300)]
    monkeypatch.setattr(neighbours, "_ROWS", 1)
    assert [nearest(query, np.asfortranarray(vectors), none) for query in queries] == neighbours_of


def test_the_exact_comparison_decides_between_near_equals() -> None:
    # One direction at many lengths: float64 products differ in their last bits, the similarities must not.
    base = np.random.default_rng(0).standard_normal(512)
    vectors = np.stack([base * scale for scale in (3.0, 0.1, 7.7, 1.0, 1e-200, 1e200)])
    for query in vectors:
        for order in (slice(None), slice(None, None, -1)):
            assert nearest(query, vectors[order], np.zeros(6, bool)) == (0, 1.0)
    query = np.array([1.0, 0.0])
    angles = np.array([3e-5, 2e-5, 2.5e-5])
    assert nearest(query, np.stack([np.cos(angles), np.sin(angles)], axis=1), ALL)[0] == 1  # type: ignore[index]
    assert nearest([1.0, 2.0], np.zeros((0, 2)), ALL[:0]) is None


def test_a_vector_without_direction_is_like_nothing_and_arguments_are_left_alone() -> None:
    vectors = np.array([[-1.0, 0.0], [0.0, 0.0], [-1.0, -1.0]])
    assert nearest([1.0, 0.0], vectors, ALL) == (1, 0.0)
    neighbour = nearest([0.0, 0.0], vectors, ALL)
    assert neighbour == (0, 0.0)
    # And zero has no sign, where rounding would give it one.
    tiny = nearest([1.0, 0.0], [[-1e-14, 1.0]], ALL[:1])
    assert tiny == (0, 0.0)
    assert math.copysign(1, tiny[1]) == 1
    query, vectors, excluded = np.full(2, 2.0), np.full((3, 2), 3.0), np.array([True, False, False])
    assert nearest(query, vectors, excluded) == (1, 1.0)
    assert (query == 2).all()
    assert (vectors == 3).all()
    assert excluded.tolist() == [True, False, False]


# --- donors ----------------------------------------------------------------------------------------------------------


def keyed(seed: int) -> Any:
    return lambda item_id: hashlib.sha256(f"{seed}\0msrvtt\0{item_id}".encode()).hexdigest()


@given(st.sets(st.text(max_size=6), max_size=40), st.integers(1, 30), st.text(max_size=6), st.integers(0, 3))
def test_one_more_item_changes_at_most_one_donor(ids: set[str], size: int, added: str, seed: int) -> None:
    before, after = (subset(some, size, keyed(seed)) for some in (ids, ids | {added}))
    assert len(before) == min(size, len(ids))
    assert set(before) <= ids
    assert len(set(before) - set(after)) <= 1
    assert set(after) - set(before) <= {added}


def test_the_choice_depends_on_the_key_and_not_on_the_order() -> None:
    ids = [f"video{number}" for number in range(500)]
    chosen = subset(ids, 100, keyed(0))
    assert chosen == sorted(chosen)
    assert subset(reversed(ids), 100, keyed(0)) == chosen
    assert set(subset(ids, 99, keyed(0))) < set(chosen)
    # Another seed: some 20 of 100 in common.
    assert 5 < len(set(chosen) & set(subset(ids, 100, keyed(1)))) < 40
    assert subset(["c", "a", "b"], 2, lambda item_id: "") == ["a", "b"]
    assert subset(["b", "a"], 2000, keyed(0)) == ["a", "b"]
    assert subset([], 2000, keyed(0)) == []


def test_of_the_same_direction_the_longer_vector_has_the_larger_product_and_of_equals_the_first_is_taken() -> None:
    vectors, four = np.array([[1.0, 0], [3, 4], [3, 4], [0, 1]]), np.zeros(4, bool)
    assert nearest([1, 0.1], vectors, four) == (0, pytest.approx(0.995, abs=1e-3))
    assert largest_product([1, 0.1], vectors, four) == (1, pytest.approx(3.4))
    assert largest_product([1, 0.1], np.empty((0, 2)), four[:0]) is None


# --- the offline embedding of clips -----------------------------------------------------------------------------------


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
