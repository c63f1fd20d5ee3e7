"""The CLIP embedding with a byte-pair tokenizer like the published one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from looping import each
from PIL import Image
from tiny_models import pictures, torch, transformers

from perturbations.models import clip_model

CPU: dict[str, Any] = {"revision": None, "device": "cpu", "dtype": "float32"}
MERGES = ["t h", "th e</w>", "d o", "do g</w>", "c a", "ca t</w>"]


def save(folder: Path) -> Path:
    """A tiny CLIP whose tokenizer is CLIP's own: pieces of words, the end of a sentence also for padding."""
    tiny_models.save_clip(folder)
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)]
    pieces = [*letters, *(letter + "</w>" for letter in letters), *(merge.replace(" ", "") for merge in MERGES)]
    vocabulary = {piece: number for number, piece in enumerate([*pieces, "<|startoftext|>", "<|endoftext|>"])}
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *MERGES, ""]))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "CLIPTokenizer"}))
    config = transformers.CLIPConfig.from_pretrained(folder)
    config.text_config.update({"vocab_size": len(vocabulary), "bos_token_id": len(vocabulary) - 2})
    config.text_config.update({"eos_token_id": len(vocabulary) - 1, "pad_token_id": len(vocabulary) - 1})
    torch.manual_seed(3)
    model = transformers.CLIPModel(config)
    for parameter in model.parameters():  # far from zero, so that unlike inputs have unlike embeddings
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def exact(folder: Path) -> clip_model.ClipModel:
    return clip_model.load(str(folder), **CPU)


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def model(request: pytest.FixtureRequest, folder: Path) -> clip_model.ClipModel:
    return clip_model.load(str(folder), **{**CPU, "dtype": request.param})


CLIPS = [
    pictures(12, 24, 32, seed=1),
    pictures(1, 50, 20, seed=3),
    [*pictures(2, 20, 30, seed=4), *pictures(2, 30, 20, seed=5)],
]
TEXTS = ["the dog", "cat", "", "the cat and the dog " * 30, "a man with a dog", "ünïcödé 犬"]


def test_vectors_are_float32_of_length_1_and_differ(model: clip_model.ClipModel) -> None:
    vectors = [model.embed_video(clip) for clip in CLIPS]
    for vector in vectors:
        assert (vector.shape, vector.dtype) == ((16,), np.float32)
        assert np.linalg.norm(vector.astype(np.float64)) == pytest.approx(1, abs=1e-6)
    assert not np.array_equal(vectors[0], vectors[1])
    with pytest.raises(ValueError, match="at least one"):
        model.embed_video([])


def test_each_frame_counts_the_same_and_sentences_end_where_positions_do(exact: clip_model.ClipModel) -> None:
    frames = CLIPS[0][:3]
    mean = np.mean([exact.embed_video([frame]).astype(np.float64) for frame in frames], axis=0)
    np.testing.assert_allclose(exact.embed_video(frames), mean / np.linalg.norm(mean), atol=1e-5)
    # 12 positions: the start, 10 pieces, the end.
    short, long, longer = map(exact.text_features, ["the dog " * 4, "the dog " * 5, "the dog " * 5 + "cat"])
    assert np.array_equal(long, longer)
    assert not np.allclose(short, long, atol=1e-3)


def test_features_have_the_length_that_the_model_gives_them(exact: clip_model.ClipModel) -> None:
    frames = CLIPS[0][:3]
    alone = np.array([exact.mean_features([frame]) for frame in frames], np.float64)
    lengths = np.linalg.norm(alone, axis=1)
    assert np.abs(lengths - 1).min() > 1e-3
    np.testing.assert_allclose(exact.mean_features(frames), alone.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(alone / lengths[:, None], [exact.embed_video([f]) for f in frames], atol=1e-5)
    assert not np.allclose([np.linalg.norm(exact.text_features(text)) for text in TEXTS], 1, atol=1e-2)


def test_a_sentence_is_read_at_its_end_and_in_any_case(folder: Path, exact: clip_model.ClipModel) -> None:
    plain = transformers.CLIPModel.from_pretrained(folder).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)("the dog", return_tensors="pt")
    assert tokens["input_ids"].shape == (1, 4)  # pieces are merged
    with torch.inference_mode():
        expected = plain.get_text_features(**tokens).pooler_output[0].numpy()
    np.testing.assert_allclose(exact.text_features("the dog"), expected, rtol=1e-5, atol=1e-5)
    assert np.array_equal(exact.text_features("the dog"), exact.text_features("The DOG"))


@each("size", [(1, 1), (1, 3), (3, 1), (3, 40), (40, 3)])
def test_frames_of_any_size(model: clip_model.ClipModel, size: tuple[int, int]) -> None:
    for frames in (pictures(2, *size), [np.zeros((*size, 3), np.uint8)]):
        assert np.isfinite(model.embed_video(frames)).all()


@pytest.mark.parametrize("size", [(1, 3), (3, 40), (1, 40), (40, 3)])
def test_a_frame_a_few_pixels_high_is_not_turned(
    folder: Path, exact: clip_model.ClipModel, size: tuple[int, int]
) -> None:
    frame = pictures(1, *size, seed=8)[0]
    plain = transformers.CLIPModel.from_pretrained(folder).eval()
    picture = Image.fromarray(frame)  # which has no other order of axes
    inputs = transformers.CLIPImageProcessorPil.from_pretrained(folder)(picture, return_tensors="pt")
    with torch.inference_mode():
        expected = plain.get_image_features(**inputs).pooler_output[0].numpy()
    embedding = exact.embed_video([frame])
    np.testing.assert_allclose(embedding, expected / np.linalg.norm(expected), atol=1e-5)


def test_pixels_come_from_pil_and_are_left_alone(exact: clip_model.ClipModel) -> None:
    assert isinstance(exact._processor, transformers.CLIPImageProcessorPil)
    frames = [frame.copy() for frame in CLIPS[0]]
    exact.embed_video(frames)
    assert all(np.array_equal(image, original) for image, original in zip(frames, CLIPS[0], strict=True))
