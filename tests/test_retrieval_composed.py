"""Composed retrieval: the place of the best target among each query's own candidates, and recall with intervals."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perturbations.retrieval import composed_places
from perturbations.retrieval.composed import (
    GLOBAL_KS,
    LOCAL_KS,
    STRATEGIES,
    Strategy,
    chance,
)

ARC = np.linspace(0, np.pi / 2, 20)
GALLERY = np.stack([np.cos(ARC), np.sin(ARC)], axis=1)


def features() -> dict[str, Any]:
    """Twenty clips on an arc: by eye the query is clip 0; its words are those of clip 4."""
    return {"gallery": 3 * GALLERY, "visual": GALLERY[:1], "text": 0.1 * GALLERY[4:5]}


def places(strategy: Strategy, targets: list[list[int]], **more: Any) -> list[int]:
    given = {**features(), "targets": targets, **more}
    candidates = given.pop("candidates", [range(1, 20)])
    return composed_places(strategy, {"": candidates}, **given)[""].tolist()


@pytest.mark.parametrize(("strategy", "order"), [("text", [4]), ("visual", [1, 2, 3]), ("average", [2])])
def test_what_each_strategy_finds_first(strategy: Strategy, order: list[int]) -> None:
    for place, clip in enumerate(order, start=1):
        assert places(strategy, [[clip]]) == [place]


def test_the_best_target_of_two_candidates_or_more_counts_and_ties_against_it() -> None:
    assert places("visual", [[7, 2, 9]]) == [2]
    assert places("visual", [[0]]) == [0]
    assert places("visual", [[0, 3]]) == [3]
    assert places("visual", [[1]], candidates=[[1]]) == [-1]
    assert places("visual", [[1]], candidates=[[]]) == [-1]
    assert places("visual", [[1]], candidates=[[1, 2]]) == [1]
    same = np.ones((4, 2))
    given = {"gallery": same, "visual": same[:1], "targets": [[1]]}
    galleries = {"once": [[0, 1, 2, 3]], "repeated": [[0, 1, 0, 0]]}
    assert {name: row.tolist() for name, row in composed_places("visual", galleries, **given).items()} == {
        "once": [4],
        "repeated": [4],
    }


def test_released_average_weighs_features_by_their_length() -> None:
    long = {"visual": 100 * GALLERY[:1]}
    assert places("average", [[2]], **long) == [2]
    assert places("average", [[2]], average="unit", **long) == [1]


def test_two_stages_order_the_shortlist_which_may_be_another_models() -> None:
    assert places("two_stage", [[4]]) == [1]
    assert places("two_stage", [[4]], shortlist=2) == [0]
    assert places("two_stage", [[2]], shortlist=2) == [1]
    assert places("two_stage", [[19]]) == [0]
    assert places("two_stage", [[19]], shortlist=99) == places("text", [[19]])
    assert places("two_stage", [[5]], filter_strategy="text", shortlist=3) == places("text", [[5]])
    other = {"filter_gallery": np.repeat(np.eye(3), [5, 5, 10], axis=0), "filter_visual": np.eye(3)[2:]}
    assert places("two_stage", [[4]], shortlist=10, **other) == [0]
    assert places("two_stage", [[10]], shortlist=10, **other) == [1]
    assert places("two_stage_average", [[19]], shortlist=99) == places("average", [[19]])
    assert places("two_stage_average", [[4]], shortlist=10, **other) == [0]


def test_similarities_are_taken_as_they_are_and_within_a_shortlist() -> None:
    given = {"similarities": -np.arange(20.0)[None], "text": None, "visual": None}
    assert places("cross_attention", [[4]], **given) == [4]
    other = {"filter_gallery": np.repeat(np.eye(3), [5, 5, 10], axis=0), "filter_visual": np.eye(3)[2:]}
    assert places("two_stage_cross_attention", [[12]], shortlist=10, **given, **other) == [3]
    assert places("two_stage_cross_attention", [[4]], shortlist=10, **given, **other) == [0]
    with pytest.raises(ValueError, match="similarities of 1 queries with 20 clips are needed"):
        places("cross_attention", [[4]], similarities=np.zeros((20, 1)))


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
    result = composed_places("visual", galleries, gallery=gallery, visual=query, targets=[targets])["own"]
    if len(close) == len(candidates):  # without near ties, whose order is the arithmetic's
        assert result.tolist() == [expected]
    assert (result[0] == 0) == (expected == 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_missing_or_wrong_is_named(strategy: Strategy) -> None:
    needed = {"text": ["text"], "visual": ["visual"]}.get(strategy, ["text", "visual"])
    for name in needed:
        with pytest.raises(ValueError, match=f"needs the queries' {name} features"):
            places(strategy, [[1]], **{name: None})
        with pytest.raises(ValueError, match="NaN or infinity"):
            places(strategy, [[1]], **{name: np.full((1, 2), np.nan)})
        with pytest.raises(ValueError, match=r"expected .1, 2."):
            places(strategy, [[1]], **{name: np.ones((2, 2))})
    with pytest.raises(ValueError, match="outside of the gallery"):
        places(strategy, [[1]], candidates=[[1, 20]])
    with pytest.raises(ValueError, match="outside of the gallery"):
        places(strategy, [[-1]])
    with pytest.raises(ValueError, match="targets of 2 queries"):
        places(strategy, [[1], [2]])
    with pytest.raises(ValueError, match="a row of positions"):
        places(strategy, [[1]], candidates=[np.ones(20, bool)])


def test_unknown_choices_are_refused_and_chance_is_what_random_orders_give() -> None:
    for wrong in ({"filter_strategy": "two_stage"}, {"average": "plain"}):
        with pytest.raises(ValueError, match="choose one of"):
            places("two_stage", [[1]], **wrong)
    with pytest.raises(ValueError, match="choose one of text, visual"):
        places("best", [[1]])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one clip"):
        places("two_stage", [[1]], shortlist=0)
    assert chance([4], [1], 1) == pytest.approx(25)
    assert chance([4, 2], [1, 2], 1) == pytest.approx(62.5)
    assert chance([5], [2], 2) == pytest.approx(70)
    assert chance([3], [1], 5) == pytest.approx(100)
    assert chance([3], [0], 2) == 0


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

    def stored(model: str, frames: int) -> np.ndarray:
        members = clips[model]
        if members.ndim == 2:
            return members
        return members[:, members.shape[1] // 2] if frames == 1 else members.mean(axis=1)

    for case, settings in golden["settings"].items():
        *first, model = settings["models"]
        compared = stored(model, settings["query_frames"])
        options: dict[str, Any] = {"gallery": compared[of_row], "visual": compared[of_query], "targets": targets}
        options["text"] = texts[model, settings["text"]]
        strategy = halves[settings["modalities"][0]]
        if first:
            chosen = stored(first[0], settings["query_frames"])
            options |= {"filter_gallery": chosen[of_row], "filter_visual": chosen[of_query]}
            options |= {"filter_text": texts[first[0], settings["text"]], "filter_strategy": strategy}
            options |= {"shortlist": settings["neighbors"]}
            strategy = "two_stage"
        cases = golden["cases"][case]
        places = composed_places(strategy, {name: galleries[name] for name in cases}, **options)  # type: ignore[arg-type]
        for name, published in cases.items():
            result = places[name]
            assert np.mean(result == expected[f"{case}__{name}"]) >= 0.999, (case, name)
            counted = result[result >= 0]
            assert len(counted) == published["queries"]
            for k in GLOBAL_KS if name.startswith("global") else LOCAL_KS:
                hits = np.mean((counted >= 1) & (counted <= k))
                assert 100 * hits == pytest.approx(published[f"r{k}"], abs=0.05)
