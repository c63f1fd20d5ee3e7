"""Distractors of a target: which clips, how many of each kind, and that other targets change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perturbations.composed import official
from perturbations.composed.modifications import ComposedQuery, PoolClip, Split, same_action
from perturbations.composed.sampler import sampled_blocks, tf_idf


def clip(number: int, narration: str, video: str = "v") -> PoolClip:
    return PoolClip(
        name=f"{video}{number:03d}", video_id=video, narration=narration, start_s=10.0 * number, end_s=10.0 * number + 8
    )


TARGET, QUERY = clip(0, "cuts the red onion"), clip(1, "peels the red onion")
QUERIES = (ComposedQuery(query_id="0", clip=QUERY.name, targets=(TARGET.name,), instruction="Cut it instead."),)


def split_of(*distractors: PoolClip) -> Split:
    return Split((TARGET, QUERY, *distractors), QUERIES, {})


def by_length(narration: str, others: list[str]) -> list[float]:
    return [float(text.rsplit(" ", 1)[1]) for text in others]


@settings(max_examples=40)
@given(st.integers(6, 60), st.integers(0, 2**40))
def test_one_easy_four_usual_and_one_hard(count: int, seed: int) -> None:
    split = split_of(*(clip(n + 2, f"does {n}") for n in range(count)))
    block = sampled_blocks(split, by_length, seed=seed, dataset="d")[TARGET.name]  # type: ignore[arg-type]
    places = [row - 2 for row in block]
    tenth = max(1, count // 10)
    assert len({*places}) == 6
    assert places[0] < tenth
    assert all(tenth <= place < count - tenth for place in places[1:5])
    assert places[5] >= count - tenth


def test_fewer_than_six_are_all_in_time_order() -> None:
    split = split_of(clip(9, "stirs"), clip(4, "washes"), clip(6, "CUTS the red onion!"), clip(5, "cuts", "other"))
    assert sampled_blocks(split, by_length, seed=0, dataset="d") == {TARGET.name: (3, 2)}  # type: ignore[arg-type]


def test_other_targets_and_the_order_of_rows_change_nothing() -> None:
    distractors = [clip(n + 2, f"does {n}") for n in range(30)]
    alone, turned = split_of(*distractors), split_of(*reversed(distractors))
    names = [
        [split.pool[row].name for row in sampled_blocks(split, by_length, seed=3, dataset="d")[TARGET.name]]  # type: ignore[arg-type]
        for split in (alone, turned)
    ]
    assert names[0] == names[1]
    other = sampled_blocks(alone, by_length, seed=4, dataset="d")[TARGET.name]  # type: ignore[arg-type]
    assert [alone.pool[row].name for row in other] != names[0]


def test_words_in_common_make_narrations_similar() -> None:
    corpus = ["cuts the onion", "cuts the carrot", "drives the car", "walks"]
    scores = tf_idf(corpus)("cuts the onion", corpus)
    assert scores[0] == pytest.approx(1)
    assert scores[0] > scores[1] > scores[2] > scores[3] == 0
    assert tf_idf([])("", ["", "x"]) == [0, 0]


def test_egocvrs_blocks_follow_the_official_pattern(reference: Path) -> None:
    split = official.read(reference / "data" / "egocvr" / official.ANNOTATIONS)
    blocks = sampled_blocks(split, tf_idf([member.narration for member in split.pool]), seed=0, dataset="egocvr")
    assert blocks.keys() == split.blocks.keys()
    for name, rows in blocks.items():
        target = split.pool[split.rows_of[name][0]]
        members = [split.pool[row] for row in rows]
        assert len(rows) == len({member.name for member in members}) <= 6
        assert all(member.video_id == target.video_id and member.name not in split.annotated for member in members)
        assert all(same_action(member.narration) != same_action(target.narration) for member in members)
    assert sum(len(rows) == 6 for rows in blocks.values()) >= 1700
