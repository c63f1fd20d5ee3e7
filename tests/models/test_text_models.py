"""Pretrained models of captions: tiny random ones of their classes, and the encoder that compares captions."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import clips
import numpy as np
import pytest
from text_support import GIRL, generator, role

from perturbations.base.errors import BackendError, ToolError
from perturbations.cli.main import main
from perturbations.corpus.plan import caption_recipes
from perturbations.manifest import files
from perturbations.manifest.rows import TEXTS
from perturbations.models import (
    language_model,
    text_masked_lm,
    text_similarity,
    text_style,
    text_tagger,
    text_translator,
)
from perturbations.suites import suite_registry

WORDS = [*GIRL.split(), "boy", "plays", "guitar", "red", "the", "man", "sings", "transfer", "formal", "to", "casual"]


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


# --- perplexity -------------------------------------------------------------------------------------------------------


def test_perplexity_is_of_the_tokens_of_a_local_model_also_by_the_command(tmp_path: Path) -> None:
    from perturbations.evaluation.models import perplexity

    torch = pytest.importorskip("torch")
    folder = pytest.importorskip("tiny_models").language_model(tmp_path / "tiny")
    model = language_model.load(str(folder))
    tokens = torch.tensor([[model._tokenizer.eos_token_id, *model._tokenizer(GIRL)["input_ids"]]])
    with torch.inference_mode():
        chances = model._model(tokens).logits[0].double().log_softmax(-1)
    losses = [-float(chances[place, token]) for place, token in enumerate(tokens[0, 1:].tolist())]
    assert model.perplexity(GIRL) == pytest.approx(float(np.exp(np.mean(losses))), rel=1e-5)
    assert model.perplexity("") is None
    recipes = [caption_recipes.make(suite_registry.get(f"msrvtt_p/{name}"), 1) for name in ("typos", "tense")]
    rows = [
        clips.text_row(wanted, caption_id=f"c{number}", source_text=f"s{number}", text=text)
        for wanted in recipes
        for number, text in enumerate((f"{wanted.perturbation} one", "", "loud"))
    ]
    known = {"s0": 10.0, "s1": 20.0, "s2": 900.0, "typos one": 30.0, "tense one": 600.0, "loud": 700.0}
    table = perplexity.of_rows(rows, known.get)
    assert table.iloc[:, :2].to_numpy().tolist() == [["original", 0], ["typos", 1], ["tense", 1]]
    expected = [[3, 310, 1 / 3, 15], [2, 365, 0.5, 30], [2, 650, 1, np.nan]]
    np.testing.assert_allclose(table[["captions", "mean", "above", "mean_below"]].to_numpy(), expected)
    files.write(tmp_path / "captions.parquet", TEXTS, rows)
    command = ["encode", str(tmp_path / "captions.parquet"), "--perplexity", "-o", str(tmp_path), "--model"]
    assert main([*command, str(folder)]) == 0
    with (tmp_path / "perplexity.csv").open(newline="") as file:
        lines = [*csv.DictReader(file)]
    assert [line["perturbation"] for line in lines] == ["original", "tense", "typos"]
    assert lines[0]["model"] == model.source
    assert float(lines[2]["mean"]) == pytest.approx(np.mean([model.perplexity(text) for text in ("typos one", "loud")]))
    assert main([*command, str(tmp_path / "nothing")]) == 1
