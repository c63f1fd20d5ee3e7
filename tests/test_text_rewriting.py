"""Captions whose sentences are rewritten: gender, voice, tense, style, round trips, and the tags they rest on."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from looping import each
from text_support import PERSON, generator, kernel, outcomes, role

from perturbations.text import fluency, round_trip, tables, tokens

# --- what each perturbation makes of a caption, whatever it draws ---------------------------------------------------

# Those of Schiappa et al., Tab. 5, that leave nothing to chance come last.
with (Path(__file__).parent / "golden/rewritten.csv").open(encoding="utf-8", newline="") as file:
    _, *PAIRS = csv.reader(file)


@each(("key", "before", "after"), PAIRS)
def test_a_caption_is_rewritten(key: str, before: str, after: str) -> None:
    assert outcomes(key, before, 10) == {after}


@pytest.mark.parametrize(("name", "after"), [("female", "a female and a female"), ("male", "a male and a male")])
def test_the_paper_takes_no_female_for_a_male_word(name: str, after: str) -> None:
    assert kernel(f"msrvtt_p/gender_{name}", 1, "paper")("a male and a female", generator()) == after


@pytest.mark.parametrize(
    ("before", "released", "paper"),
    [
        ("He hits it and she catches her.", "They hits it and they catches they.", "They hit it and they catch them."),
        ("he's here, she's got it", "they's here, they's got it", "they're here, they've got it"),
        ("she has lost his red hat", "they has lost theirs red hat", "they have lost their red hat"),
    ],
)
def test_a_neutral_they_has_its_own_verb_in_the_variant_paper(before: str, released: str, paper: str) -> None:
    for variant, after in (("released", released), ("paper", paper)):
        assert kernel("msrvtt_p/gender_neutral", 1, variant)(before, generator()) == after


@pytest.mark.parametrize("name", ["swap_syn_wordnet", "swap_syn_word_embedding", "mlm_suggestion"])
def test_denials_contractions_and_auxiliaries_have_no_synonyms(name: str) -> None:
    text = "she has never been there and he isn't"
    assert outcomes(f"msrvtt_p/{name}", text, 50, 1) == {text}


@pytest.mark.parametrize(
    "text", ["a person is talking to people", "the person and a friend", "children and their doctor"]
)
def test_casual_style_gives_nobody_a_gender(text: str) -> None:
    gendered = set(tables.gender_swaps()) | set(tables.caption_genders())
    assert not gendered & set(kernel("msrvtt_p/formal_to_casual")(text, generator()).split())


@pytest.mark.parametrize(
    ("original", "translated", "taken"),
    [
        ("a girl playing her guitar", "A girl that plays his guitar", "a girl that plays her guitar"),
        ("a girl playing her guitar", "A boy is touching a guitar", "a girl playing her guitar"),
        ("a girl playing her guitar", "", "a girl playing her guitar"),
        ("she talks about movies", "It speaks on films", "she speaks on films"),
        ("cheese is sliced", "The cheese is sliced", "the cheese is sliced"),
        ("a man isn't in a huge car", "A man is not in an enormous car", "a man is not in an enormous car"),
    ],
)
def test_a_round_trip_keeps_gender_and_meaning(original: str, translated: str, taken: str) -> None:
    rules = {"tagger": role("tagger"), "inflector": role("inflector")}
    assert round_trip.post_edited(original, translated, **rules) == taken


def test_an_order_gets_a_subject_on_its_way() -> None:
    rules = {"tagger": role("tagger"), "inflector": role("inflector")}
    assert round_trip.pre_edited("heat some oil", **rules) == "you must heat some oil"


def test_fluency_falls_with_unknown_words_and_case_is_no_effective_change() -> None:
    assert fluency.fluency_change(PERSON, PERSON) == 0
    assert fluency.fluency_change("add the oil to the pan", "pan the add oil to the") < 0
    assert fluency.fluency_change("add the oil to the pan", "add the oxxl to the pan") < -0.2
    assert fluency.fluency("...") is None
    assert not tokens.differs("a man, talking", "A man talking.")
    assert tokens.differs("a man talking", "a man speaking")


# --- tags -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caption", "tags"),
    [
        ("a man talks about cars", "DT NN VBZ IN NNS"),
        ("a woman is dancing", "DT NN VBZ VBG"),
        ("mix the flour and cook for 5 minutes", "VB DT NN CC VB IN CD NNS"),
        ("in a bowl mix two eggs", "IN DT NN VB CD NNS"),
        ("pokemon video game play", "NN NN NN NN"),
        ("broth is being added to a pot", "NN VBZ VBG VBN TO DT NN"),
        ("a girl, singing!", "DT NN VBG"),
        ("... 😀", ". ."),
    ],
)
def test_caption_tags(caption: str, tags: str) -> None:
    assert role("tagger")(caption.split()) == tags.split()
