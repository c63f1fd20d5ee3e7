"""Renames CLIP's weights from OpenAI's names (as in CLIP4Clip's checkpoints) to those of transformers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_SIZES = ("input_resolution", "context_length", "vocab_size")
"""Numbers that OpenAI's files keep beside the weights."""

_WHOLE = {
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
}
_TRANSPOSED = {"visual.proj": "visual_projection.weight", "text_projection": "text_projection.weight"}
_STARTS = {
    "visual.ln_pre.": "vision_model.pre_layrnorm.",
    "visual.ln_post.": "vision_model.post_layernorm.",
    "ln_final.": "text_model.final_layer_norm.",
    "visual.transformer.resblocks.": "vision_model.encoder.layers.",
    "transformer.resblocks.": "text_model.encoder.layers.",
}
_IN_LAYERS = {
    ".attn.out_proj.": ".self_attn.out_proj.",
    ".ln_1.": ".layer_norm1.",
    ".ln_2.": ".layer_norm2.",
    ".mlp.c_fc.": ".mlp.fc1.",
    ".mlp.c_proj.": ".mlp.fc2.",
}
_JOINED = ".attn.in_proj_"
"""OpenAI's code keeps the projections of query, key and value in one matrix, one below the other."""


def are_openai(names: Mapping[str, Tensor]) -> bool:
    """Whether the weights of a CLIP have OpenAI's names."""
    return "visual.conv1.weight" in names


def renamed(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same weights with the names and shapes of transformers' CLIPModel; unknown names are kept."""
    return {name: value for old, weight in state.items() for name, value in _renamed(old, weight)}


def _renamed(name: str, weight: Tensor) -> Iterator[tuple[str, Tensor]]:
    if name in _SIZES:
        return
    if name in _TRANSPOSED:
        yield _TRANSPOSED[name], weight.T.contiguous()
        return
    new = _WHOLE.get(name, name)
    start = next((start for start in _STARTS if name.startswith(start)), None)
    if start is not None:
        new = _STARTS[start] + name.removeprefix(start)
    for inside, replacement in _IN_LAYERS.items():
        new = new.replace(inside, replacement)
    if _JOINED not in new:
        yield new, weight
        return
    before, _, what = new.partition(_JOINED)
    for part, rows in zip("qkv", weight.chunk(3), strict=True):
        yield f"{before}.self_attn.{part}_proj.{what}", rows
