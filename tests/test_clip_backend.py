"""CLIP as the pretrained embedding, with a tiny random model of the same classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from tiny_models import pictures, torch, transformers

from perturbations.errors import ConfigError
from perturbations.models import clip

CPU: dict[str, Any] = {"revision": None, "device": "cpu", "dtype": "float32"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_models.save_clip(tmp_path_factory.mktemp("clip")))


# --- loading ---------------------------------------------------------------------------------------------------------


def test_a_missing_model_says_how_to_get_it() -> None:
    with pytest.raises(ConfigError, match="'nobody/nothing' is not on this machine.*hf download nobody/nothing"):
        clip.load("nobody/nothing", **CPU)


def test_models_are_told_apart_by_their_weights(folder: str, tmp_path: Path) -> None:
    one = clip.load(folder, **CPU).identity
    assert one == clip.load(folder, **CPU).identity
    assert one["revision"] != clip.load(str(tiny_models.save_clip(tmp_path, seed=1)), **CPU).identity["revision"]
    assert clip.load(folder, **{**CPU, "dtype": "bfloat16"}).identity["dtype"] == "bfloat16"


# --- CLIP ------------------------------------------------------------------------------------------------------------


def test_clip_embeds_videos(folder: str) -> None:
    model = clip.load(folder, **CPU)
    clips = [pictures(3, seed=1), pictures(5, 33, 47, seed=2), pictures(1, 90, 20, seed=3)]
    together = model.embed_videos(clips)
    assert (together.shape, together.dtype) == ((3, 16), np.float32)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    for index, one in enumerate(clips):
        np.testing.assert_allclose(model.embed_videos([one])[0], together[index], atol=1e-5)
    # Mean pooling: the order of frames does not matter, which frames does.
    np.testing.assert_allclose(model.embed_videos([clips[1][::-1]])[0], together[1], atol=1e-5)
    assert together[0] @ together[1] < 0.9999


def test_clip_is_the_model_s_own_normalized_features(folder: str) -> None:
    frames = pictures(2, seed=4)
    plain = transformers.CLIPModel.from_pretrained(folder).eval()
    processor = transformers.CLIPImageProcessorPil.from_pretrained(folder)
    with torch.inference_mode():
        features = plain.get_image_features(**processor(images=frames, return_tensors="pt")).pooler_output
    features = features / features.norm(dim=1, keepdim=True)
    expected = (features.mean(0) / features.mean(0).norm()).numpy()
    np.testing.assert_allclose(clip.load(folder, **CPU).embed_videos([frames])[0], expected, atol=1e-5)


def test_clip_embeds_texts_of_any_length(folder: str) -> None:
    model = clip.load(folder, **CPU)
    texts = ["a man with a dog", "cat", "the park " * 200, ""]
    together = model.embed_texts(texts)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    for index, text in enumerate(texts):
        np.testing.assert_allclose(model.embed_texts([text])[0], together[index], atol=1e-5)
    assert together[0] @ together[1] < 0.9999


def test_clip_runs_in_bfloat16(folder: str) -> None:
    half = clip.load(folder, **{**CPU, "dtype": "bfloat16"}).embed_videos([pictures(2)])
    full = clip.load(folder, **CPU).embed_videos([pictures(2)])
    assert half.dtype == np.float32
    assert not np.array_equal(half, full)
    assert float(half[0] @ full[0]) > 0.99
