"""A fast forward and backward pass of frames through an image encoder.

A method does three forward and three backward passes per batch; their matrix products are nearly all of its cost. This
module saves the rest, with the same result up to rounding: chunks fit into the processor's cache; frozen weights get no
gradients; the last layer only computes the one token that is read; the activation takes one pass over memory instead
of three; the backward pass of attention is made for short sequences.

Models are those of transformers, whose layers have no types that a checker could follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

CHUNK = 24
"""Frames per pass on the CPU: activations between two layers then stay in the cache, and the memory's peak low."""

_CHUNK_NUMBERS = CHUNK * 50 * 768
"""Numbers between two layers of ViT-B/32 in such a pass: a smaller tower takes more frames, in fewer calls."""

SMALLEST_WIDTH = 96
"""The smallest width of a tower that uses this pass; in smaller towers calls cost more than matrix products."""

_QUICK_GELU = 1.702
"""CLIP's activation is x sigmoid(1.702 x) = silu(1.702 x) / 1.702; matrix products apply the factors at no cost."""


def per_frame(encode: Callable[[Tensor], Tensor], frames: Tensor, chunk: int | None = None) -> Tensor:
    """B x T x 3 x H x W -> B x T x D, by an encoder of images (M x 3 x H x W -> M x D), chunk by chunk on the CPU.

    `chunk` is the number of frames per pass, see `chunk_of`; None: CHUNK.
    """
    images = frames.flatten(0, 1)
    chunks = images.split(chunk or CHUNK) if images.device.type == "cpu" else (images,)
    features: Tensor = torch.cat([encode(chunk) for chunk in chunks]).unflatten(0, frames.shape[:2])
    return features


def chunk_of(model: nn.Module) -> int:
    """Frames per pass on the CPU: CHUNK, or more in a tower whose images take less memory than ViT-B/32's."""
    config = getattr(getattr(model, "config", None), "vision_config", None)
    side, patch, width = (getattr(config, name, None) for name in ("image_size", "patch_size", "hidden_size"))
    if not (isinstance(side, int) and isinstance(patch, int) and isinstance(width, int) and patch > 0 and width > 0):
        return CHUNK
    return max(CHUNK, _CHUNK_NUMBERS // (((side // patch) ** 2 + 1) * width))


def features_of(output: Any) -> Tensor:
    """The projected features, from the output of any version of transformers."""
    features: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return features


def image_features(model: Any, pixels: Tensor) -> Tensor:
    """Projected features M x D of images M x 3 x H x W, with gradients only where weights require them."""
    if is_plain_clip(model):
        return clip_image_features(model, pixels)
    return features_of(model.get_image_features(pixel_values=pixels))


def is_plain_clip(model: Any) -> bool:
    """Whether it is transformers' own CLIP with OpenAI's activation, large, and without hooks on its layers."""
    if (type(model).__module__, type(model).__name__) != ("transformers.models.clip.modeling_clip", "CLIPModel"):
        return False
    hooked = any(module._forward_hooks or module._forward_pre_hooks for module in model.vision_model.modules())
    config = model.config.vision_config
    return config.hidden_act == "quick_gelu" and config.hidden_size >= SMALLEST_WIDTH and not hooked


def clip_image_features(model: Any, pixels: Tensor) -> Tensor:
    """The result of `model.get_image_features` in evaluation mode (ViT of Radford et al., 2021), M x D."""
    tower = model.vision_model
    hidden = tower.pre_layrnorm(tower.embeddings(pixels))
    last = len(tower.encoder.layers) - 1
    for index, layer in enumerate(tower.encoder.layers):
        attention, mlp, norm = layer.self_attn, layer.mlp, layer.layer_norm2
        x = layer.layer_norm1(hidden)
        keys, values = _linear(x, attention.k_proj), _linear(x, attention.v_proj)
        if index == last:  # only the first token is read
            x, hidden = x[:, :1], hidden[:, :1]
        queries = _linear(x, attention.q_proj)
        hidden = hidden + _linear(_attend(queries, keys, values, attention.num_heads), attention.out_proj)
        # The scale is applied here, where rows are short.
        scaled = (norm.weight * _QUICK_GELU, norm.bias * _QUICK_GELU)
        x = functional.layer_norm(hidden, norm.normalized_shape, *scaled, norm.eps)
        x = functional.silu(_linear(x, mlp.fc1, _QUICK_GELU))
        hidden = torch.add(hidden, _linear(x, mlp.fc2, _QUICK_GELU), alpha=1 / _QUICK_GELU)
    features: Tensor = model.visual_projection(tower.post_layernorm(hidden[:, 0]))
    return features


def _linear(x: Tensor, layer: nn.Linear, bias_scale: float = 1.0) -> Tensor:
    """x W' + bias_scale * b."""
    bias = layer.bias if bias_scale == 1 else layer.bias * bias_scale
    plain = x.device.type == "cpu" and x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    if _ONEDNN is not None and plain and not layer.weight.requires_grad:
        product: Tensor = _FrozenLinear.apply(x, layer.weight, bias)  # type: ignore[no-untyped-call]
        return product
    return functional.linear(x, layer.weight, bias)


_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None
"""oneDNN's product in float32, which torch's compiler uses: 7 to 9 % faster here than torch's default."""


class _FrozenLinear(torch.autograd.Function):
    """A linear layer that does not learn, by oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.weight = weight
        product: Tensor = _ONEDNN(x, weight, bias, "none", [], "")  # type: ignore[misc]
        return product

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _ONEDNN(gradient, ctx.weight.T, None, "none", [], ""), None, None  # type: ignore[misc]


def _attend(queries: Tensor, keys: Tensor, values: Tensor, heads: int) -> Tensor:
    """Attention of M x L' x W queries to M x L x W keys and values, over heads: M x L' x W."""
    split = [tensor.unflatten(-1, (heads, -1)).transpose(1, 2) for tensor in (queries, keys, values)]
    if queries.device.type == "cpu" and torch.is_grad_enabled():
        attended: Tensor = _ShortAttention.apply(*split)  # type: ignore[no-untyped-call]
    else:
        attended = functional.scaled_dot_product_attention(*split)
    return attended.transpose(1, 2).flatten(2)


class _ShortAttention(torch.autograd.Function):
    """Scaled dot-product attention whose backward pass holds all attention weights of a chunk.

    torch's own pass for the CPU works in blocks, which for 50 tokens takes several times as long as the products.
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(queries, keys, values)
        return functional.scaled_dot_product_attention(queries, keys, values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, values = ctx.saved_tensors
        scale = queries.shape[-1] ** -0.5
        weights = torch.softmax((queries * scale) @ keys.transpose(-1, -2), dim=-1)
        of_values = weights.transpose(-1, -2) @ gradient
        of_weights = gradient @ values.transpose(-1, -2)
        of_weights -= (of_weights * weights).sum(-1, keepdim=True)
        of_scores = of_weights.mul_(weights).mul_(scale)
        return of_scores @ keys, of_scores.transpose(-1, -2) @ queries, of_values
