"""Models of sentence-transformers as frozen encoders: a tiny random CLIP, saved and loaded by the library itself."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny_models

from perturbations import tta
from perturbations.base.errors import ConfigError
from perturbations.evaluation import backbone
from perturbations.tta.inputs import ByteFrames


@pytest.fixture(scope="module")
def sentence_transformers() -> ModuleType:
    """The library, which takes 4 CPU s: not imported by those who only look which tests there are."""
    library: ModuleType = pytest.importorskip("sentence_transformers")
    return library


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sentence_transformers: ModuleType) -> Path:
    plain = tiny_models.save_clip(tmp_path_factory.mktemp("models") / "clip")
    saved = plain.with_name("a clip's encoder")
    sentence_transformers.SentenceTransformer(str(plain), device="cpu", local_files_only=True).save(str(saved))
    return saved


def load(folder: Path, **changed: Any) -> backbone.LoadedBackbone:
    return backbone.load(str(folder), **{"num_frames": 3, **changed})


def test_its_features_are_the_librarys_own(folder: Path, sentence_transformers: ModuleType) -> None:
    loaded = load(folder)
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    frames = np.random.default_rng(0).integers(0, 256, (2, 3, 32, 32, 3), np.uint8)
    texts = ["a man", "a cat is playing", "", "ein Mädchen läuft"]
    stack = np.stack([loaded.images.resized(video) for video in frames])
    gallery = tta.encode_gallery(loaded.model, loaded.images.batch(stack), "t2v").features
    ids = loaded.texts.tokens(texts)
    ours = tta.encode_gallery(loaded.model, ids, "v2t").features
    assert gallery.shape == (2, 3, 16)
    for video, features in zip(frames, gallery, strict=True):
        np.testing.assert_allclose(features, model.encode(list(video)), atol=1e-5)
    np.testing.assert_allclose(ours, model.encode(texts), atol=1e-5)
    assert backbone.check(loaded)["images"]["size"] == 32  # type: ignore[index]
    assert loaded.texts.same_inputs([("a man", "a cat"), ("a man", "a man"), ("", " ")]) == 1


@pytest.mark.parametrize("method", ["none", "dsl", "csls"])
def test_methods_on_similarities_run(method: str, folder: Path) -> None:
    loaded = load(folder)
    pixels = torch.randint(0, 256, (5, 3, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    batches = [ByteFrames(part, loaded.images.mean, loaded.images.std) for part in pixels.split(3)]
    given = tta.adapt(loaded.model, method, batches, loaded.texts.tokens(["a man", "a cat"]), direction="v2t")
    scores = torch.cat(list(given))
    assert scores.shape == (5, 2)
    assert bool(scores.isfinite().all())


def test_nothing_adapts_it(folder: Path) -> None:
    with pytest.raises(ConfigError, match="tent adapts weights, and this encoder is frozen; methods for it: none, dsl"):
        tta.adapt(load(folder).model, "tent", [], (torch.ones(2, 3, dtype=torch.long), None), direction="v2t")
    with pytest.raises(ConfigError, match="frozen encoder of sentence-transformers: model: clip4clip"):
        load(folder, pooling="xpool")


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ([{"idx": 0, "name": "0", "path": "", "type": "os.system"}], "names the class 'os.system'; only sentence_"),
        ([{"idx": 0, "name": "0", "path": "", "type": "model.Custom"}], "names the class 'model.Custom'"),
        ([], "names the class None"),
        (None, "cannot be read"),
    ],
)
def test_a_folder_brings_no_code(modules: object, message: str, folder: Path, tmp_path: Path) -> None:
    text = "[" if modules is None else json.dumps(modules)
    (tmp_path / "modules.json").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load(tmp_path)
    (tmp_path / "modules.json").write_bytes((folder / "modules.json").read_bytes())
    with pytest.raises(ConfigError, match=r"holds no \*\.safetensors"):
        load(tmp_path)
