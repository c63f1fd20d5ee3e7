"""Composed retrieval: the place of the best target among each query's own candidates, and recall with intervals."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perturbations.retrieval import average_precisions, composed_places, composed_scores
from perturbations.retrieval.composed import GLOBAL_KS, HALVES, LOCAL_KS, Half, chance, chance_of_map

ARC = np.linspace(0, np.pi / 2, 20)
GALLERY = np.stack([np.cos(ARC), np.sin(ARC)], axis=1)


def scores(half: Half, **more: Any) -> Iterator[Any]:
    """Of twenty clips on an arc: by eye the query is clip 0; its words are those of clip 4."""
    features = {"gallery": 3 * GALLERY, "visual": GALLERY[:1], "text": 0.1 * GALLERY[4:5], **more}
    return composed_scores(half, **features)


def places(by: Half | Any, targets: list[list[int]], candidates: Any = (range(1, 20),), **more: Any) -> list[int]:
    """The places by a half of the query, or by scores."""
    return composed_places(scores(by) if by in HALVES else by, {"": candidates}, targets, **more)[""].tolist()


@pytest.mark.parametrize(("half", "order"), [("text", [4]), ("visual", [1, 2, 3]), ("average", [2])])
def test_what_each_half_finds_first(half: Half, order: list[int]) -> None:
    for place, clip in enumerate(order, start=1):
        assert places(half, [[clip]]) == [place]


def test_the_best_target_of_two_candidates_or_more_counts_and_ties_against_it() -> None:
    assert places("visual", [[7, 2, 9]]) == [2]
    assert places("visual", [[0]]) == [0]
    assert places("visual", [[0, 3]]) == [3]
    assert places("visual", [[1]], candidates=[[1]]) == [-1]
    assert places("visual", [[1]], candidates=[[]]) == [-1]
    assert places("visual", [[1]], candidates=[[1, 2]]) == [1]
    galleries = {"once": [[0, 1, 2, 3]], "repeated": [[0, 1, 0, 0]]}
    ties = composed_places(np.ones((1, 4)), galleries, [[1]])
    assert {name: row.tolist() for name, row in ties.items()} == {"once": [4], "repeated": [4]}


def test_released_average_weighs_features_by_their_length() -> None:
    long = {"visual": 100 * GALLERY[:1]}
    assert places([*scores("average", **long)], [[2]]) == [2]
    assert places([*scores("average", average="unit", **long)], [[2]]) == [1]


def test_a_first_stage_makes_the_shortlist_that_scores_order() -> None:
    def two_stages(targets: list[list[int]], half: Half = "text", by: Half = "visual", **more: Any) -> list[int]:
        return places(half, targets, first=scores(by), **more)

    assert two_stages([[4]]) == [1]
    assert two_stages([[4]], shortlist=2) == [0]
    assert two_stages([[2]], shortlist=2) == [1]
    assert two_stages([[19]]) == [0]
    assert two_stages([[19]], shortlist=99) == places("text", [[19]])
    assert two_stages([[5]], by="text", shortlist=3) == places("text", [[5]])
    assert two_stages([[19]], "average", shortlist=99) == places("average", [[19]])
    other = np.repeat([[0.0, 0.0, 1.0]], [5, 5, 10], axis=1)
    assert places("text", [[4]], first=other, shortlist=10) == [0]
    assert places("text", [[10]], first=other, shortlist=10) == [1]
    given = -np.arange(20.0)[None]
    assert places([*given], [[4]]) == [4]
    assert places([*given], [[12]], first=other, shortlist=10) == [3]
    assert places([*given], [[4]], first=other, shortlist=10) == [0]


@given(st.data())
def test_places_are_those_of_a_plain_sort(data: st.DataObject) -> None:
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    size = data.draw(st.integers(2, 12))
    gallery = generator.integers(-2, 3, (size, 3)).astype(float)
    query = generator.integers(-2, 3, (1, 3)).astype(float)
    candidates = generator.choice(size, data.draw(st.integers(2, size)), replace=False)
    targets = generator.choice(size, data.draw(st.integers(1, size)), replace=False)
    unit = [rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9) for rows in (query, gallery)]
    scores = (unit[0].astype(np.float32) @ unit[1].astype(np.float32).T)[0]
    order = sorted(candidates, key=lambda clip: (-scores[clip], clip in targets))
    expected = next((place for place, clip in enumerate(order, start=1) if clip in targets), 0)
    close = {round(float(score), 5) for score in scores[candidates]}
    galleries = {"own": [candidates]}
    result = composed_places(composed_scores("visual", gallery, visual=query), galleries, [targets])["own"]
    if len(close) == len(candidates):  # without near ties, whose order is the arithmetic's
        assert result.tolist() == [expected]
    assert (result[0] == 0) == (expected == 0)


@pytest.mark.parametrize("half", HALVES)
def test_what_is_missing_or_wrong_is_named(half: Half) -> None:
    for name in {"text": ["text"], "visual": ["visual"]}.get(half, ["text", "visual"]):
        with pytest.raises(ValueError, match=f"needs the queries' {name} features"):
            scores(half, **{name: None})
        with pytest.raises(ValueError, match="NaN or infinity"):
            scores(half, **{name: np.full((1, 2), np.nan)})
        with pytest.raises(ValueError, match="as many of both, 2 numbers each"):
            scores(half, **{name: np.ones((1, 3))})
    with pytest.raises(ValueError, match="as many of both"):
        scores("average", text=np.ones((2, 2)))
    for wrong in ({"half": "two_stage"}, {"half": half, "average": "plain"}):
        with pytest.raises(ValueError, match="choose one of text, visual, average; released, unit"):
            scores(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"candidates": [[1, 20]]}, "outside of the gallery"),
        ({"targets": [[-1]]}, "outside of the gallery"),
        ({"targets": [[1], [2]]}, "targets of 2 queries"),
        ({"targets": [[1], [2]], "candidates": [[1, 2]] * 2}, "zip"),
        ({"candidates": [np.ones(20, bool)]}, "a row of positions"),
        ({"shortlist": 0}, "at least one clip"),
        ({"first": np.zeros((1, 19))}, "the first stage has 19 clips, the second 20"),
    ],
)
def test_positions_that_cannot_be(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        places("text", **{"targets": [[1]], **wrong})


def test_chance_is_what_random_orders_give() -> None:
    assert chance([4], [1], 1) == pytest.approx(25)
    assert chance([4, 2], [1, 2], 1) == pytest.approx(62.5)
    assert chance([5], [2], 2) == pytest.approx(70)
    assert chance([3], [1], 5) == pytest.approx(100)
    assert chance([3], [0], 2) == 0


@pytest.mark.parametrize(
    ("ranking", "targets", "expected"),
    [
        ("x....", 1, [1, 1]),
        (".x.x.", 2, [1 / 2 / 2, (1 / 2 + 2 / 4) / 2]),
        ("xx..x", 3, [2 / 2, (1 + 1 + 3 / 5) / 3]),
        ("..x.x", 4, [0, (1 / 3 + 2 / 5) / 4]),  # two targets were not retrieved
        (".....", 1, [0, 0]),
        ("x", 0, [0, 0]),
    ],
)
def test_average_precision_of_hand_made_rankings(ranking: str, targets: int, expected: list[float]) -> None:
    is_target = np.array([mark == "x" for mark in ranking])
    scores = -np.arange(len(ranking), dtype=np.float32)
    shuffled = np.random.default_rng(0).permutation(len(ranking))
    result = average_precisions(scores[shuffled], is_target[shuffled], (2, 5), targets)
    assert result.tolist() == pytest.approx(expected)


def test_targets_come_last_among_equal_scores() -> None:
    result = average_precisions(np.array([1.0, 1.0, 1.0, 0.0]), np.array([True, False, False, True]), (1, 3, 50), 2)
    assert result.tolist() == pytest.approx([0, (1 / 3) / 2, (1 / 3 + 2 / 4) / 2])


@pytest.mark.parametrize(("size", "targets", "k"), [(5, 1, 3), (5, 2, 3), (4, 4, 2), (3, 2, 50)])
def test_chance_of_map_is_the_mean_over_all_orders(size: int, targets: int, k: int) -> None:
    orders = [*permutations([place < targets for place in range(size)])]
    scores = -np.arange(size, dtype=np.float32)
    every = [average_precisions(scores, np.array(order), (k,), targets)[0] for order in orders]
    assert chance_of_map([size], [targets], k) == pytest.approx(100 * np.mean(every))


@pytest.fixture(scope="module")
def golden_inputs(reference: Path) -> Iterator[Any]:
    folder = str(reference / "golden" / "composed")
    sys.path.insert(0, folder)
    import inputs

    yield inputs
    sys.path.remove(folder)


def test_places_equal_the_reference_code(golden_inputs: Any, reference: Path) -> None:
    folder = reference / "golden" / "composed"
    golden = json.loads((folder / "golden.json").read_text())
    expected = np.load(folder / "golden.npz")
    data = golden_inputs.annotations(reference / "data" / "egocvr")
    clips, texts = golden_inputs.features(data, golden["seed"])
    number = {name: place for place, name in enumerate(data["names"])}
    of_row = np.array([number[name] for name in data["row_names"]])
    of_query = np.array([number[name] for name in data["queries"]])
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(data["row_names"]):
        rows.setdefault(name, []).append(row)
    targets = [[row for name in names for row in rows[name]] for names in data["targets"]]
    galleries = golden_inputs.galleries(data)
    halves = {"visual": "visual", "text": "text", "visual-text": "average"}

    def scores_of(model: str, half: Any, settings: Any) -> Iterator[Any]:
        members = clips[model]
        if members.ndim > 2:
            middle = members.shape[1] // 2
            members = members[:, middle] if settings["query_frames"] == 1 else members.mean(axis=1)
        return composed_scores(half, members[of_row], visual=members[of_query], text=texts[model, settings["text"]])

    for case, settings in golden["settings"].items():
        *first, model = settings["models"]
        half = halves[settings["modalities"][0]]
        options: dict[str, Any] = {}
        if first:
            options |= {"first": scores_of(first[0], half, settings), "shortlist": settings["neighbors"]}
            half = "text"
        cases = golden["cases"][case]
        by = scores_of(model, half, settings)
        places = composed_places(by, {name: galleries[name] for name in cases}, targets, **options)
        for name, published in cases.items():
            result = places[name]
            assert np.mean(result == expected[f"{case}__{name}"]) >= 0.999, (case, name)
            counted = result[result >= 0]
            assert len(counted) == published["queries"]
            for k in GLOBAL_KS if name.startswith("global") else LOCAL_KS:
                hits = np.mean((counted >= 1) & (counted <= k))
                assert 100 * hits == pytest.approx(published[f"r{k}"], abs=0.05)
