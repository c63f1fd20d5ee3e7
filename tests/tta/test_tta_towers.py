"""Our own pass through CLIP against transformers', features and gradients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from perturbations.tta import task, towers


def clip(**changed: Any) -> Any:
    torch.manual_seed(0)
    vision = {"hidden_size": 256, "intermediate_size": 320, "num_hidden_layers": 3, "num_attention_heads": 4}
    vision |= {"image_size": 32, "patch_size": 8, **changed}
    text = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.CLIPModel(transformers.CLIPConfig(vision_config=vision, text_config=text, projection_dim=24))
    for norm in task.layer_norms(model):  # not 1 and 0, which would hide a mistake
        torch.nn.init.normal_(norm, 0.7, 0.4)
    model.requires_grad_(False)
    for norm in task.layer_norms(model.vision_model):
        norm.requires_grad_(True)
    return model.eval()


@pytest.mark.parametrize(
    ("form", "tolerance"), [("float32", 1e-3), ("without oneDNN", 1e-3), ("all weights learn", 1e-3), ("float64", 1e-9)]
)
def test_features_and_gradients(form: str, tolerance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    model = clip()
    if form == "without oneDNN":
        monkeypatch.setattr(towers, "_ONEDNN", None)
    if form == "all weights learn":
        model.requires_grad_(True)
    if form == "float64":
        model.double()
    assert towers.is_plain_clip(model)
    pixels = torch.randn(5, 3, 32, 32, dtype=model.dtype)
    weights = torch.randn(5, 24)
    parameters = [parameter for parameter in model.vision_model.parameters() if parameter.requires_grad]
    expected = model.get_image_features(pixel_values=pixels).pooler_output
    actual = towers.image_features(model, pixels)
    largest = float(expected.detach().abs().max())
    assert torch.allclose(actual, expected, rtol=tolerance / 10, atol=tolerance * 0.01 * largest)
    theirs = torch.autograd.grad((expected * weights).sum(), parameters)
    ours = torch.autograd.grad((actual * weights).sum(), parameters)
    largest = max(float(gradient.abs().max()) for gradient in theirs)
    for a, b in zip(ours, theirs, strict=True):
        # The biases of keys have no gradient but rounding.
        assert torch.allclose(a, b, rtol=tolerance, atol=tolerance * 0.01 * (float(b.abs().max()) + 0.01 * largest))
    with torch.no_grad():
        assert torch.allclose(towers.image_features(model, pixels), expected, atol=tolerance / 10)


def test_what_goes_through_transformers() -> None:
    assert not towers.is_plain_clip(clip(hidden_act="gelu"))
    assert not towers.is_plain_clip(clip(hidden_size=32, intermediate_size=32))
    hooked = clip()
    hooked.vision_model.encoder.layers[1].register_forward_hook(lambda *given: None)
    assert not towers.is_plain_clip(hooked)
    pixels = torch.randn(2, 3, 32, 32)
    for model in (clip(hidden_act="gelu"), hooked):
        expected = model.get_image_features(pixel_values=pixels).pooler_output
        assert torch.equal(towers.image_features(model, pixels), expected)


def test_smaller_towers_take_more_frames_per_pass() -> None:
    def of(**config: Any) -> Any:
        return SimpleNamespace(config=SimpleNamespace(vision_config=SimpleNamespace(**config)))

    assert towers.chunk_of(of(image_size=224, patch_size=32, hidden_size=768)) == towers.CHUNK
    assert towers.chunk_of(of(image_size=224, patch_size=14, hidden_size=1024)) == towers.CHUNK
    assert towers.chunk_of(of(image_size=64, patch_size=16, hidden_size=96)) > 16 * 12
    for unknown in (of(), of(image_size=64, patch_size=0, hidden_size=96), object()):
        assert towers.chunk_of(unknown) == towers.CHUNK


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    model = clip()
    frames = torch.randn(3, 4, 3, 32, 32)
    whole = towers.per_frame(lambda pixels: towers.image_features(model, pixels), frames)
    monkeypatch.setattr(towers, "CHUNK", 5)
    parts = towers.per_frame(lambda pixels: towers.image_features(model, pixels), frames)
    assert whole.shape == (3, 4, 24)
    assert torch.allclose(whole, parts, atol=1e-5)
    assert torch.allclose(whole[1, 2], towers.image_features(model, frames[1, 2][None])[0], atol=1e-5)
