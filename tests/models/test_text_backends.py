"""The models of roles: how they are loaded, and the offline ones on real data."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fluency_table
import numpy as np
import pytest
from looping import each
from text_support import GIRL, PERSON, role

import perturbations
from perturbations.base.errors import BackendError, ToolError
from perturbations.models import role_registry as models
from perturbations.models import text_neighbours, text_translator, text_wordnet

# --- roles ------------------------------------------------------------------------------------------------------------


@each("backend", models.BACKENDS)
@each("name", models.roles())
def test_a_role_has_a_model_with_a_name(name: str, backend: str) -> None:
    model = models.roles()[name][backend]
    assert model.load.__module__.startswith("perturbations.models.text_")
    assert model.weights
    assert model.licence
    assert model.needs
    assert model.canary is not None
    assert models.names([name, name], backend) == model.name
    assert models.names([], backend) == "rules"
    assert models.names(["masked_lm"], "offline") == "lexical-fields", "a stand-in is called what it is"


def replace_model(
    monkeypatch: pytest.MonkeyPatch,
    role: str,
    backend: str,
    load: Callable[[], object],
    canary: models.Canary | None = None,
) -> None:
    """Let another function load the model of a role, which answers no canary sentence unless one is given."""
    by_backend = {**models.roles()[role], backend: replace(models.roles()[role][backend], load=load, canary=canary)}
    roles = {**models.roles(), role: by_backend}
    monkeypatch.setattr(models, "roles", lambda: roles)
    models.load.cache_clear()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ModuleNotFoundError("No module named 'textblob'", name="textblob")

    replace_model(monkeypatch, "tagger", "offline", missing)
    with pytest.raises(BackendError, match=r"offline backend of 'tagger' \(textblob\) needs textblob"):
        models.load("tagger", "offline")


# Models that are installed and broken.
BROKEN: dict[str, Callable[[], object]] = {
    "inflector": lambda: SimpleNamespace(lemma=lambda word, tag: word, inflect=lambda lemma, tag: lemma),
    "masked_lm": lambda: lambda words, at, tag: [],
    "neighbours": lambda: lambda word: (),
    "similarity": lambda: SimpleNamespace(embed=lambda texts: np.full((len(texts), 4), 0.5), threshold=0.9),
    "styler": lambda: lambda text, style, rng: text if style == "formal" else "",
    "tagger": lambda: lambda words: ["NN"] * len(words),
    "translator": lambda: lambda text: "",
    "wordnet": lambda: lambda word, tag: (),
    "ambiguous": lambda: lambda tag: (),
}


@each("backend", models.BACKENDS)
@each("name", models.roles())
def test_a_model_that_is_broken_is_named_with_what_it_gave(
    name: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models.roles()[name][backend]
    replace_model(monkeypatch, name, backend, BROKEN[name], model.canary)
    with pytest.raises(
        ToolError, match=rf"{re.escape(model.name)}, the model of '{name}', gives .* for '.*'; expected: "
    ):
        models.load(name, backend)
    replace_model(monkeypatch, name, backend, lambda: None, model.canary)
    with pytest.raises(ToolError, match=rf"{re.escape(model.name)}, the model of '{name}', fails on .*Error"):
        models.load(name, backend)
    models.load.cache_clear()


def test_a_translator_that_gives_every_caption_back_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_model(monkeypatch, "translator", "offline", lambda: str, models.roles()["translator"]["offline"].canary)
    with pytest.raises(ToolError, match=r"apertium-post-edited, .* gives 'a man is talking about the car' for"):
        models.load("translator", "offline")
    models.load.cache_clear()


@pytest.fixture(autouse=True)
def fresh_roles() -> Any:
    yield
    if models.load.cache_info().currsize > 20:
        models.load.cache_clear()


# --- WordNet ----------------------------------------------------------------------------------------------------------


def test_synonyms_share_a_sense() -> None:
    synonyms = role("wordnet")
    assert synonyms("person", "NN") == ("individual", "mortal", "somebody", "someone", "soul")
    assert synonyms("persons", "NNS") == synonyms("person", "NN")
    assert set(synonyms("persons", None)) == {"person", *synonyms("person", None)}, "EDA and METEOR count base forms"
    assert {"speak", "verbalize"} <= set(synonyms("talking", "VBG"))
    assert "adult male" in synonyms("men", "NNS")
    assert "manage" in synonyms("does", "VBZ")
    assert synonyms("zzzz", None) == synonyms("", None) == synonyms("the", "DT") == ()


def test_every_synset_is_read() -> None:
    role("wordnet")
    glosses = list(fluency_table.glosses(text_wordnet.wordnet_folder()))
    assert len(glosses) == 117_659
    assert glosses[0].startswith("that which is perceived")


def test_without_wordnet_the_package_to_install_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="apt-get install wordnet-base"):
        text_wordnet.WordNet(tmp_path)


def test_a_small_wordnet(tmp_path: Path) -> None:
    """The file format, without the real files: sorted index, offsets, exceptions, markers."""
    licence = "  1 This software and database\n"
    data = licence + f"{len(licence):08d} 03 n 02 dog 0 domestic_dog(a) 0 000 | a pet\n"
    (tmp_path / "data.noun").write_text(data)
    (tmp_path / "index.noun").write_text(
        licence + f"cat n 0 0 0 0  \ndog n 1 0 1 1 {len(licence):08d}  \ndomestic_dog n 1 0 1 0 {len(licence):08d}  \n"
    )
    (tmp_path / "noun.exc").write_text("dogz dog\n")
    for name in ("verb", "adj", "adv"):
        (tmp_path / f"data.{name}").write_text(licence)
        (tmp_path / f"index.{name}").write_text(licence)
        (tmp_path / f"{name}.exc").write_text("")
    wordnet = text_wordnet.WordNet(tmp_path)
    assert wordnet.synonyms("dog", None) == wordnet.synonyms("dogs", "NNS") == ("domestic dog",)
    assert wordnet.synonyms("dogz", "NN") == ("domestic dog",)
    assert wordnet.synonyms("domestic dog", None) == ("dog",)
    assert wordnet.synonyms("dog", "VB") == wordnet.synonyms("cat", None) == wordnet.synonyms("bird", None) == ()
    assert list(fluency_table.glosses(tmp_path)) == ["a pet"]


# --- neighbours, gaps, inflections ------------------------------------------------------------------------------------


def test_neighbours_are_other_words() -> None:
    neighbours = role("neighbours")
    assert "girl" in neighbours("woman")
    assert "woman" not in neighbours("woman")
    assert len(neighbours("woman")) == 30
    assert neighbours("zzzz") == ()


def test_glove_is_read_from_its_text_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("cat 1 0\ndog 0.9 0.1\ncar 0 1\n, 1 1\n")
    assert text_neighbours.glove(path)("cat") == ("dog", "car")
    monkeypatch.setenv("PERTURB_GLOVE", str(path))
    assert text_neighbours.glove()("cat") == ("dog", "car")
    with pytest.raises(BackendError, match="PERTURB_GLOVE"):
        text_neighbours.glove(tmp_path / "none.txt")


def test_gaps_are_filled_with_words_of_the_same_kind_and_form() -> None:
    fill = role("masked_lm")
    assert fill(["two", "dogs", "run"], 1, "NNS") == ["cats", "puppies"]
    assert fill(["a", "woman", "sings"], 1, "NN") == ["lady"]
    assert "sugar" not in fill(["salt", "and", "sugar"], 0, "NN")
    assert fill(["soy", "sauce"], 1, "NN") == fill(["zzzz"], 0, "NN") == []


def test_inflections() -> None:
    inflector = role("inflector")
    assert [inflector.lemma(word, "VBZ") for word in ("does", "is", "goes")] == ["do", "be", "go"]
    assert [inflector.inflect("sing", tag) for tag in ("VBD", "VBN", "VBG", "VBZ")] == [
        "sang",
        "sung",
        "singing",
        "sings",
    ]
    assert inflector.lemma("zzzz", "NN") == "zzzz"


# --- translation ------------------------------------------------------------------------------------------------------


def test_apertium_translates_there_and_back() -> None:
    translator = role("translator")
    assert translator("a man is playing the guitar") == "a man is playing the guitar"
    assert "film with her dog" in translator("a woman talks about a movie with her dog")
    assert translator("A man is talking about the car").startswith("A man is speaking")
    assert translator("😀 123") == "😀 123"


def letters(texts: Sequence[str]) -> Any:
    """Embeddings of texts that are as similar as they share letters."""
    counts = np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], float)
    return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def test_the_most_similar_of_several_languages_is_taken() -> None:
    def through(old: str, new: str) -> text_translator.RoundTrip:
        return lambda texts: [text.replace(old, new) for text in texts]

    pivots = {"near": through("a b", "a c"), "far": through("a b", "z z"), "none": through("q", "r")}
    translator = text_translator.BackTranslator(pivots, letters, str, lambda original, back: back)
    assert translator("a b a") == "a c a"
    assert translator("x y") == "x y"
    assert translator.detail == "near, far, none"


def test_captions_do_not_bleed_into_each_other() -> None:
    role("translator")
    captions = [
        GIRL,
        PERSON,
        "",
        "...",
        "the man s car",
        "he said . she said",
        "two\n\nlines",
        "a man plays a guitar ?",
    ]
    together = text_translator.apertium()
    together.prepare(captions)
    for caption in captions:
        assert together(caption) == text_translator.apertium()(caption)


def test_a_caption_that_apertium_cuts_in_two_does_not_shift_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def cutting(*arguments: str, stdin: str = "") -> str:
        return stdin.replace("CUT", "left .\n\nright").upper()

    monkeypatch.setattr(text_translator, "_apertium", cutting)
    assert text_translator.translate(["one", "a CUT b", "two", "three"], "eng-spa") == [
        "ONE",
        "A LEFT . RIGHT B",
        "TWO",
        "THREE",
    ]


def test_without_apertium_the_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BackendError, match="apt-get install apertium apertium-eng-spa"):
        text_translator.apertium()


FAKES = {
    "prints nothing": ("", "gave 0 translations of 2 captions"),
    "runs lines together": ('cat | tr -d "\\n"', "gave 1 translations of 2 captions"),
    "drops a line": ('read line; echo "$line"', "gave 1 translations of 2 captions"),
    "leaves a line empty": ("cat >/dev/null; printf 'uno .\\n\\n.\\n\\n'", "gave 1 translations of 2 captions"),
    "fails": ("echo no such mode >&2; exit 1", "failed with exit status 1: no such mode"),
    "dies": ("kill -9 $$", "failed with exit status -9"),
    "is no text": ("printf '\\377\\376 .\\n\\n'", "gave no UTF-8 text"),
    # As Apertium does, it starts programs that hold its output open.
    "hangs": ("sleep 600 & sleep 600", "did not answer within 0.3 s"),
}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a script in Apertium's place, which lists the language pairs as Apertium does."""

    def write(script: str) -> None:
        path = tmp_path / "apertium"
        path.write_text(f'#!/bin/sh\nif [ "$1" = -l ]; then echo "eng-spa spa-eng"; exit; fi\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return write


@pytest.mark.parametrize("name", FAKES)
def test_an_apertium_that_fails_is_an_error(
    name: str, fake: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    script, problem = FAKES[name]
    fake(script)
    if name == "hangs":
        monkeypatch.setattr(text_translator, "_LIMIT_S", 0.3)
    with pytest.raises(ToolError, match=problem):
        text_translator.apertium().prepare([GIRL, PERSON])


def test_apertium_runs_under_a_locale_that_every_machine_has(
    fake: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")
    fake('cat >/dev/null; echo "under $LC_ALL ."')
    assert text_translator.translate([GIRL], "eng-spa") == ["under C.UTF-8"]


def test_an_apertium_that_cannot_be_run_is_an_error(
    fake: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake("")
    translator = text_translator.apertium()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match="cannot be run: No such file"):
        translator(GIRL)


def test_pretrained_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    role("tagger")
    replace_model(monkeypatch, "tagger", "pretrained", lambda: lambda words: ["NN"] * len(words))
    result = perturbations.perturb_text(GIRL, "msrvtt_p/no_nouns", seed=0, item_id="c", backend="pretrained")
    models.load.cache_clear()
    assert result.text == "[UNK] [UNK] [UNK] [UNK] [UNK]"
    assert result.backend == "nltk/averaged_perceptron_tagger_eng"
