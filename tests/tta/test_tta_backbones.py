"""Weights from files: published checkpoints, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tta_models import pooling_state, queries_and_gallery, tiny_clip

from perturbations import tta
from perturbations.base.errors import ConfigError
from perturbations.evaluation.models import encoder_loading

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")


@pytest.fixture
def pretrained(tmp_path: Path) -> Path:
    folder = tmp_path / "clip"
    tiny_clip(seed=0).save_pretrained(folder)
    return folder


def published(seed: int = 5) -> dict[str, Any]:
    """The state of a fine-tuned model as X-Pool's code saves it, with a buffer that newer versions compute."""
    state = {f"clip.{name}": value for name, value in tiny_clip(seed).state_dict().items()}
    state |= {f"pool_frames.{name}": value for name, value in pooling_state(seed).items()}
    return {**state, "clip.text_model.embeddings.position_ids": torch.arange(16)[None]}


def similarities(model: tta.DualEncoder) -> Any:
    batches, gallery = queries_and_gallery("v2t", [3])
    return next(tta.adapt(model, "none", batches, gallery, direction="v2t"))


@pytest.mark.parametrize("pooling", ["clip4clip", "xpool"])
@pytest.mark.parametrize("form", ["pth", "bare.pt", "parallel.pt", "safetensors"])
def test_a_published_checkpoint(pretrained: Path, tmp_path: Path, pooling: str, form: str) -> None:
    path = tmp_path / f"checkpoint.{form}"
    state = published()
    if form == "safetensors":
        safetensors_torch.save_file(state, path)
    elif form == "parallel.pt":
        torch.save({"state_dict": {f"module.{name}": value for name, value in state.items()}}, path)
    else:
        torch.save(state if form == "bare.pt" else {"state_dict": state, "epoch": 3}, path)
    scores = similarities(encoder_loading.load_encoder(pooling, str(pretrained), checkpoint=path))
    clip = tiny_clip(5)
    expected = tta.clip4clip(clip) if pooling == "clip4clip" else tta.xpool(clip, pooling_state(5))
    assert torch.allclose(scores, similarities(expected), atol=1e-6)


def test_pretrained_weights_alone(pretrained: Path) -> None:
    scores = similarities(encoder_loading.load_encoder("clip4clip", str(pretrained)))
    assert torch.allclose(scores, similarities(tta.clip4clip(tiny_clip(0))), atol=1e-6)
    with pytest.raises(ConfigError, match=r"xpool needs the weights pool_frames\.\*, and no checkpoint is given"):
        encoder_loading.load_encoder("xpool", str(pretrained))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no checkpoint at .*checkpoint.pth; download it"),
        (b"", "cannot be read as weights only"),
        (b"\x80\x04garbage", "cannot be read as weights only"),
        ({"state_dict": {"lr": 1.0}}, "holds no named weights"),
        ({}, "holds no named weights"),
        ({"head.weight": torch.zeros(1)}, "1 weights are neither clip"),
        ({"pool_frames.a": torch.zeros(1)}, "which clip4clip needs"),
        ({"clip.visual.conv1.weight": torch.zeros(1)}, "[0-9]+ missing, .*; 1 of another shape, vision_model"),
        (lambda: {**published(), "clip.logit_scale": torch.zeros(2)}, "1 of another shape, logit_scale"),
        (
            lambda: {k: v for k, v in published().items() if "visual_proj" not in k},
            "1 missing, visual_projection.weight",
        ),
    ],
)
def test_what_is_wrong_is_said(pretrained: Path, tmp_path: Path, content: Any, message: str) -> None:
    path = tmp_path / "checkpoint.pth"
    content = content() if callable(content) else content
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(ConfigError, match=message):
        encoder_loading.load_encoder("clip4clip", str(pretrained), checkpoint=path)


@pytest.mark.parametrize(
    ("pooling", "model", "device", "message"),
    [
        ("mean", None, "cpu", "pooling 'mean' is unknown; allowed: clip4clip, xpool"),
        ("clip4clip", "/nowhere/clip", "cpu", "not on this machine"),
        ("clip4clip", None, "abacus", "device 'abacus' cannot be used"),
    ],
)
def test_wrong_settings(pretrained: Path, pooling: str, model: str | None, device: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        encoder_loading.load_encoder(pooling, model or str(pretrained), device=device)


def test_another_kind_of_model(pretrained: Path) -> None:
    config = pretrained / "config.json"
    config.write_text(config.read_text().replace('"model_type": "clip"', '"model_type": "gpt2"'))
    with pytest.raises(ConfigError, match="holds a 'gpt2' model; allowed: clip, metaclip_2, blip"):
        encoder_loading.load_encoder("clip4clip", str(pretrained))
