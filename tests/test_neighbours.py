"""Exact nearest neighbours, and the choice of donors."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from perturbations.analysis import neighbours
from perturbations.analysis.neighbours import largest_product, nearest, subset

# Small whole numbers: many equal directions, exact ties, zero vectors.
coarse = st.integers(-2, 2).map(float)
fine = st.floats(-1, 1, width=32)


@st.composite
def searches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count, number, dimensions = draw(st.integers(1, 6)), draw(st.integers(1, 12)), draw(st.integers(1, 9))
    values = draw(st.sampled_from((coarse, fine)))
    queries = draw(hnp.arrays(np.float32, (count, dimensions), elements=values))
    vectors = draw(hnp.arrays(np.float32, (number, dimensions), elements=values))
    return queries, vectors, draw(hnp.arrays(np.bool_, (count, number)))


def oracle(query: np.ndarray, vectors: np.ndarray, excluded: np.ndarray) -> tuple[int, float] | None:
    """Without NumPy: sums that are rounded once."""
    best: tuple[int, float] | None = None
    left = [float(value) for value in query]
    for position, row in enumerate(vectors):
        if excluded[position]:
            continue
        right = [float(value) for value in row]
        size = math.hypot(*left) * math.hypot(*right)
        dot = math.fsum(
            a / math.hypot(*left) * b / math.hypot(*right) for a, b in zip(left, right, strict=True) if size
        )
        similarity = round(dot, 12)
        if best is None or similarity > best[1]:
            best = position, similarity
    return best


@given(searches())
@settings(max_examples=200)
def test_it_is_what_brute_force_finds(search: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    queries, vectors, excluded = search
    for query, mask in zip(queries, excluded, strict=True):
        neighbour = nearest(query, vectors, mask)
        expected = oracle(query, vectors, mask)
        if expected is None:
            assert neighbour is None
        else:
            assert neighbour is not None
            assert not mask[neighbour.position]
            assert neighbour.similarity == pytest.approx(expected[1], abs=2e-12)
            # Where the oracle's own rounding falls on the other side, the two are equally near.
            own = oracle(query, vectors[neighbour.position][None], np.zeros(1, bool))
            assert own is not None
            assert neighbour.position == expected[0] or abs(own[1] - expected[1]) < 2e-12


@given(searches(), st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_the_order_of_the_index_does_not_matter(search: tuple[np.ndarray, np.ndarray, np.ndarray], random: Any) -> None:
    queries, vectors, excluded = search
    order = list(range(len(vectors)))
    random.shuffle(order)
    for query, mask in zip(queries, excluded, strict=True):
        neighbour, moved = nearest(query, vectors, mask), nearest(query, vectors[order], mask[order])
        assert (moved is None) == (neighbour is None)
        if moved is not None and neighbour is not None:
            assert moved.similarity == neighbour.similarity


@pytest.mark.parametrize("dimensions", [3, 130, 512, 1500])
def test_neither_parts_nor_the_order_of_memory_change_a_bit(dimensions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(dimensions)
    vectors = rng.standard_normal((300, dimensions)).astype(np.float32)
    vectors[200:] = vectors[:100]  # ties
    queries = vectors + np.float32(1e-4) * rng.standard_normal(vectors.shape).astype(np.float32)
    neighbours_of = [nearest(query, vectors) for query in queries]
    assert [neighbour.position if neighbour else None for neighbour in neighbours_of] == [*range(200), *range(100)]
    others = [
        nearest(query, vectors, mask) for query, mask in zip(queries[:100], np.eye(300, dtype=bool), strict=False)
    ]
    assert [neighbour.position for neighbour in others if neighbour] == [*range(200, 300)]
    monkeypatch.setattr(neighbours, "_ROWS", 1)
    assert [nearest(query, np.asfortranarray(vectors)) for query in queries] == neighbours_of


def test_of_near_equals_the_exact_comparison_decides_and_excluded_ones_are_never_chosen() -> None:
    # One direction at many lengths: float64 products differ in their last bits, the similarities must not.
    base = np.random.default_rng(0).standard_normal(512)
    vectors = np.stack([base * scale for scale in (3.0, 0.1, 7.7, 1.0, 1e-200, 1e200)])
    for query in vectors:
        for order in (slice(None), slice(None, None, -1)):
            assert nearest(query, vectors[order]) == (0, 1.0)
    query = np.array([1.0, 0.0])
    angles = np.array([3e-5, 2e-5, 2.5e-5])
    assert nearest(query, np.stack([np.cos(angles), np.sin(angles)], axis=1))[0] == 1  # type: ignore[index]
    vectors = np.eye(3)
    assert nearest(vectors[1], vectors) == (1, 1.0)
    assert nearest(vectors[1], vectors, np.array([False, True, False])) == (0, 0.0)
    assert nearest(vectors[1], vectors, np.array([True, True, False])) == (2, 0.0)
    assert nearest(vectors[1], vectors, np.ones(3, bool)) is None
    # The opposite is chosen where it is all there is.
    assert nearest(vectors[1], -vectors[1:2]) == (0, -1.0)
    assert nearest([1.0, 2.0], np.zeros((0, 2))) is None


def test_a_vector_without_direction_is_like_nothing_and_arguments_are_left_alone() -> None:
    vectors = np.array([[-1.0, 0.0], [0.0, 0.0], [-1.0, -1.0]])
    assert nearest([1.0, 0.0], vectors) == (1, 0.0)
    neighbour = nearest([0.0, 0.0], vectors)
    assert neighbour == (0, 0.0)
    # And zero has no sign, where rounding would give it one.
    tiny = nearest([1.0, 0.0], [[-1e-14, 1.0]])
    assert tiny == (0, 0.0)
    assert math.copysign(1, tiny.similarity) == 1
    query, vectors, excluded = np.full(2, 2.0), np.full((3, 2), 3.0), np.array([True, False, False])
    assert nearest(query, vectors, excluded) == (1, 1.0)
    assert (query == 2).all()
    assert (vectors == 3).all()
    assert excluded.tolist() == [True, False, False]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_refused(value: float) -> None:
    broken = np.eye(3)
    broken[1, 2] = value
    for query, vectors in (([1.0, 0.0, 0.0], broken), (broken[1], np.eye(3))):
        with pytest.raises(ValueError, match="a value that is not finite"):
            nearest(query, vectors)


@pytest.mark.parametrize(
    ("query", "vectors", "excluded", "message"),
    [
        ([1.0], [[1.0, 2.0]], None, r"query is of shape \(1,\), vectors are of shape \(1, 2\)"),
        ([[1.0]], [[1.0]], None, r"query is of shape \(1, 1\)"),
        ([1.0], [1.0], None, r"vectors are of shape \(1,\)"),
        ([1.0], [[1.0]], [0], "excluded is int64"),
        ([1.0], [[1.0]], [True, False], r"\(2,\), not bool \(1,\)"),
    ],
)
def test_shapes_must_fit(query: Any, vectors: Any, excluded: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nearest(query, vectors, excluded)


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


# --- dot product -----------------------------------------------------------------------------------------------------


@given(searches())
def test_the_largest_product_is_what_brute_force_finds(search: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    queries, vectors, excluded = search
    for query, mask in zip(queries, excluded, strict=True):
        products = [round(math.fsum(map(float.__mul__, query.tolist(), row)), 12) for row in vectors.tolist()]
        allowed = [position for position in range(len(vectors)) if not mask[position]]
        neighbour = largest_product(query, vectors, mask)
        if not allowed:
            assert neighbour is None
        else:
            assert neighbour is not None
            assert neighbour.position in allowed
            best = max(products[position] for position in allowed)
            assert products[neighbour.position] == pytest.approx(best, abs=2e-12)
            assert neighbour.similarity == pytest.approx(best, abs=2e-12)


def test_of_the_same_direction_the_longer_vector_has_the_larger_product_and_of_equals_the_first_is_taken() -> None:
    vectors = np.array([[1.0, 0], [3, 4], [3, 4], [0, 1]])
    assert nearest([1, 0.1], vectors) == (0, pytest.approx(0.995, abs=1e-3))
    assert largest_product([1, 0.1], vectors) == (1, pytest.approx(3.4))
    assert largest_product([1, 0.1], np.empty((0, 2))) is None
