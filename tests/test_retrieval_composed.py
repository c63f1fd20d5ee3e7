"""Composed retrieval: galleries, the ways to use a query, and recall within each query's own gallery."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perturbations.retrieval.composed import (
    GLOBAL_KS,
    LOCAL_KS,
    STRATEGIES,
    Strategy,
    composed_recall,
    composed_scores,
    global_gallery,
    local_gallery,
)
from perturbations.retrieval.metrics import ranks

CLIPS = ["a1", "a2", "a3", "b1", "b2", "c1"]
VIDEOS = ["a", "a", "a", "b", "b", "c"]


def test_galleries() -> None:
    assert global_gallery(["a2", "z"], CLIPS).tolist() == [[True, False, True, True, True, True], [True] * 6]
    local = local_gallery(["a2", "c1"], ["a", "c"], CLIPS, VIDEOS)
    assert local.tolist() == [[True, False, True, False, False, False], [False] * 6]


def test_recall_in_each_querys_own_gallery() -> None:
    similarities = np.array(
        [
            [0.5, 9.0, 0.4, 0.9, 0.8, 0.7],  # a2 -> a1: fourth of all, first at home
            [0.0, 0.0, 0.0, 0.1, 0.2, 0.3],  # b2 -> b1 or a1: second of all; alone at home
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],  # c1 -> a1: a tie with four others
        ]
    )
    queries, videos, targets = ["a2", "b2", "c1"], ["a", "b", "c"], [[0], [3, 0], [0]]
    everywhere = composed_recall(similarities, targets, global_gallery(queries, CLIPS))
    assert everywhere == pytest.approx({"r1": 0, "r5": 100, "r10": 100, "queries": 3, "skipped": 0})
    at_home = composed_recall(similarities, targets, local_gallery(queries, videos, CLIPS, VIDEOS), LOCAL_KS)
    assert at_home == {"r1": 100, "r2": 100, "r3": 100, "queries": 1, "skipped": 2}
    nobody = composed_recall(similarities, targets, np.zeros((3, 6), bool), ks=[1])
    assert np.isnan(nobody["r1"])
    assert nobody["skipped"] == 3


def test_the_query_itself_never_counts() -> None:
    similarities = np.array([[1.0, 5.0, 0.5]])
    result = composed_recall(similarities, [[0]], global_gallery(["q"], ["t", "q", "x"]), ks=[1])
    assert result["r1"] == 100


def test_with_every_clip_allowed_it_is_plain_recall() -> None:
    rng = np.random.default_rng(0)
    similarities, targets = (
        rng.integers(0, 5, (30, 12)).astype(float),
        [[int(target)] for target in rng.integers(0, 12, 30)],
    )
    result = composed_recall(similarities, targets, np.ones((30, 12), bool), ks=range(1, 13))
    plain = ranks(similarities, targets)
    assert all(result[f"r{k}"] == pytest.approx(100 * np.mean(plain <= k)) for k in range(1, 13))


def _features() -> dict[str, Any]:
    """Twenty clips on an arc: by eye the query is clip 0; its words are those of clip 4."""
    angles = np.linspace(0, np.pi / 2, 20)
    gallery = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return {"gallery": 3 * gallery, "visual": 7 * gallery[:1], "text": 0.1 * gallery[4:5]}


@pytest.mark.parametrize(("strategy", "order"), [("text", [4, 3]), ("visual", [1, 2]), ("average", [2, 1])])
def test_what_each_strategy_finds_first(strategy: Strategy, order: list[int]) -> None:
    candidates = np.arange(20)[None] != 0
    result = composed_scores(strategy, candidates=candidates, **_features())
    best = np.argsort(-result[0], kind="stable")
    assert best[0] == order[0]
    assert result[0, 0] == -np.inf
    assert result[0, order[0]] == pytest.approx(1 if strategy != "visual" else np.cos(np.pi / 38))


def test_two_stages_order_the_shortlist_by_words() -> None:
    candidates = np.arange(20)[None] != 0
    result = composed_scores("two_stage", candidates=candidates, **_features())
    assert np.flatnonzero(result[0] > -np.inf).tolist() == list(
        range(1, 16)
    )  # the 15 nearest, without the query itself
    assert result[0].argmax() == 4
    text = composed_scores("text", candidates=candidates, **_features())
    assert np.array_equal(result[0, 1:16], text[0, 1:16])
    few = composed_scores("two_stage", candidates=candidates, shortlist=2, **_features())
    assert np.flatnonzero(few[0] > -np.inf).tolist() == [1, 2]
    missed = composed_recall(few, [[4]], candidates, ks=[20])
    assert missed["r20"] == 0  # not retrieved, however far one looks
    everything = composed_scores("two_stage", candidates=candidates, shortlist=99, **_features())
    assert np.array_equal(everything, text)


def test_the_shortlist_may_be_another_models() -> None:
    features = _features() | {"visual": np.eye(3)[:1], "filter_gallery": np.repeat(np.eye(3), [5, 5, 10], axis=0)}
    result = composed_scores("two_stage", candidates=np.ones((1, 20), bool), shortlist=5, **features)
    assert np.flatnonzero(result[0] > -np.inf).tolist() == [0, 1, 2, 3, 4]
    assert result[0].argmax() == 4


def test_what_is_missing_is_named() -> None:
    candidates = np.ones((1, 20), bool)
    features = _features()
    for strategy in STRATEGIES:
        needed = {"text": ["text"], "visual": ["visual"]}.get(strategy, ["text", "visual"])
        for name in needed:
            with pytest.raises(ValueError, match=f"needs the queries' {name} features"):
                composed_scores(strategy, candidates=candidates, **(features | {name: None}))
    with pytest.raises(ValueError, match="choose one of text, visual"):
        composed_scores("best", candidates=candidates, **features)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected bool .1, 20."):
        composed_scores("text", candidates=np.ones((1, 3), bool), **features)
    with pytest.raises(ValueError, match="targets of 2 queries"):
        composed_recall(np.zeros((1, 2)), [[0], [1]], np.ones((1, 2), bool))


def test_egocvrs_galleries_are_as_large_as_the_paper_says(shared_egocvr: Path) -> None:
    with (shared_egocvr / "egocvr_data.csv").open(encoding="utf-8", newline="") as file:
        video_of = {row["clip_name"]: row["video_uid"] for row in csv.DictReader(file)}
    with (shared_egocvr / "egocvr_annotations.csv").open(encoding="utf-8", newline="") as file:
        queries = [row["video_clip_id"] for row in csv.DictReader(file)]
    assert len(queries) == 2295
    clips = list(video_of)
    everywhere = global_gallery(queries[:50], clips)
    assert everywhere.sum(axis=1).min() >= 10_661
    assert composed_recall(np.zeros(everywhere.shape), [[0]] * 50, everywhere, GLOBAL_KS)["r10"] == 0


@pytest.fixture
def shared_egocvr(reference: Path) -> Path:
    return reference / "data" / "egocvr"
