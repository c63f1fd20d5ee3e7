"""Recall, ranks, robustness and hubness: by hand, against other libraries, and what must hold for any matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from perturbations.retrieval import (
    gamma_a,
    gamma_r,
    hubness,
    hubness_of,
    k_occurrence,
    mmi,
    ranks,
    recall_at_k,
    score,
    summary,
    summary_of_ranks,
)
from perturbations.retrieval.metrics import first_places
from perturbations.retrieval.scoring import cosines

# Few distinct values, so that ties are common; and what a broken model says.
SCORES = st.sampled_from([-1.0, -0.0, 0.0, 0.25, 1.0, np.inf, -np.inf, np.nan])
MATRICES = st.tuples(st.integers(1, 6), st.integers(1, 7)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=SCORES)
)


def _slow_rank(row: Any, targets: Any) -> int:
    row = [float("-inf") if np.isnan(score) else float(score) for score in row]
    best = max(row[target] for target in targets)
    return 1 + sum(score >= best for place, score in enumerate(row) if place not in targets)


# --- ranks and recall --------------------------------------------------------------------------------------------


def test_ranks_by_hand() -> None:
    similarities = np.array(
        [
            [0.9, 0.1, 0.2, 0.3],  # first
            [0.9, 0.5, 0.2, 0.7],  # behind two
            [0.5, 0.1, 0.5, 0.0],  # a tie counts against it
            [np.nan, 0.0, 0.1, np.nan],  # NaN is behind everything, the other NaN too
        ]
    )
    assert ranks(similarities, range(4)).tolist() == [1, 3, 2, 4]
    assert [recall_at_k(similarities, range(4), k) for k in (1, 2, 3, 4, 9)] == [25, 50, 75, 100, 100]
    result = summary(similarities, [0, 1, 2, 3])
    assert result == {
        "recall_at_1": 25, "recall_at_5": 100, "recall_at_10": 100, "recall_at_50": 100, "recall_at_100": 100,
        "median_rank": 2.5, "mean_rank": 2.5, "rsum": 225,
    }  # fmt: skip


def test_several_targets_count_once_and_do_not_stand_in_each_others_way() -> None:
    similarities = np.array([[0.9, 0.8, 0.8, 0.1], [0.1, 0.2, 0.3, 0.4]])
    assert ranks(similarities, [[1, 2], [0, 1]]).tolist() == [2, 3]
    assert ranks(similarities, [(2, 1, 1), 3]).tolist() == [2, 1]
    mask = np.array([[False, True, True, False], [True, True, False, False]])
    assert ranks(similarities, mask).tolist() == [2, 3]
    assert ranks(similarities, mask.tolist()).tolist() == [2, 3]
    assert ranks(similarities, np.array([[1, 2], [0, 1]])).tolist() == [2, 3]
    assert ranks(similarities, np.array([1, 3], np.uint8)).tolist() == [3, 1]


@given(MATRICES, st.randoms(use_true_random=False))
def test_ranks_are_what_counting_gives(similarities: Any, random: Any) -> None:
    gallery = similarities.shape[1]
    targets = [random.sample(range(gallery), random.randint(1, gallery)) for _ in similarities]
    result = ranks(similarities, targets)
    assert result.tolist() == [_slow_rank(row, mine) for row, mine in zip(similarities, targets, strict=True)]
    assert np.all((result >= 1) & (result <= gallery))
    recalls = [recall_at_k(similarities, targets, k) for k in range(1, gallery + 1)]
    assert recalls == sorted(recalls)
    assert recalls[-1] == 100


@given(MATRICES, st.randoms(use_true_random=False))
def test_the_galleries_order_does_not_matter_to_occurrence(similarities: Any, random: Any) -> None:
    gallery = similarities.shape[1]
    order = np.array(random.sample(range(gallery), gallery))
    assert np.allclose(k_occurrence(similarities, 2)[order], k_occurrence(similarities[:, order], 2))


def test_many_queries_are_done_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    similarities = rng.integers(0, 9, (50, 30)).astype(np.float32)
    targets = [rng.choice(30, size, replace=False) for size in rng.integers(1, 4, 50)]
    whole = ranks(similarities, targets), k_occurrence(similarities)
    monkeypatch.setattr("perturbations.retrieval.matrices._BLOCK", 100)
    assert np.array_equal(whole[0], ranks(similarities, targets))
    assert np.allclose(whole[1], k_occurrence(similarities))


def test_tensors_are_taken_as_they_are() -> None:
    torch = pytest.importorskip("torch")
    similarities = torch.tensor([[0.5, 0.25], [0.75, 0.5]], requires_grad=True)
    assert ranks(similarities, torch.tensor([0, 1])).tolist() == [1, 2]
    assert ranks(similarities.to(torch.bfloat16), torch.eye(2, dtype=torch.bool)).tolist() == [1, 2]
    assert ranks(similarities.half(), [torch.tensor([0]), torch.tensor(1)]).tolist() == [1, 2]
    assert hubness(similarities, k=1) == hubness(similarities.detach().numpy(), k=1)


def test_the_input_is_left_as_it_was() -> None:
    similarities = np.array([[np.nan, 1.0], [0.0, np.nan]])
    before = similarities.copy()
    summary(similarities, [0, 1])
    hubness(similarities)
    assert np.array_equal(similarities, before, equal_nan=True)


@pytest.mark.parametrize(
    ("relevant", "message"),
    [
        ([0], "1 queries; the similarities have 2"),
        ([0, []], "query 1 has no target"),
        ([0, 3], "query 1 has a target outside the gallery of 3"),
        ([-1, 0], "query 0 has a target outside the gallery of 3"),
        ([0, 1.0], "query 1: targets are float64"),
        (np.ones((2, 2), bool), "query 0: a boolean row has shape .2,.; expected .3,."),
        (np.array([[True, False, False], [False, False, False]]), "query 1 has no target"),
        (np.array([True, False]), "query 0: a boolean row"),
    ],
)
def test_targets_that_cannot_be(relevant: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ranks(np.zeros((2, 3)), relevant)


@pytest.mark.parametrize("similarities", [np.zeros(3), np.zeros((0, 3)), np.zeros((2, 0)), np.zeros((2, 2), complex)])
def test_similarities_that_cannot_be(similarities: Any) -> None:
    for call in (lambda: ranks(similarities, [0, 1]), lambda: hubness(similarities)):
        with pytest.raises(ValueError, match="similarities"):
            call()


def test_numbers_that_cannot_be() -> None:
    for call in (lambda: recall_at_k(np.eye(2), [0, 1], 0), lambda: k_occurrence(np.eye(2), 0)):
        with pytest.raises(ValueError, match="k is 0"):
            call()
    with pytest.raises(ValueError, match="ranks"):
        summary_of_ranks([0, 1])


# --- hubness -----------------------------------------------------------------------------------------------------


def test_a_hub_by_hand_and_one_that_takes_everything() -> None:
    """Ten queries, ten items, k = 2: item 0 is everyone's second; each query's own item is its first."""
    similarities = np.eye(10)
    similarities[:, 0] += 0.5
    similarities[0, 1] = 0.25  # query 0's own item is the hub, so its second is another
    counts = k_occurrence(similarities, k=2)
    assert counts.tolist() == [10, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    result = hubness(similarities, k=2)
    mean = 2.0
    second, third = np.mean((counts - mean) ** 2), np.mean((counts - mean) ** 3)
    assert result["skewness"] == pytest.approx(third / second**1.5)
    assert result["robin_hood"] == pytest.approx((8 + 0 + 8 * 1) / (2 * 20))
    assert result["atkinson"] == pytest.approx(1 - ((10**0.5 + 2**0.5 + 8) / 10) ** 2 / 2)
    assert result["antihub_rate"] == 0
    assert result["hub_occurrence"] == 10 / 20  # item 0 has at least 2 x the mean, and half of all retrievals
    similarities = np.zeros((30, 20))
    similarities[:, 7] = 1
    result = hubness(similarities, k=1)
    assert result["antihub_rate"] == 0.95
    assert result["hub_occurrence"] == 1
    assert result["robin_hood"] == pytest.approx(0.95)
    assert result["atkinson"] == pytest.approx(0.95)
    assert result["skewness"] == pytest.approx(stats.skew([1] + [0] * 19))


@pytest.mark.parametrize("k", [1, 3, 15, 100])
def test_no_hubs_where_all_are_alike(k: int) -> None:
    nothing = dict.fromkeys(hubness(np.eye(3)), 0.0)
    assert hubness(np.full((17, 11), 0.3), k) == nothing
    assert hubness(np.full((17, 11), np.nan), k) == nothing
    assert k_occurrence(np.full((17, 11), 0.3), k).sum() == pytest.approx(17 * min(k, 11))
    assert hubness(np.eye(11), 1) == nothing


def test_hubness_is_what_scipy_says_and_occurrence_what_sorting_gives() -> None:
    counts = np.random.default_rng(2).poisson(15 * np.random.default_rng(3).gamma(2, 0.5, 500))
    result = hubness_of(counts)
    assert result["skewness"] == pytest.approx(stats.skew(counts))
    lowest = -counts.mean() / counts.std(ddof=1)
    assert result["truncated_skewness"] == pytest.approx(stats.truncnorm(lowest, np.inf).moment(3))
    share = np.sort(counts / counts.sum())  # Robin Hood is the Lorenz curve's largest distance from the diagonal
    assert result["robin_hood"] == pytest.approx((np.arange(1, 501) / 500 - np.cumsum(share)).max())
    similarities = np.random.default_rng(4).normal(size=(80, 40))
    best = np.argsort(-similarities, axis=1)[:, :15]
    assert k_occurrence(similarities).tolist() == np.bincount(best.ravel(), minlength=40).tolist()


@settings(max_examples=60)
@given(MATRICES, st.integers(1, 9))
def test_occurrence_adds_up_and_hubness_stays_in_its_bounds(similarities: Any, k: int) -> None:
    queries, gallery = similarities.shape
    counts = k_occurrence(similarities, k)
    assert counts.sum() == pytest.approx(queries * min(k, gallery))
    assert np.all((counts >= 0) & (counts <= queries + 1e-9))
    result = hubness(similarities, k)
    assert all(np.isfinite(value) for value in result.values())
    assert 0 <= result["truncated_skewness"] <= 2 * np.sqrt(2 / np.pi) + 1e-9
    for name in ("atkinson", "robin_hood", "antihub_rate", "hub_occurrence"):
        assert 0 <= result[name] <= 1 + 1e-12


# --- robustness --------------------------------------------------------------------------------------------------


def test_scores_by_hand() -> None:
    assert gamma_a(50, 40) == pytest.approx(0.9)
    assert gamma_r(50, 40) == pytest.approx(0.8)
    assert mmi(50, 40) == pytest.approx(0.2)
    assert gamma_r(40, 50) == pytest.approx(1.25)
    assert np.isnan(gamma_r(0, 0))
    assert np.isnan(mmi(0, 3))
    assert gamma_a(0, 3) == pytest.approx(1.03)
    assert np.allclose(gamma_r([50, 40], 20), [0.4, 0.5])


@pytest.mark.parametrize(("queries", "size"), [(3, 75), (259, 103)])
def test_items_with_equal_features_tie_to_the_last_bit(queries: int, size: int) -> None:
    """A product of matrices rounds equal columns differently, most of all for a few queries."""
    generator = np.random.default_rng(0)
    gallery = generator.normal(size=(size, 64)).astype(np.float32)
    gallery[-20:] = gallery[:20]
    scores = np.concatenate([block for _, block in cosines(generator.normal(size=(queries, 64)), gallery)])
    assert np.array_equal(scores[:, -20:], scores[:, :20])
    assert score(gallery, gallery, range(size)).tolist() == [2] * 20 + [1] * (size - 40) + [2] * 20


@pytest.mark.parametrize("factor", [1e30, 1e-30])
def test_the_length_of_features_does_not_count(factor: float) -> None:
    rows = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    assert score(rows * np.float32(factor), rows[::-1] * np.float32(factor), range(30)).tolist() == (
        score(rows, rows[::-1], range(30)).tolist()
    )
    with pytest.raises(ValueError, match="beyond float32"):
        score(rows.astype(np.float64) * 1e300, rows, range(30))


@given(MATRICES, st.integers(1, 9))
def test_the_first_places_are_those_of_a_stable_sort(scores: np.ndarray, k: int) -> None:
    known = np.where(np.isnan(scores), -np.inf, scores)
    expected = [sorted(range(len(row)), key=lambda place: (-row[place], place))[:k] for row in known]
    assert first_places(scores, k).tolist() == expected
