"""The forms in which videos and texts may be given, and checks of their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Direction = Literal["v2t", "t2v"]
DIRECTIONS: tuple[Direction, ...] = ("v2t", "t2v")

Batch = Tensor | Mapping[str, Tensor] | Sequence[Tensor | None]
"""Frames, or token ids with their mask: the input of `frames` or `tokens`."""


class Tokens(NamedTuple):
    """Token ids B x L (int64) and their attention mask B x L (or None: nothing is padding)."""

    ids: Tensor
    mask: Tensor | None


def tokens(given: Batch, device: torch.device) -> Tokens:
    """Token ids with their mask: a pair, a mapping with `input_ids` and `attention_mask`, or ids alone.

    Raises:
        ValueError: it is something else, or the shapes do not fit.
    """
    ids: Tensor | None
    mask: Tensor | None
    if isinstance(given, Mapping):
        ids, mask = given["input_ids"], given.get("attention_mask")
    elif isinstance(given, Tensor):
        ids, mask = given, None
    elif isinstance(given, tuple | list) and len(given) == 2:
        ids, mask = given
    else:
        raise ValueError(
            f"texts are given as {type(given).__name__}; allowed: (ids, mask), a tokenizer's output, or a tensor of ids"
        )
    ids = torch.as_tensor(ids, device=device)
    mask = None if mask is None else torch.as_tensor(mask, device=device)
    if ids.ndim != 2 or not len(ids) or ids.is_floating_point():
        raise ValueError(f"token ids are {tuple(ids.shape)} {ids.dtype}; they must be integers, B x L")
    if mask is not None and mask.shape != ids.shape:
        raise ValueError(f"the attention mask is {tuple(mask.shape)}, the token ids are {tuple(ids.shape)}")
    return Tokens(ids, mask)


def frames(given: Batch, device: torch.device) -> Tensor:
    """Frames B x T x 3 x H x W, floating point, on the device.

    Raises:
        ValueError: it is not such a tensor.
    """
    if not isinstance(given, Tensor) or given.ndim != 5 or given.shape[2] != 3 or not given.is_floating_point():
        shape = f"{tuple(given.shape)} {given.dtype}" if isinstance(given, Tensor) else type(given).__name__
        raise ValueError(f"frames are {shape}; they must be a normalized float tensor B x T x 3 x H x W")
    if 0 in given.shape:
        raise ValueError(f"frames are {tuple(given.shape)}: nothing to encode")
    return given.to(device)
