"""Pooling of a video's frames into one vector."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from perturbations.base.errors import ConfigError

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


def load_xpool(state: Mapping[str, Tensor | NDArray[np.float32]]) -> XPool:
    """The pooling module with these weights, keyed as in the published checkpoints (`cross_attn.q_proj.weight`...).

    Raises:
        ConfigError: keys are missing or left over, or shapes do not fit.
    """
    tensors = {name: torch.as_tensor(value) for name, value in state.items()}
    weight = tensors.get("linear_proj.weight")
    if weight is None:
        raise ConfigError("the pooling weights lack linear_proj.weight; they are the `pool_frames.*` of a checkpoint")
    module = XPool(int(weight.shape[0]))
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ConfigError(f"the pooling weights do not fit X-Pool's pooling with one head: {error}") from error
    return module.requires_grad_(False).eval()
