"""Dual encoders behind one interface: a video tower, a text tower, and the pooling for their comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from perturbations.base.errors import ConfigError
from perturbations.tta import towers

# --- pooling of a video's frames into one vector ----------------------------------------------------------------------

_NAMES = ("q_proj", "k_proj", "v_proj", "out_proj")


class XPool(nn.Module):
    """Text-conditioned pooling of X-Pool (Gorti et al., CVPR 2022): one vector per pair of a text and a video.

    Both are normalized by one LayerNorm; a text's query attends to a video's frames with one head; then projection,
    LayerNorm, linear layer with residual, LayerNorm.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.cross_attn = nn.ModuleDict({name: nn.Linear(dim, dim) for name in _NAMES})
        self.linear_proj = nn.Linear(dim, dim)
        self.layer_norm1 = nn.LayerNorm(dim)
        self.layer_norm2 = nn.LayerNorm(dim)
        self.layer_norm3 = nn.LayerNorm(dim)

    def keys_values(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values for the texts' queries: two tensors V x T x D from frame features V x T x D."""
        frames = self.layer_norm1(frames)
        return self.cross_attn["k_proj"](frames), self.cross_attn["v_proj"](frames)

    def forward(self, texts: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Text features N x D, keys and values V x T x D -> pooled videos V x N x D."""
        queries = self.cross_attn["q_proj"](self.layer_norm1(texts))
        weights = torch.softmax(queries @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5, dim=-1)  # V x N x T
        attended = self.layer_norm2(self.cross_attn["out_proj"](weights @ values))
        pooled: Tensor = self.layer_norm3(attended + self.linear_proj(attended))
        return pooled


# --- models -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DualEncoder:
    """A model of videos and texts.

    Attributes:
        vision: the module whose LayerNorms adapt when videos are queries.
        text: the module whose LayerNorms adapt when texts are queries.
        encode_frames: normalized pixels B x T x 3 x H x W -> features B x T' x D. T' is T for an encoder of frames, 1
            for one that sees the whole video.
        encode_texts: token ids B x L (int64) and attention mask B x L (or None) -> features B x D.
        pooling: X-Pool's, or None for the mean over frames.
        modules: all modules with weights or modes that the functions above use.
        frozen: whether gradients do not reach the weights, so that no method can adapt them.
    """

    vision: nn.Module
    text: nn.Module
    encode_frames: Callable[[Tensor], Tensor]
    encode_texts: Callable[[Tensor, Tensor | None], Tensor]
    pooling: XPool | None
    modules: tuple[nn.Module, ...]
    frozen: bool = False

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.vision.parameters()).device


@contextmanager
def evaluating(model: DualEncoder) -> Iterator[None]:
    """Inside, all modules are in evaluation mode (no dropout); afterwards every module has its own mode again."""
    modes = [(part, part.training) for module in model.modules for part in module.modules()]
    try:
        for part, _ in modes:
            part.training = False
        yield
    finally:
        for part, training in modes:
            part.training = training


def clip4clip(clip_model: nn.Module) -> DualEncoder:
    """Frames pooled by their mean (CLIP4Clip, Luo et al., 2021).

    Args:
        clip_model: CLIPModel, BlipModel, BlipForImageTextRetrieval or another dual encoder of transformers with
            `vision_model`, `text_model`, `get_image_features` and `get_text_features`, or one of whole videos with
            `get_video_features`, such as XCLIPModel or VideoPrismClipModel.

    Raises:
        ConfigError: it is none of these.
    """
    return _dual_encoder(clip_model, None)


def xpool(clip_model: nn.Module, pooling_state: Mapping[str, Tensor | NDArray[np.float32]]) -> DualEncoder:
    """Frames pooled for each text (X-Pool, Gorti et al., 2022).

    Args:
        clip_model: as for `clip4clip`.
        pooling_state: the published checkpoints' `pool_frames.*`, without that prefix; tensors or arrays.

    Raises:
        ConfigError: the model is no dual encoder, or the weights do not fit.
    """
    state = {name: torch.as_tensor(value) for name, value in pooling_state.items()}
    weight = state.get("linear_proj.weight")
    if weight is None:
        raise ConfigError("no linear_proj.weight in the pooling weights; they are the `pool_frames.*` of a checkpoint")
    pooling = XPool(int(weight.shape[0]))
    try:
        pooling.load_state_dict(state)
    except RuntimeError as error:
        raise ConfigError(f"the pooling weights do not fit X-Pool's pooling with one head: {error}") from error
    encoder = _dual_encoder(clip_model, pooling.requires_grad_(False).eval())
    of_model = next(encoder.vision.parameters())
    pooling.to(of_model.device, torch.promote_types(of_model.dtype, torch.float32))
    return encoder


def _dual_encoder(model: Any, pooling: XPool | None) -> DualEncoder:
    modules = (model,) if pooling is None else (model, pooling)
    if all(hasattr(model, name) for name in ("vision_model", "text_encoder", "vision_proj", "text_proj")):
        images, texts = _blip_itm(model)
        return DualEncoder(model.vision_model, model.text_encoder, images, texts, pooling, modules)
    if hasattr(model, "get_video_features") and not hasattr(model, "get_image_features"):
        return _of_videos(model, pooling, modules)
    needed = ("vision_model", "text_model", "get_image_features", "get_text_features")
    lacking = [name for name in needed if not hasattr(model, name)]
    if lacking:
        raise ConfigError(
            f"{type(model).__name__} is no dual encoder that can be adapted: it has no {', '.join(lacking)}; "
            "wrap it in perturbations.tta.DualEncoder"
        )
    chunk = towers.chunk_of(model)

    def encode_frames(frames: Tensor) -> Tensor:
        return towers.per_frame(lambda pixels: towers.image_features(model, pixels), frames, chunk)

    return DualEncoder(model.vision_model, model.text_model, encode_frames, _texts_of(model), pooling, modules)


def _of_videos(model: Any, pooling: XPool | None, modules: tuple[nn.Module, ...]) -> DualEncoder:
    """A tower of whole videos. Pooling has nothing to choose from: a video is one feature."""
    if pooling is not None:
        raise ConfigError(f"{type(model).__name__} gives one feature per video, and X-Pool pools those of frames")
    vision = getattr(model, "vision_model", None) or getattr(model, "video_model", None)
    if not isinstance(vision, nn.Module):
        raise ConfigError(f"{type(model).__name__} has neither vision_model nor video_model, whose LayerNorms adapt")

    def encode_frames(frames: Tensor) -> Tensor:
        size = max(1, towers.CHUNK // frames.shape[1]) if frames.device.type == "cpu" else len(frames)
        # The argument's name differs from model to model; VideoPrism's pooling keeps an axis of length 1.
        encoded = [towers.features_of(model.get_video_features(part)).flatten(1) for part in frames.split(size)]
        return torch.cat(encoded)[:, None]

    return DualEncoder(vision, model.text_model, encode_frames, _texts_of(model), pooling, modules)


def _texts_of(model: Any) -> Callable[[Tensor, Tensor | None], Tensor]:
    def encode_texts(ids: Tensor, mask: Tensor | None) -> Tensor:
        return towers.features_of(model.get_text_features(input_ids=ids, attention_mask=mask))

    return encode_texts


def _blip_itm(model: Any) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor | None], Tensor]]:
    def encode_images(pixels: Tensor) -> Tensor:
        hidden: Tensor = model.vision_model(pixel_values=pixels).last_hidden_state
        projected: Tensor = model.vision_proj(hidden[:, 0])
        return projected

    def encode_texts(ids: Tensor, mask: Tensor | None) -> Tensor:
        hidden: Tensor = model.text_encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        projected: Tensor = model.text_proj(hidden[:, 0])
        return projected

    return (lambda frames: towers.per_frame(encode_images, frames)), encode_texts
