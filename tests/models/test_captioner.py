"""The captioner and the nouns of its captions, on small random models of the same classes."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest
import tiny_models
from tiny_models import CPU, picture, torch

from perturbations.base.errors import ConfigError
from perturbations.models import captioner, nouns

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture(scope="module")
def qwen_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_qwen(tmp_path_factory.mktemp("qwen") / "tiny-qwen")


@pytest.fixture(scope="module")
def qwen(qwen_folder: Path) -> captioner.Captioner:
    return captioner.load(str(qwen_folder), **CPU)


CLIPS = [
    [picture(1, 120, 160)],
    [picture(seed, 90, 170) for seed in (2, 3, 4)],
    [picture(seed, 200, 100) for seed in (5, 6)],
]


def test_captions_depend_on_the_frames_and_their_order(qwen: captioner.Captioner) -> None:
    captions = [qwen.describe(clip) for clip in CLIPS]
    assert [qwen.describe(clip) for clip in CLIPS] == captions
    assert len(set(captions)) == len(CLIPS)
    assert all(text == text.strip() and "\n" not in text for text in captions)
    forward = [picture(seed, 90, 170) for seed in (2, 3, 4)]
    orders = (forward, forward[::-1], [forward[0], forward[2], forward[1]])
    assert len({qwen.describe(frames) for frames in orders}) == 3


def test_generation_is_plain_greedy(qwen: captioner.Captioner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token is the likeliest: no sampling, and no penalty from the checkpoint's settings."""
    model = qwen._model
    seen: dict[str, Any] = {}
    generate = model.generate

    def recorded(**inputs: Any) -> Any:
        result = generate(**inputs, output_logits=True, return_dict_in_generate=True)
        seen.update(sequences=result.sequences, logits=torch.stack(result.logits, 1), inputs=inputs)
        return result.sequences

    monkeypatch.setattr(model, "generate", recorded)
    for clip in CLIPS:
        qwen.describe(clip)
        (answer,) = seen["sequences"][:, seen["inputs"]["input_ids"].shape[1] :]
        assert 1 <= len(answer) <= captioner.MAX_NEW_TOKENS
        assert torch.equal(answer, seen["logits"][0].argmax(-1))


@pytest.mark.parametrize(
    ("answer", "caption"),
    [("  A man. \n\nMore<|im_end|><|endoftext|>", "A man."), ("\nB!\nC<|im_end|>", "B!"), ("<|im_end|>", "")],
)
def test_one_place_for_every_patch_and_one_line_of_the_answer(
    qwen: captioner.Captioner, monkeypatch: pytest.MonkeyPatch, answer: str, caption: str
) -> None:
    seen: dict[str, Any] = {}

    def generate(**inputs: Any) -> Any:
        seen.update(inputs)
        return torch.cat([inputs["input_ids"], qwen._tokenizer([answer], return_tensors="pt")["input_ids"]], dim=1)

    monkeypatch.setattr(qwen._model, "generate", generate)
    for clip, times in zip(CLIPS, (1, 2, 1), strict=True):
        assert qwen.describe(clip) == caption
        assert seen["attention_mask"].all()
        (grid,) = seen["video_grid_thw"]
        assert grid[0] == times
        places = (seen["input_ids"] == qwen._model.config.video_token_id).sum()
        assert places == grid.prod() // 4
        assert len(seen["pixel_values_videos"]) == grid.prod()
        assert (seen["mm_token_type_ids"] == 2).sum() == places
        # A patch spans two frames, which are a second apart.
        assert seen["second_per_grid_ts"].tolist() == [2.0]


def test_the_prompt_follows_the_chat_template(qwen: captioner.Captioner) -> None:
    assert qwen._prompt == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        f"<|vision_start|><|video_pad|><|vision_end|>{captioner.PROMPT}<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_video_patches_hold_a_frame_and_the_next(qwen: captioner.Captioner, count: int) -> None:
    """Against the layout written out: time, blocks of 2 x 2 patches, then channel, moment, row, column."""
    frames = [picture(seed, 336, 392) for seed in range(count)]  # a size that resizing keeps
    patches, grid = qwen.patches_of(frames)
    times, rows, columns = (count + 1) // 2, 336 // 14, 392 // 14
    assert grid == [times, rows, columns]
    assert patches.dtype == np.float32
    processor = qwen._image_processor
    pixels = np.stack(frames + frames[-1:] * (count % 2)).astype(np.float64) / 255
    pixels = (pixels - processor.image_mean) / processor.image_std
    expected = (
        pixels.reshape(times, 2, rows // 2, 2, 14, columns // 2, 2, 14, 3)
        .transpose(0, 2, 5, 3, 6, 8, 1, 4, 7)
        .reshape(len(patches), -1)
    )
    np.testing.assert_allclose(patches, expected, atol=1e-5)


def test_video_patches_are_the_video_processors(qwen: captioner.Captioner) -> None:
    needs.library("torchvision")
    from transformers import Qwen2VLVideoProcessor

    frames = [picture(seed, 336, 392) for seed in range(3)]
    expected = Qwen2VLVideoProcessor()(videos=[np.stack(frames)], do_resize=False, return_tensors="np")
    patches, grid = qwen.patches_of(frames)
    assert expected["video_grid_thw"].tolist() == [grid]
    np.testing.assert_allclose(patches, expected["pixel_values_videos"], atol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(3, 3), (3, 40), (1, 40), (517, 31), (1081, 1917)])
def test_frames_of_any_size_stay_within_the_pixel_limits(qwen: captioner.Captioner, height: int, width: int) -> None:
    patches, (times, rows, columns) = qwen.patches_of([picture(1, height, width)])
    assert times == 1
    assert len(patches) == rows * columns
    assert captioner.MIN_FRAME_PIXELS <= rows * columns * 14 * 14 <= captioner.MAX_FRAME_PIXELS
    assert (rows < columns) == (height < width)


def test_clips_of_no_or_too_many_frames_are_refused(qwen: captioner.Captioner) -> None:
    for frames in ([], [picture(1, 30, 30)] * 17):
        with pytest.raises(ValueError, match=f"clip of {len(frames)} frames"):
            qwen.describe(frames)


def test_captioner_in_bfloat16_says_so(qwen_folder: Path) -> None:
    loaded = captioner.load(str(qwen_folder), **{**CPU, "dtype": "bfloat16"})
    assert loaded.identity["dtype"] == "bfloat16"
    assert {str(weight.dtype) for weight in loaded._model.parameters()} == {"torch.bfloat16"}
    assert loaded.describe(CLIPS[0]) == loaded.describe(CLIPS[0])


def test_a_template_without_videos_is_refused(qwen_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(qwen_folder, tmp_path / "words-only"))
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": "{{ messages[0]['role'] }}"}))
    with pytest.raises(ConfigError, match="no place for a video"):
        captioner.load(str(folder), **CPU)
    (folder / "chat_template.json").unlink()
    with pytest.raises(ConfigError, match="no chat template"):
        captioner.load(str(folder), **CPU)


# word -> part of speech, lemma, dependency, steps to its head
GRAMMAR = {
    "the": ("DET", "the", "det", 1),
    "a": ("DET", "a", "det", 1),
    "dogs": ("NOUN", "dog", "nsubj", 1),
    "man": ("NOUN", "man", "nsubj", 1),
    "chase": ("VERB", "chase", "ROOT", 0),
    "runs": ("VERB", "run", "ROOT", 0),
    "ball": ("NOUN", "ball", "dobj", -2),
    "balls": ("NOUN", "ball", "dep", -1),
    "kites": ("NOUN", "kite", "dep", -1),
    "dog": ("NOUN", "dog", "nsubj", 1),
}


@pytest.fixture(scope="module")
def spacy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spacy = pytest.importorskip("spacy")

    @spacy.Language.component("grammar_of_the_tests")
    def grammar(doc: Any) -> Any:
        words = [GRAMMAR.get(token.lower_, ("PUNCT", token.text, "punct", -1)) for token in doc]
        filled = spacy.tokens.Doc(
            doc.vocab,
            words=[token.text for token in doc],
            spaces=[bool(token.whitespace_) for token in doc],
            pos=[pos for pos, _, _, _ in words],
            lemmas=[lemma for _, lemma, _, _ in words],
            deps=[dep for _, _, dep, _ in words],
            heads=[min(max(n + step, 0), len(words) - 1) for n, (_, _, _, step) in enumerate(words)],
        )
        return filled

    pipeline = spacy.blank("en")
    pipeline.add_pipe("grammar_of_the_tests")
    folder = tmp_path_factory.mktemp("spacy") / "tiny_english"
    pipeline.to_disk(folder)
    return folder


def test_keywords_are_roots_of_noun_chunks_and_the_pipeline_is_named(spacy_folder: Path) -> None:
    loaded = nouns.load(str(spacy_folder))
    captions = ["The Dogs chase a ball", "runs", "A man runs", "Balls kites balls", "", "Dogs chase the DOGS"]
    keywords = [["dogs", "ball"], [], ["man"], ["ball", "kite"], [], ["dogs"]]
    assert [loaded.keywords(caption) for caption in captions] == keywords
    known = nouns.load(str(spacy_folder)).identity
    assert known["name"] == "tiny_english"
    assert known["revision"].startswith("sha256:")
    assert known["spacy"] == importlib.import_module("spacy").__version__


def test_a_missing_spacy_pipeline_or_one_without_a_parser_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    with pytest.raises(ConfigError, match="'xx_no_such_sm' is not on this machine.*spacy download xx_no_such_sm"):
        nouns.load("xx_no_such_sm")
    spacy = pytest.importorskip("spacy")
    for language in ("en", "xx"):
        spacy.blank(language).to_disk(tmp_path / language)
        with pytest.raises(ConfigError, match="finds no noun chunks"):
            nouns.load(str(tmp_path / language))
