"""AdaIN as the pretrained style backend, with random weights under the published names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from tiny_models import pictures, torch

from perturbations.base import storage
from perturbations.base.errors import ConfigError
from perturbations.models import adain

CPU: dict[str, Any] = {"device": "cpu", "dtype": "float32"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return tiny_models.save_adain(tmp_path_factory.mktemp("adain"))


def load(files: dict[str, str], **changed: Any) -> adain.Adain:
    settings: dict[str, Any] = {**files, **CPU, **changed}
    return adain.load(Path(settings.pop("encoder")), Path(settings.pop("decoder")), **settings)


@pytest.fixture(scope="module")
def model(files: dict[str, str]) -> adain.Adain:
    return load(files)


@pytest.fixture(scope="module")
def painting(model: adain.Adain) -> adain.Statistics:
    """A style, looked at once: at 512 pixels that takes seconds."""
    return model.style(pictures(1, 64, 64, seed=3)[0])


def test_the_networks_are_those_of_the_published_files() -> None:
    encoder = {name: tuple(value.shape) for name, value in adain.encoder().state_dict().items()}
    decoder = {name: tuple(value.shape) for name, value in adain.decoder().state_dict().items()}
    convolutions = [0, 2, 5, 9, 12, 16, 19, 22, 25, 29]
    assert list(encoder) == [f"{place}.{kind}" for place in convolutions for kind in ("weight", "bias")]
    assert [encoder[f"{place}.weight"][:2] for place in convolutions] == [
        (3, 3), (64, 3), (64, 64), (128, 64), (128, 128), (256, 128), (256, 256), (256, 256), (256, 256), (512, 256)
    ]  # fmt: skip
    assert len(adain.encoder()) == 31
    convolutions = [1, 5, 8, 11, 14, 18, 21, 25, 28]
    assert list(decoder) == [f"{place}.{kind}" for place in convolutions for kind in ("weight", "bias")]
    assert [decoder[f"{place}.weight"][0] for place in convolutions] == [256, 256, 256, 256, 128, 128, 64, 64, 3]


def test_a_frame_is_repainted_by_the_formula(model: adain.Adain, files: dict[str, str]) -> None:
    frames = np.stack(pictures(1, 48, 64))
    style = pictures(1, 512, 512, seed=9)[0]
    encoder, decoder = adain.encoder().eval(), adain.decoder().eval()
    encoder.load_state_dict({name: value for name, value in torch.load(files["encoder"]).items() if name[:2] != "31"})
    decoder.load_state_dict(torch.load(files["decoder"]))
    with torch.inference_mode():
        c = encoder(torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255)
        s = encoder(torch.from_numpy(style)[None].permute(0, 3, 1, 2).float() / 255)
        mean, deviation = (s.mean((2, 3), keepdim=True), (s.var((2, 3), keepdim=True) + 1e-5).sqrt())
        own = (c - c.mean((2, 3), keepdim=True)) / (c.var((2, 3), keepdim=True) + 1e-5).sqrt()
        expected = decoder(0.4 * (own * deviation + mean) + 0.6 * c).clamp(0, 1)[0].permute(1, 2, 0).numpy()
    painted = model.stylize(frames, model.style(style), 0.4)[0]
    assert np.abs(painted - np.floor(expected * 255)).max() <= 1
    assert painted.std() > 1


@pytest.mark.parametrize("size", [(48, 64), (37, 53), (1, 1), (3, 90), (16, 17)])
def test_any_size_comes_back(model: adain.Adain, painting: adain.Statistics, size: tuple[int, int]) -> None:
    frames = np.stack(pictures(2, *size))
    before = frames.copy()
    painted = model.stylize(frames, painting, 0.7)
    assert (painted.shape, painted.dtype) == (frames.shape, np.uint8)
    assert np.array_equal(frames, before)


def test_batches_shrink_as_frames_grow_and_do_not_matter(model: adain.Adain, painting: adain.Statistics) -> None:
    frames = np.stack(pictures(5, 40, 56))
    together = model.stylize(frames, painting, 0.6)
    for index in range(5):
        assert (
            np.abs(model.stylize(frames[index : index + 1], painting, 0.6)[0].astype(int) - together[index]).max() <= 1
        )
    assert model.batch_size(240, 320) == 4
    assert model.batch_size(720, 1280) == 1


def test_distortion_grows_with_alpha_in_the_features(model: adain.Adain) -> None:
    """What alpha means: how far the features go from the content's to the style's."""
    content = torch.rand(1, 8, 6, 6, generator=torch.Generator().manual_seed(0))
    style = adain.statistics(torch.rand(1, 8, 5, 5, generator=torch.Generator().manual_seed(1)) * 3)
    full = adain.adaptive_instance_normalization(content, style)
    distances = [float((alpha * full + (1 - alpha) * content - content).norm()) for alpha in (0.2, 0.4, 0.6, 0.8, 1)]
    np.testing.assert_allclose(np.array(distances) / distances[-1], [0.2, 0.4, 0.6, 0.8, 1], rtol=1e-5)


def test_a_missing_file_a_wrong_hash_and_other_weights_are_refused(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"backends.style.decoder: no such file: .*; the release .* has it"):
        load(files, decoder=str(tmp_path / "decoder.pth"))
    with pytest.raises(ConfigError, match=r"backends.style.encoder: .* has the SHA-256 [0-9a-f]{64}, the conf.* 0000"):
        load(files, encoder_sha256="0" * 64)
    with pytest.raises(ConfigError, match=r"does not hold AdaIN's encoder: 0.weight is missing"):
        load(files, encoder=files["decoder"], encoder_sha256=files["decoder_sha256"])
    state = torch.load(files["decoder"])
    state["28.weight"] = torch.zeros(4, 64, 3, 3)
    torch.save(state, tmp_path / "decoder.pth")
    with pytest.raises(ConfigError, match=r"28.weight is \(4, 64, 3, 3\), expected \(3, 64, 3, 3\)"):
        load(files, decoder=str(tmp_path / "decoder.pth"), decoder_sha256=storage.sha256(tmp_path / "decoder.pth"))


def test_safetensors_load_too(
    files: dict[str, str], model: adain.Adain, painting: adain.Statistics, tmp_path: Path
) -> None:
    from safetensors.torch import save_file

    save_file(torch.load(files["decoder"]), tmp_path / "decoder.safetensors")
    sha256 = storage.sha256(tmp_path / "decoder.safetensors")
    other = load(files, decoder=str(tmp_path / "decoder.safetensors"), decoder_sha256=sha256)
    frames = np.stack(pictures(1, 24, 24))
    assert np.array_equal(other.stylize(frames, painting, 0.5), model.stylize(frames, painting, 0.5))
