"""The small dual encoder of the demo: what it writes, that it repeats itself, and that it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from perturbations import retrieval
from perturbations.demo import encoder, film
from perturbations.evaluation.models.encoder_loading import LoadedBackbone, load
from perturbations.media.clip import uniform_indices
from perturbations.tta import adapt, encode_gallery, frames

SMALL = encoder.Training(
    scenes=48,
    frames=3,
    passes=30,
    batch_size=16,
    image_size=32,
    patch_size=8,
    width=64,
    layers=2,
    learning_rate=3e-3,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("encoder") / "model"
    encoder.train(target, seed=1, training=SMALL)
    return target


@pytest.fixture(scope="module")
def backbone(folder: Path) -> LoadedBackbone:
    return load(str(folder))


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_the_same_seed_gives_the_same_weights(folder: Path, tmp_path: Path) -> None:
    few = encoder.Training(scenes=16, frames=1, passes=2, batch_size=8, image_size=16, width=32, layers=1)
    before = torch.get_rng_state()
    for name, seed in (("one", 3), ("again", 3), ("other", 4)):
        encoder.train(tmp_path / name, seed=seed, training=few)
    assert torch.equal(torch.get_rng_state(), before)
    assert weights(tmp_path / "one") == weights(tmp_path / "again")
    assert weights(tmp_path / "one") != weights(tmp_path / "other")


def test_it_finds_the_scenes_it_was_trained_on_by_all_words(backbone: LoadedBackbone) -> None:
    scenes = range(encoder.FIRST, encoder.FIRST + SMALL.scenes)
    places = uniform_indices(SMALL.frames, film.NUM_FRAMES)
    clips = (np.stack(list(film.frames(scene, places))) for scene in scenes)
    pixels = torch.stack([torch.from_numpy(frames.resized(clip, SMALL.image_size)) for clip in clips])
    gallery = encode_gallery(backbone.model, backbone.texts.tokens([film.caption(scene) for scene in scenes]), "v2t")
    (similarities,) = adapt(backbone.model, "none", [frames.normalize(pixels)], gallery, direction="v2t")
    assert retrieval.recall_at_k(similarities, range(len(scenes)), 1) >= 30  # by chance 2
    # A text is pooled at its end: where the scene takes place is said last.
    tokens = backbone.texts.tokens(
        ["a red ball moves in circles over green hills", "a red ball moves in circles by a brick wall"]
    )
    first, second = encode_gallery(backbone.model, tokens, "v2t").features
    assert not torch.allclose(first, second, atol=1e-3)


@pytest.mark.parametrize("text", ["", "zebra zebra", "A RED BALL", "a red ball " * 100, "красный 球 🎈"])
def test_any_caption_can_be_asked(text: str, backbone: LoadedBackbone) -> None:
    features = encode_gallery(backbone.model, backbone.texts.tokens([text]), "v2t").features
    assert torch.isfinite(features).all()


def test_an_interrupted_training_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(encoder, "_fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        encoder.train(tmp_path / "model", seed=0, training=SMALL)
    assert list(tmp_path.iterdir()) == []


def test_demo_clips_are_held_out() -> None:
    """Captions that are trained on are none of the demo's first thousands."""
    shown = {text for _, text in film.items(encoder.FIRST)}
    training = encoder.Training()
    assert shown.isdisjoint(film.caption(encoder.FIRST + index) for index in range(training.scenes))
