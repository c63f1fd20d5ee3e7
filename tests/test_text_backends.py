"""The models of roles: the offline ones on real data, the loading code of the others on tiny random models."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import fluency_table
import numpy as np
import pytest
from looping import each
from text_support import GIRL, PERSON, generator, role

import perturbations
from perturbations.base.errors import BackendError, ToolError
from perturbations.models import registry as models
from perturbations.models import (
    text_masked_lm,
    text_neighbours,
    text_similarity,
    text_style,
    text_tagger,
    text_translator,
    text_wordnet,
)

WORDS = [*GIRL.split(), "boy", "plays", "guitar", "red", "the", "man", "sings", "transfer", "formal", "to", "casual"]


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
    assert text_translator._translate(["one", "a CUT b", "two", "three"], "eng-spa") == [
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
    assert text_translator._translate([GIRL], "eng-spa") == ["under C.UTF-8"]


def test_an_apertium_that_cannot_be_run_is_an_error(
    fake: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake("")
    translator = text_translator.apertium()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match="cannot be run: No such file"):
        translator(GIRL)


# --- similarity -------------------------------------------------------------------------------------------------------


def test_topics_are_compared() -> None:
    encoder = role("similarity")

    def similarity(first: str, second: str) -> float:
        vectors = encoder.embed([first, second])
        return float(vectors[0] @ vectors[1])

    assert similarity(GIRL, "A little girl does gymnastics.") > 0.98
    assert 0.7 < similarity(GIRL, "a little boy does gymnastics") < 0.85
    assert similarity(GIRL, "add the oil to the pan") < 0.2
    assert np.linalg.norm(encoder.embed(["", GIRL]), axis=1) == pytest.approx([1, 1])


def test_an_embedding_does_not_depend_on_its_neighbours() -> None:
    encoder = role("similarity")
    captions = [f"{GIRL} {'and more ' * (at % 7)}number {at}" for at in range(150)]
    together = encoder.embed(captions)
    for at in (0, 1, 77, 149):
        assert np.array_equal(encoder.embed([captions[at]])[0], together[at])
    assert np.array_equal(encoder.embed(captions[::-1])[::-1], together)


def test_weights_that_are_not_the_published_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"published")
    expected = {"weights": hashlib.sha256(b"published").hexdigest()}
    text_similarity.check_files(tmp_path, expected)
    (tmp_path / "weights").write_bytes(b"changed")
    with pytest.raises(BackendError, match="weights is not the file .* SHA-256 begins with .* not .* install it again"):
        text_similarity.check_files(tmp_path, expected)
    with pytest.raises(BackendError, match="No such file .* install it again"):
        text_similarity.check_files(tmp_path / "none", expected)


def test_the_encoder_computes_what_transformers_does(tmp_path: Path) -> None:
    role("similarity")
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    folder = text_similarity.minilm_folder()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    for text in (GIRL, "straße, naïve 😀", "word " * 300):
        tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=256)
        with torch.inference_mode():
            pooled = model(**tokens).last_hidden_state[0].mean(dim=0)
        assert role("similarity").embed([text])[0] == pytest.approx((pooled / pooled.norm()).numpy(), abs=1e-5)


# --- tiny random models -----------------------------------------------------------------------------------------------


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., str]:
    """Saves a tiny random model of a class, with a tokenizer that knows a few words; returns its folder."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")

    def make(name: str, model_class: str, config_class: str, **settings: Any) -> str:
        folder = tmp_path / name
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        vocabulary = {word: number for number, word in enumerate([*special, *WORDS])}
        inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
        inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        named = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True))
        transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="[SEP]", **named).save_pretrained(folder)
        torch.manual_seed(0)
        sized = {key: len(vocabulary) if value == "vocabulary" else value for key, value in settings.items()}
        config = getattr(transformers, config_class)(**sized)
        getattr(transformers, model_class)(config).save_pretrained(folder)
        return str(folder)

    return make


BERT = {
    "vocab_size": "vocabulary",
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def test_bert_fills_gaps_with_words_of_the_tag_and_mpnet_embeds(save: Callable[..., str]) -> None:
    role("tagger")
    fill = text_masked_lm.bert(save("bert", "BertForMaskedLM", "BertConfig", **BERT))
    tagger = role("tagger")
    words = fill(GIRL.split(), 2, "NN")
    assert words == fill(GIRL.split(), 2, "NN")
    assert set(words) == {word for word in set(WORDS) if len(word) > 1 and tagger([word])[0][:2] == "NN"}
    assert fill(GIRL.split(), 2, "UH") == []
    assert fill(["word"] * 2000, 1000, "NN")
    encoder = text_similarity.mpnet(save("mpnet", "MPNetModel", "MPNetConfig", **BERT))
    vectors = encoder.embed([GIRL, "the man sings", GIRL])
    assert encoder.threshold == 0.9
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1])
    assert np.array_equal(vectors[0], vectors[2])
    assert not np.array_equal(vectors[0], vectors[1])
    assert np.array_equal(encoder.embed(["the man sings"])[0], vectors[1])


@pytest.mark.parametrize("kind", ["FSMT", "Marian"])
def test_translation_models_go_there_and_back(save: Callable[..., str], kind: str) -> None:
    size = len(WORDS) + 5
    shape = {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "max_length": 12,
        "pad_token_id": 0,
        "eos_token_id": 3,
        "bos_token_id": 2,
        "decoder_start_token_id": 3,
    }
    if kind == "FSMT":
        settings = {"langs": ["en", "de"], "src_vocab_size": size, "tgt_vocab_size": size, **shape}
        names = ("FSMTForConditionalGeneration", "FSMTConfig")
    else:
        settings = {
            "vocab_size": "vocabulary",
            "forced_eos_token_id": 3,
            "min_length": 4,
            "bad_words_ids": [[0], [1], [2], [4]],
            **shape,
        }
        names = ("MarianMTModel", "MarianConfig")
    there, back = save("there", *names, **settings), save("back", *names, **settings)
    translator = text_translator.wmt19(there, back)
    for model, _ in translator.args[0] if kind == "Marian" else ():
        # Its random weights may give special tokens only.
        model.generation_config.update(min_new_tokens=3, suppress_tokens=[0, 1, 2, 4])  # type: ignore[attr-defined]
    translation = translator(GIRL)
    assert translation == translator(GIRL)
    assert set(translation.split()) <= set(WORDS)
    assert translator(" ") == " "


def test_a_translation_model_that_gives_nothing_is_an_error() -> None:
    def side(answer: str) -> Any:
        tokenizer = MagicMock(return_value={})
        tokenizer.batch_decode.return_value = [answer]
        return MagicMock(), tokenizer

    assert text_translator.through([side("ein Kind"), side("a child")], GIRL) == "a child"
    with pytest.raises(ToolError, match="gives nothing for the caption 'a little girl"):
        text_translator.through([side("ein Kind"), side(" ")], GIRL)


T5 = {
    "vocab_size": "vocabulary",
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 16,
    "num_layers": 1,
    "num_heads": 2,
    "pad_token_id": 0,
    "eos_token_id": 3,
    "decoder_start_token_id": 0,
}


def test_style_models_sample_from_the_captions_generator(
    save: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    names = {"formal": save("t5", "T5ForConditionalGeneration", "T5Config", **T5)}
    judge = save("judge", "RobertaForSequenceClassification", "RobertaConfig", max_position_embeddings=80, **BERT)
    styler = text_style.t5(names, judge)
    # a random judge finds nothing adequate: the caption stays
    assert styler(GIRL, "formal", generator(1)) == GIRL
    monkeypatch.setattr(text_style, "_ADEQUATE", 0.0)
    before = torch.random.get_rng_state().tolist()
    styled = styler(GIRL, "formal", generator(1))
    assert styled == styler(GIRL, "formal", generator(1))
    assert len({styler(GIRL, "formal", generator(seed)) for seed in range(5)}) > 1
    assert styled != GIRL
    assert torch.random.get_rng_state().tolist() == before
    assert styler("", "formal", generator(1)) == ""


def test_weights_that_are_not_there_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(BackendError, match=r"/none' is not on this machine.* no such folder.* backend `offline`"):
        text_similarity.mpnet(str(tmp_path / "none"))
    with pytest.raises(BackendError, match=r"hf download nobody/none; or use the backend `offline`"):
        text_similarity.mpnet("nobody/none")


def test_nltks_tagger_is_read_from_nltks_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nltk = pytest.importorskip("nltk")
    from nltk.tag import PerceptronTagger

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    with pytest.raises(BackendError, match="averaged_perceptron_tagger_eng"):
        text_tagger.perceptron()
    model = PerceptronTagger(load=False)
    tags = ["DT", "JJ", "NN", "VBZ", "NNS"]
    model.train([list(zip(GIRL.split(), tags, strict=True))] * 5, nr_iter=5)
    folder = tmp_path / "taggers" / "averaged_perceptron_tagger_eng"
    folder.mkdir(parents=True)
    for parameter, name in zip(model.encode_json_obj(), model.param_files("eng"), strict=True):
        (folder / name).write_text(json.dumps(parameter))
    tag = text_tagger.perceptron()
    assert tag(GIRL.split()) == tags
    assert len(tag(["...", "girl,"])) == 2


def test_pretrained_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    role("tagger")
    replace_model(monkeypatch, "tagger", "pretrained", lambda: lambda words: ["NN"] * len(words))
    result = perturbations.perturb_text(GIRL, "msrvtt_p/no_nouns", seed=0, item_id="c", backend="pretrained")
    models.load.cache_clear()
    assert result.text == "[UNK] [UNK] [UNK] [UNK] [UNK]"
    assert result.backend == "nltk/averaged_perceptron_tagger_eng"
