"""Style transfer by adaptive instance normalization (Huang and Belongie 2017), with pytorch-AdaIN's weight files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from perturbations.arrays import Image
from perturbations.errors import ConfigError
from perturbations.models.loading import read_weights, runtime

_EPS = 1e-5
_STYLE_SIDE = 512
_PIXELS = 320 * 240 * 4  # that go through the networks at once: some 0.6 GB of features
_SOURCE = "the release v0.0.0 of https://github.com/naoto0804/pytorch-AdaIN has it"

# VGG-19 up to relu4_1: channels of each convolution, "pool" between. The decoder is its mirror.
_ENCODER = (64, 64, "pool", 128, 128, "pool", 256, 256, 256, 256, "pool", 512)
_DECODER = (256, "up", 256, 256, 256, 128, "up", 128, 64, "up", 64, 3)


class Statistics(NamedTuple):
    """Mean and standard deviation of each channel of a style's features, 1 x C x 1 x 1."""

    mean: Any
    deviation: Any


def statistics(features: Any) -> Statistics:
    """Of features N x C x H x W, over each channel's places; the variance is the unbiased one, plus 1e-5."""
    deviation = (features.var(dim=(2, 3), keepdim=True, unbiased=True) + _EPS).sqrt()
    return Statistics(features.mean(dim=(2, 3), keepdim=True), deviation)


def adaptive_instance_normalization(content: Any, style: Statistics) -> Any:
    """Give content features the style's statistics (eq. 8)."""
    own = statistics(content)
    return (content - own.mean) / own.deviation * style.deviation + style.mean


def _layers(plan: tuple[Any, ...], channels: int, last_is_plain: bool) -> list[Any]:
    """Reflection-padded 3 x 3 convolutions with ReLU, in the order whose positions the weight files are named after."""
    from torch import nn

    layers: list[Any] = []
    for place, step in enumerate(plan):
        if step == "pool":
            layers.append(nn.MaxPool2d(2, 2, ceil_mode=True))
        elif step == "up":
            layers.append(nn.Upsample(scale_factor=2, mode="nearest"))
        else:
            layers += [nn.ReflectionPad2d(1), nn.Conv2d(channels, step, 3)]
            if not (last_is_plain and place == len(plan) - 1):
                layers.append(nn.ReLU(inplace=True))
            channels = step
    return layers


def encoder() -> Any:
    """VGG-19 up to relu4_1, after a 1 x 1 convolution that normalizes the input (31 modules)."""
    from torch import nn

    return nn.Sequential(nn.Conv2d(3, 3, 1), *_layers(_ENCODER, 3, last_is_plain=False))


def decoder() -> Any:
    """The encoder's mirror, nearest-neighbour upsampling in place of pooling."""
    from torch import nn

    return nn.Sequential(*_layers(_DECODER, 512, last_is_plain=True))


class Adain:
    """Loaded networks. `identity` says which."""

    def __init__(self, encoder: Any, decoder: Any, identity: dict[str, str]) -> None:
        self._encoder = encoder
        self._decoder = decoder
        self._weight = next(encoder.parameters())
        self.identity = identity

    def style(self, image: Image) -> Statistics:
        """The statistics of a style, RGB uint8 H x W x 3, its shorter side resized to 512. Once a clip is enough."""
        import cv2
        import torch

        height, width = image.shape[:2]
        scale = _STYLE_SIDE / min(height, width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        resized = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
        with torch.inference_mode():
            return statistics(self._encoder(self._tensor(np.asarray(resized, np.uint8)[None])))

    def batch_size(self, height: int, width: int) -> int:
        """How many frames of a size go through the networks at once, so that memory stays the same."""
        return max(1, _PIXELS // (height * width))

    def stylize(self, frames: Image, style: Statistics, alpha: float) -> Image:
        """Repaint frames, RGB uint8 B x H x W x 3: decoder(alpha AdaIN(c, s) + (1 - alpha) c), eq. 14.

        Pooling rounds sizes up to multiples of 8: what the decoder gives beyond the frame is cut off.
        """
        import torch

        size = self.batch_size(*frames.shape[1:3])
        return np.concatenate(
            [
                self._repainted(frames[start : start + size], style, alpha, torch)
                for start in range(0, len(frames), size)
            ]
        )

    def _repainted(self, frames: Image, style: Statistics, alpha: float, torch: Any) -> Image:
        height, width = frames.shape[1:3]
        with torch.inference_mode():
            content = self._encoder(self._tensor(_at_least_8(frames)))
            mixed = alpha * adaptive_instance_normalization(content, style) + (1 - alpha) * content
            painted = self._decoder(mixed)[:, :, :height, :width].float().clamp_(0, 1)
            levels = (painted * 255).to(torch.uint8)  # truncated, as the references do
        return np.ascontiguousarray(levels.permute(0, 2, 3, 1).cpu().numpy())

    def _tensor(self, frames: Image) -> Any:
        import torch

        pixels = torch.from_numpy(np.ascontiguousarray(frames)).to(self._weight.device)
        return pixels.permute(0, 3, 1, 2).to(self._weight.dtype) / 255


def _at_least_8(frames: Image) -> Image:
    # Reflection padding needs two pixels after three poolings.
    down, across = (max(0, 16 - side) for side in frames.shape[1:3])
    return np.pad(frames, ((0, 0), (0, down), (0, across), (0, 0)), mode="edge") if down or across else frames


def load(
    encoder_path: Path, decoder_path: Path, *, encoder_sha256: str, decoder_sha256: str, device: str, dtype: str
) -> Adain:
    """The networks from their weight files, `.pth` or `.safetensors`.

    Raises `ConfigError` when a file is missing, is not the one that the hash names, or holds other weights.
    """
    torch_device, torch_dtype = runtime(device, dtype)
    networks: list[Any] = []
    for role, path, sha256, network in (
        ("encoder", encoder_path, encoder_sha256, encoder()),
        ("decoder", decoder_path, decoder_sha256, decoder()),
    ):
        state = _state(role, path, sha256)
        wanted = network.state_dict()
        # The encoder's file goes on to relu5_1; what lies beyond relu4_1 is not used.
        kept = {name: state[name] for name in wanted if name in state}
        wrong = [name for name in wanted if name not in kept or kept[name].shape != wanted[name].shape]
        if wrong:
            raise ConfigError(
                f"backends.style.{role}: {path} does not hold AdaIN's {role}: {wrong[0]} is "
                f"{tuple(state[wrong[0]].shape) if wrong[0] in state else 'missing'}, expected "
                f"{tuple(wanted[wrong[0]].shape)}; {_SOURCE}"
            )
        network.load_state_dict(kept)
        networks.append(network.to(torch_device, torch_dtype).eval().requires_grad_(False))
    about = {"encoder_sha256": encoder_sha256, "decoder_sha256": decoder_sha256, "device": device, "dtype": dtype}
    return Adain(networks[0], networks[1], about)


def _state(role: str, path: Path, sha256: str) -> dict[str, Any]:
    import hashlib

    if not path.is_file():
        raise ConfigError(f"backends.style.{role}: no such file: {path}; {_SOURCE}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise ConfigError(f"backends.style.{role}: {path} has the SHA-256 {found}, the configuration says {sha256}")
    try:
        return read_weights(path)
    except ConfigError as error:
        raise ConfigError(f"backends.style.{role}: {path} is not a file of weights: {error}") from error
