"""Style transfer by adaptive instance normalization (Huang and Belongie 2017), with pytorch-AdaIN's weight files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import cv2
import numpy as np

from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.base.errors import ConfigError
from perturbations.models.checkpoints import read_weights, runtime
from perturbations.models.role_registry import Model

if TYPE_CHECKING:
    import torch
    from torch import nn


_EPS = 1e-5
_STYLE_SIDE = 512
_PIXELS = 320 * 240 * 4  # per batch: some 0.6 GB of features
_SOURCE = "the release v0.0.0 of https://github.com/naoto0804/pytorch-AdaIN has it"

_Plan = tuple[int | Literal["pool", "up"], ...]

# VGG-19 up to relu4_1: channels of each convolution, "pool" between. The decoder is its mirror.
_ENCODER: _Plan = (64, 64, "pool", 128, 128, "pool", 256, 256, 256, 256, "pool", 512)
_DECODER: _Plan = (256, "up", 256, 256, 256, 128, "up", 128, 64, "up", 64, 3)


Statistics = tuple["torch.Tensor", "torch.Tensor"]
"""Mean and standard deviation of each channel of a style's features, 1 x C x 1 x 1."""


def statistics(features: torch.Tensor) -> Statistics:
    """The statistics of features N x C x H x W, per channel; the variance is the unbiased one, plus 1e-5."""
    deviation = (features.var(dim=(2, 3), keepdim=True, unbiased=True) + _EPS).sqrt()
    return features.mean(dim=(2, 3), keepdim=True), deviation


def adaptive_instance_normalization(content: torch.Tensor, style: Statistics) -> torch.Tensor:
    """Give content features the style's statistics (eq. 8)."""
    (mean, deviation), (style_mean, style_deviation) = statistics(content), style
    return (content - mean) / deviation * style_deviation + style_mean


def _layers(plan: _Plan, channels: int, last_is_plain: bool) -> list[nn.Module]:
    """Reflection-padded 3 x 3 convolutions with ReLU; the weight files name each layer by its position here."""
    from torch import nn

    layers: list[nn.Module] = []
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


def encoder() -> nn.Sequential:
    """VGG-19 up to relu4_1, after a 1 x 1 convolution that normalizes the input (31 modules)."""
    from torch import nn

    return nn.Sequential(nn.Conv2d(3, 3, 1), *_layers(_ENCODER, 3, last_is_plain=False))


def decoder() -> nn.Sequential:
    """The mirror of the encoder, with nearest-neighbour upsampling in place of pooling."""
    from torch import nn

    return nn.Sequential(*_layers(_DECODER, 512, last_is_plain=True))


@dataclass(frozen=True, eq=False)
class Adain:
    """Loaded networks.

    Attributes:
        identity: hashes of the weight files, device and dtype, for the manifest.
    """

    _encoder: nn.Sequential
    _decoder: nn.Sequential
    identity: dict[str, str]

    def style(self, image: Image, *, own_size: bool = False) -> Statistics:
        """The statistics of a style, RGB uint8 H x W x 3. Once per clip is enough.

        Its shorter side is resized to 512 first, unless it keeps its `own_size`.
        """
        import torch

        height, width = image.shape[:2]
        scale = _STYLE_SIDE / min(height, width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        resized = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
        picture = _at_least_8(image[None]) if own_size else np.asarray(resized, np.uint8)[None]
        with torch.inference_mode():
            return statistics(self._encoder(self._tensor(picture)))

    def batch_size(self, height: int, width: int) -> int:
        """How many frames of a size are in a batch, so that memory stays the same."""
        return max(1, _PIXELS // (height * width))

    def stylize(self, frames: Image, style: Statistics, alpha: float, *, rounded: bool = False) -> Image:
        """Repaint frames, RGB uint8 B x H x W x 3: decoder(alpha AdaIN(c, s) + (1 - alpha) c), eq. 14.

        Truncated, as the references do, or `rounded`. Pooling rounds sizes up to multiples of 8: the decoder's pixels
        beyond the frame are cut off.
        """
        size = self.batch_size(*frames.shape[1:3])
        batches = [frames[start : start + size] for start in range(0, len(frames), size)]
        return np.concatenate([self._repainted(batch, style, alpha, rounded) for batch in batches])

    def _repainted(self, frames: Image, style: Statistics, alpha: float, rounded: bool) -> Image:
        import torch

        height, width = frames.shape[1:3]
        with torch.inference_mode():
            content = self._encoder(self._tensor(_at_least_8(frames)))
            mixed = alpha * adaptive_instance_normalization(content, style) + (1 - alpha) * content
            painted = self._decoder(mixed)[:, :, :height, :width].float().clamp_(0, 1)
            levels = painted * 255
            levels = (levels.round() if rounded else levels).to(torch.uint8)
        return np.ascontiguousarray(levels.permute(0, 2, 3, 1).cpu().numpy())

    def _tensor(self, frames: Image) -> torch.Tensor:
        import torch

        weight = next(self._encoder.parameters())
        pixels = torch.from_numpy(np.ascontiguousarray(frames)).to(weight.device)
        return pixels.permute(0, 3, 1, 2).to(weight.dtype) / 255


def _at_least_8(frames: Image) -> Image:
    # Reflection padding needs two pixels after three poolings.
    down, across = (max(0, 16 - side) for side in frames.shape[1:3])
    return np.pad(frames, ((0, 0), (0, down), (0, across), (0, 0)), mode="edge") if down or across else frames


def load(
    encoder_path: Path, decoder_path: Path, *, encoder_sha256: str, decoder_sha256: str, device: str, dtype: str
) -> Adain:
    """The networks from their weight files, `.pth` or `.safetensors`.

    Raises `ConfigError` when a file is missing, has another hash, or holds other weights.
    """
    torch_device, torch_dtype = runtime(device, dtype)
    networks: list[nn.Sequential] = []
    for role, path, sha256, network in (
        ("encoder", encoder_path, encoder_sha256, encoder()),
        ("decoder", decoder_path, decoder_sha256, decoder()),
    ):
        state = _state(role, path, sha256)
        expected = network.state_dict()
        # The encoder's file goes on to relu5_1; layers after relu4_1 are not used.
        kept = {name: state[name] for name in expected if name in state}
        wrong = [name for name in expected if name not in kept or kept[name].shape != expected[name].shape]
        if wrong:
            raise ConfigError(
                f"backends.style.{role}: {path} does not hold AdaIN's {role}: {wrong[0]} is "
                f"{tuple(state[wrong[0]].shape) if wrong[0] in state else 'missing'}, expected "
                f"{tuple(expected[wrong[0]].shape)}; {_SOURCE}"
            )
        network.load_state_dict(kept)
        networks.append(network.to(torch_device, torch_dtype).eval().requires_grad_(False))
    about = {"encoder_sha256": encoder_sha256, "decoder_sha256": decoder_sha256, "device": device, "dtype": dtype}
    return Adain(networks[0], networks[1], about)


def _state(role: str, path: Path, sha256: str) -> dict[str, torch.Tensor]:
    if not path.is_file():
        raise ConfigError(f"backends.style.{role}: no such file: {path}; {_SOURCE}")
    if (actual := storage.sha256(path)) != sha256:
        raise ConfigError(f"backends.style.{role}: {path} has the SHA-256 {actual}, the configuration says {sha256}")
    try:
        return read_weights(path)
    except ConfigError as error:
        raise ConfigError(f"backends.style.{role}: {path} is not a file of weights: {error}") from error


MODELS = (
    Model(
        role="painter",
        name="AdaIN",
        weights="files of the user",
        licence="MIT (code); as published (weights)",
        load=load,
        of="guides",
    ),
)
