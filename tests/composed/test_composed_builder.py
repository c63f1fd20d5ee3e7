"""Splits that are built from captioned spans: which pairs, which instruction, which distractors."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perturbations.composed import gallery_sets, official
from perturbations.composed.split import ComposedQuery, PoolClip, Split, as_text, same_action
from perturbations.composed.split_builder import Words, build, instruction_for, sampled_blocks, tf_idf, words_of

TAGS = {
    **dict.fromkeys(["cut", "peel", "add", "wash", "remove", "stir"], "VB"),
    **dict.fromkeys(["onion", "pot", "knife", "salt", "soup"], "NN"),
    **dict.fromkeys(["onions", "carrots"], "NNS"),
    **dict.fromkeys(["the", "a"], "DT"),
    "red": "JJ",
    "boiling": "VBG",
}


def tagger(words: list[str]) -> list[str]:
    return [TAGS.get(word, "IN") for word in words]


def analyse(caption: str) -> Words:
    return words_of(caption, tagger, lambda word, tag: word.removesuffix("s"))


def clips(*captions: str, video: str = "v") -> list[PoolClip]:
    return [
        PoolClip(clip_id=f"{video}{n}", video_id=video, narration=caption, start_s=10.0 * n, end_s=10.0 * n + 5)
        for n, caption in enumerate(captions)
    ]


def built(*members: PoolClip) -> dict[str, tuple[tuple[str, ...], str]]:
    split = build(members, analyse, seed=0, dataset="d")
    return {query.query_id: (query.target_ids, query.instruction) for query in split.queries}


@pytest.mark.parametrize(
    ("query", "target", "instruction"),
    [
        ("peel the red onion", "cut the red onion into rings", "Cut it into rings instead."),
        ("wash the onions", "add the onions to a pot", "Add them to a pot instead."),
        ("add the onion", "add the salt to the soup", "Add the salt to the soup instead."),
        ("stir the soup in the pot", "remove the soup from the pot", "Remove it from the pot instead."),
        ("the soup", "Add the boiling soup.", "Add it instead."),
        ("the soup", "", " instead."),
    ],
)
def test_the_instruction_names_what_changes(query: str, target: str, instruction: str) -> None:
    assert instruction_for(analyse(query), analyse(target)) == instruction


def test_pairs_differ_in_the_action_or_in_the_object_and_all_clips_of_a_caption_are_targets() -> None:
    queries = built(*clips("peel the onion", "cut the onion", "cut the carrots", "of nothing"))
    assert queries == {
        "v0:temporal": (("v1",), "Cut it instead."),
        "v1:temporal": (("v0",), "Peel it instead."),
        "v1:object": (("v2",), "Cut the carrots instead."),
        "v2:object": (("v1",), "Cut the onion instead."),
    }
    queries = built(*clips("peel the onion", "cut the onion", "Cut the onion!", "wash the pot"))
    assert set(queries["v0:temporal"][0]) == {"v1", "v2"}


def test_pairs_lie_in_one_video_and_apart_in_time() -> None:
    first, second = clips("peel the onion", "cut the onion")
    other = clips("cut the onion", video="w")[0]
    assert built(first, other) == {}
    together = PoolClip(clip_id="x", video_id="v", narration="cut the onion", start_s=4.0, end_s=9.0)
    unknown = PoolClip(clip_id="y", video_id="v", narration="cut the onion")
    assert built(first, together) == {}
    assert built(first, unknown) == {}
    assert len(built(first, second)) == 2


def test_galleries_hold_the_targets_and_up_to_six_others_once_and_never_the_query() -> None:
    members = clips("peel the onion", "cut the onion", *(f"stir a{n}" for n in range(20)))
    split = build(members, analyse, seed=0, dataset="d")
    for query, rows in zip(split.queries, gallery_sets.gallery(split, "local_full"), strict=True):
        names = {split.pool[row].clip_id for row in rows}
        assert {*query.target_ids} <= names
        assert query.clip_id not in names
        assert 6 <= len(names) <= 7
    assert build(members, analyse, seed=0, dataset="d") == split
    assert build(members, analyse, seed=1, dataset="d") != split
    with pytest.raises(ValueError, match="names of their own"):
        build([*clips("peel the onion"), *clips("cut the onion")], analyse, seed=0, dataset="d")
    assert build([], analyse, seed=0, dataset="d").queries == ()


# --- Distractors of a target: which clips, how many of each kind, and that other targets change nothing ---


def clip(number: int, narration: str, video: str = "v") -> PoolClip:
    return PoolClip(
        clip_id=f"{video}{number:03d}",
        video_id=video,
        narration=narration,
        start_s=10.0 * number,
        end_s=10.0 * number + 8,
    )


TARGET, QUERY = clip(0, "cuts the red onion"), clip(1, "peels the red onion")
QUERIES = (
    ComposedQuery(
        query_id="0", clip_id=QUERY.clip_id, targets=as_text([TARGET.clip_id]), instruction="Cut it instead."
    ),
)


def split_of(*distractors: PoolClip) -> Split:
    return Split((TARGET, QUERY, *distractors), QUERIES, {})


def by_length(narration: str, others: list[str]) -> list[float]:
    return [float(text.rsplit(" ", 1)[1]) for text in others]


@settings(max_examples=40)
@given(st.integers(6, 60), st.integers(0, 2**40))
def test_one_easy_four_usual_and_one_hard(count: int, seed: int) -> None:
    split = split_of(*(clip(n + 2, f"does {n}") for n in range(count)))
    block = sampled_blocks(split, by_length, seed=seed, dataset="d")[TARGET.clip_id]  # type: ignore[arg-type]
    places = [row - 2 for row in block]
    tenth = max(1, count // 10)
    assert len({*places}) == 6
    assert places[0] < tenth
    assert all(tenth <= place < count - tenth for place in places[1:5])
    assert places[5] >= count - tenth


def test_fewer_than_six_are_all_in_time_order() -> None:
    split = split_of(clip(9, "stirs"), clip(4, "washes"), clip(6, "CUTS the red onion!"), clip(5, "cuts", "other"))
    assert sampled_blocks(split, by_length, seed=0, dataset="d") == {TARGET.clip_id: (3, 2)}  # type: ignore[arg-type]


def test_other_targets_and_the_order_of_rows_change_nothing() -> None:
    distractors = [clip(n + 2, f"does {n}") for n in range(30)]
    alone, turned = split_of(*distractors), split_of(*reversed(distractors))
    names = [
        [split.pool[row].clip_id for row in sampled_blocks(split, by_length, seed=3, dataset="d")[TARGET.clip_id]]  # type: ignore[arg-type]
        for split in (alone, turned)
    ]
    assert names[0] == names[1]
    other = sampled_blocks(alone, by_length, seed=4, dataset="d")[TARGET.clip_id]  # type: ignore[arg-type]
    assert [alone.pool[row].clip_id for row in other] != names[0]


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
        assert len(rows) == len({member.clip_id for member in members}) <= 6
        assert all(member.video_id == target.video_id and member.clip_id not in split.annotated for member in members)
        assert all(same_action(member.narration) != same_action(target.narration) for member in members)
    assert sum(len(rows) == 6 for rows in blocks.values()) >= 1700


# --- Whether an instruction changes the action or the object: the paper's examples, and 102 instructions  ---
