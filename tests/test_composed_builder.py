"""Splits that are built from captioned spans: which pairs, which instruction, which distractors."""

from __future__ import annotations

import pytest

from perturbations.composed import gallery_sets
from perturbations.composed.builder import build
from perturbations.composed.instructions import Words, instruction_for, words_of
from perturbations.composed.modifications import PoolClip

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
        PoolClip(name=f"{video}{n}", video_id=video, narration=caption, start_s=10.0 * n, end_s=10.0 * n + 5)
        for n, caption in enumerate(captions)
    ]


def built(*members: PoolClip) -> dict[str, tuple[tuple[str, ...], str]]:
    split = build(members, analyse, seed=0, dataset="d")
    return {query.query_id: (query.targets, query.instruction) for query in split.queries}


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


def test_pairs_differ_in_the_action_or_in_the_object() -> None:
    queries = built(*clips("peel the onion", "cut the onion", "cut the carrots", "of nothing"))
    assert queries == {
        "v0:temporal": (("v1",), "Cut it instead."),
        "v1:temporal": (("v0",), "Peel it instead."),
        "v1:object": (("v2",), "Cut the carrots instead."),
        "v2:object": (("v1",), "Cut the onion instead."),
    }


def test_targets_are_all_clips_of_the_same_caption() -> None:
    queries = built(*clips("peel the onion", "cut the onion", "Cut the onion!", "wash the pot"))
    assert set(queries["v0:temporal"][0]) == {"v1", "v2"}


def test_pairs_lie_in_one_video_and_apart_in_time() -> None:
    first, second = clips("peel the onion", "cut the onion")
    other = clips("cut the onion", video="w")[0]
    assert built(first, other) == {}
    together = PoolClip(name="x", video_id="v", narration="cut the onion", start_s=4.0, end_s=9.0)
    unknown = PoolClip(name="y", video_id="v", narration="cut the onion")
    assert built(first, together) == {}
    assert built(first, unknown) == {}
    assert len(built(first, second)) == 2


def test_galleries_hold_the_targets_and_up_to_six_others_and_never_the_query() -> None:
    members = clips("peel the onion", "cut the onion", *(f"stir a{n}" for n in range(20)))
    split = build(members, analyse, seed=0, dataset="d")
    for query, rows in zip(split.queries, gallery_sets.gallery(split, "local_full"), strict=True):
        names = {split.pool[row].name for row in rows}
        assert {*query.targets} <= names
        assert query.clip not in names
        assert 6 <= len(names) <= 7
    assert build(members, analyse, seed=0, dataset="d") == split
    assert build(members, analyse, seed=1, dataset="d") != split


def test_a_name_stands_once() -> None:
    with pytest.raises(ValueError, match="names of their own"):
        build([*clips("peel the onion"), *clips("cut the onion")], analyse, seed=0, dataset="d")
    assert build([], analyse, seed=0, dataset="d").queries == ()
