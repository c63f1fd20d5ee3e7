"""A fast forward and backward pass of frames through an image encoder.

A method does three forward and three backward passes per batch; their matrix products are nearly all of its cost. This
module saves the rest, with the same result up to rounding: chunks fit into the processor's cache; frozen weights get no
gradients; the last layer only computes the one token that is read; the activation takes one pass over memory instead
of three; the backward pass of attention is made for short sequences, and all that it needs lies in one block.

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

SMALLEST_WIDTH = 64
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
    layers = tower.encoder.layers
    counts: list[int | None] = [*[None] * (len(layers) - 1), 1]  # of the last layer only the first token is read
    if hidden.requires_grad and _is_simple(hidden) and _learns_in_norms_only(tower.encoder):
        kept = _ActivationBlock(hidden, len(layers), model.config.vision_config.intermediate_size)
        for layer, count in zip(layers, counts, strict=True):
            norms = layer.layer_norm1, layer.layer_norm2
            parameters = [parameter for norm in norms for parameter in (norm.weight, norm.bias)]
            hidden = _Layer.apply(hidden, *parameters, layer, count, kept)  # type: ignore[no-untyped-call]
    else:
        for layer, count in zip(layers, counts, strict=True):
            hidden = _through(hidden, layer, count)[0]
    features: Tensor = model.visual_projection(tower.post_layernorm(hidden[:, 0]))
    return features


def _through(hidden: Tensor, layer: Any, count: int | None) -> tuple[Tensor, ...]:
    """The first `count` tokens (None: all) after a layer, and what its backward pass needs."""
    attention, mlp, norm = layer.self_attn, layer.mlp, layer.layer_norm2
    x = layer.layer_norm1(hidden)
    keys, values = (_heads(_linear(x, of), attention) for of in (attention.k_proj, attention.v_proj))
    queries = _heads(_linear(x[:, :count], attention.q_proj), attention)
    on_cpu = hidden.device.type == "cpu" and torch.is_grad_enabled()
    attend = _ShortAttention.apply if on_cpu else functional.scaled_dot_product_attention
    attended = attend(queries, keys, values).transpose(1, 2).flatten(2)
    middle = hidden[:, :count] + _linear(attended, attention.out_proj)
    # The scale is applied here, where rows are short.
    scaled = (norm.weight * _QUICK_GELU, norm.bias * _QUICK_GELU)
    inner = _linear(functional.layer_norm(middle, norm.normalized_shape, *scaled, norm.eps), mlp.fc1, _QUICK_GELU)
    result = torch.add(middle, _linear(functional.silu(inner), mlp.fc2, _QUICK_GELU), alpha=1 / _QUICK_GELU)
    return result, queries, keys, values, middle, inner


def _heads(x: Tensor, attention: Any) -> Tensor:
    """M x L x W -> M x heads x L x W / heads."""
    split: Tensor = x.unflatten(-1, (attention.num_heads, -1))
    return split.transpose(1, 2)


def _linear(x: Tensor, layer: nn.Linear, bias_scale: float = 1.0) -> Tensor:
    """x W' + bias_scale * b."""
    return _product(x, layer.weight, layer.bias if bias_scale == 1 else layer.bias * bias_scale)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' + b."""
    if _ONEDNN is None or x.dtype != torch.float32 or not _is_simple(x) or torch.is_grad_enabled():
        return functional.linear(x, weight, bias)
    product: Tensor = _ONEDNN(x, weight, bias, "none", [], "")
    return product


_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None
"""oneDNN's product in float32, which torch's compiler uses: 7 to 9 % faster here than torch's default."""


def _is_simple(x: Tensor) -> bool:
    """Whether products on it are the CPU's, in its own precision."""
    return x.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


def _learns_in_norms_only(encoder: nn.Module) -> bool:
    return not any(part.weight.requires_grad for part in encoder.modules() if isinstance(part, nn.Linear))


class _ActivationBlock:
    """One block of memory for all that the backward pass of a chunk needs.

    Each tensor for itself, among those that live shortly, would leave holes: half as much memory again.
    """

    def __init__(self, hidden: Tensor, layers: int, inner: int) -> None:
        tokens, width = hidden.shape[:2].numel(), hidden.shape[2]
        self._block = hidden.new_empty(layers * tokens * (5 * width + inner), requires_grad=False)
        self._used = 0

    def copy(self, tensor: Tensor) -> Tensor:
        start, self._used = self._used, self._used + tensor.numel()
        return self._block[start : self._used].view(tensor.shape).copy_(tensor)


class _Layer(torch.autograd.Function):
    """A layer that learns in its LayerNorms alone."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, *given: Any) -> Tensor:
        *_, layer, count, kept = given
        result, *needed = _through(hidden, layer, count)
        ctx.layer, ctx.count = layer, count
        ctx.needed = [kept.copy(tensor) for tensor in (hidden, *needed)]
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (hidden, queries, keys, values, middle, inner), ctx.needed = ctx.needed, None
        layer, attention = ctx.layer, ctx.layer.self_attn
        # The factors of the activation and of its argument cancel out.
        of_inner = torch.ops.aten.silu_backward(_product(gradient, layer.mlp.fc2.weight.T), inner)
        of_middle, *of_norm2 = _norm_backward(_product(of_inner, layer.mlp.fc1.weight.T), middle, layer.layer_norm2)
        of_middle += gradient
        of_attended = _heads(_product(of_middle, attention.out_proj.weight.T), attention)
        of_queries, of_keys, of_values = (
            part.transpose(1, 2).flatten(2) for part in _attention_backward(of_attended, queries, keys, values)
        )
        of_x = _product(of_keys, attention.k_proj.weight.T)
        of_x += _product(of_values, attention.v_proj.weight.T)
        of_x[:, : ctx.count] += _product(of_queries, attention.q_proj.weight.T)
        of_hidden, *of_norm1 = _norm_backward(of_x, hidden, layer.layer_norm1)
        of_hidden[:, : ctx.count] += of_middle
        return of_hidden, *of_norm1, *of_norm2, None, None, None


def _norm_backward(gradient: Tensor, x: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a LayerNorm's input, weight and bias."""
    shape, weight, bias = list(norm.normalized_shape), norm.weight, norm.bias
    _, mean, deviation = torch.native_layer_norm(x, shape, weight, bias, norm.eps)
    gradients: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_layer_norm_backward(
        gradient, x, shape, mean, deviation, weight, bias, [True] * 3
    )
    return gradients


class _ShortAttention(torch.autograd.Function):
    """Scaled dot-product attention whose backward pass holds all attention weights of a chunk.

    torch's own pass for the CPU works in blocks, which for 50 tokens takes several times as long as the products.
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(queries, keys, values)
        return functional.scaled_dot_product_attention(queries, keys, values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        return _attention_backward(gradient, *ctx.saved_tensors)


def _attention_backward(gradient: Tensor, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
    """Gradients of queries, keys and values."""
    scale = queries.shape[-1] ** -0.5
    weights = torch.softmax((queries * scale) @ keys.transpose(-1, -2), dim=-1)
    of_values = weights.transpose(-1, -2) @ gradient
    of_weights = gradient @ values.transpose(-1, -2)
    of_weights -= (of_weights * weights).sum(-1, keepdim=True)
    of_scores = of_weights.mul_(weights).mul_(scale)
    return of_scores @ keys, of_scores.transpose(-1, -2) @ queries, of_values
