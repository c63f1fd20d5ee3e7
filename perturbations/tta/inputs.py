"""The forms in which videos and texts may be given, and checks of their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from perturbations.tta.frames import MEAN, STD, normalize

Direction = Literal["v2t", "t2v"]
DIRECTIONS: tuple[Direction, ...] = ("v2t", "t2v")


@dataclass(frozen=True)
class ByteFrames:
    """Frames as bytes. They are normalized on the model's device: bytes take a quarter of the transfer of floats.

    Attributes:
        values: uint8 B x T x 3 x H x W.
        mean, std: of each channel, RGB in [0, 1].
    """

    values: Tensor
    mean: Sequence[float] = MEAN
    std: Sequence[float] = STD

    def __len__(self) -> int:
        return len(self.values)

    def split(self, size: int) -> list[ByteFrames]:
        """The same in parts of at most `size` videos."""
        return [replace(self, values=part) for part in self.values.split(size)]

    def pinned(self) -> ByteFrames:
        """In memory that a GPU reads by itself, while the program goes on."""
        return replace(self, values=self.values.pin_memory())


Batch = Tensor | ByteFrames | Mapping[str, Tensor] | Sequence[Tensor | None]
"""Frames, or token ids with their mask: the input of `frames` or `tokens`."""


def tokens(batch: object, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Token ids B x L (int64) and their attention mask B x L (or None: nothing is padding).

    They are given as a pair, as a mapping with `input_ids` and `attention_mask`, or as ids alone.

    Raises:
        ValueError: it is something else, or the shapes do not fit.
    """
    ids: Tensor | None
    mask: Tensor | None
    if isinstance(batch, Mapping):
        ids, mask = batch["input_ids"], batch.get("attention_mask")
    elif isinstance(batch, Tensor):
        ids, mask = batch, None
    elif isinstance(batch, tuple | list) and len(batch) == 2:
        ids, mask = batch
    else:
        raise ValueError(
            f"texts are given as {type(batch).__name__}; allowed: (ids, mask), a tokenizer's output, or a tensor of ids"
        )
    ids = torch.as_tensor(ids, device=device)
    mask = None if mask is None else torch.as_tensor(mask, device=device)
    if ids.ndim != 2 or not len(ids) or ids.is_floating_point():
        raise ValueError(f"token ids are {tuple(ids.shape)} {ids.dtype}; they must be integers, B x L")
    if mask is not None and mask.shape != ids.shape:
        raise ValueError(f"the attention mask is {tuple(mask.shape)}, the token ids are {tuple(ids.shape)}")
    return ids, mask


def frames(batch: object, device: torch.device) -> Tensor:
    """Frames B x T x 3 x H x W, normalized, floating point, on the device.

    Raises:
        ValueError: it is neither such a tensor nor `ByteFrames`.
    """
    if isinstance(batch, ByteFrames):
        return normalize(_bytes(batch.values).to(device, non_blocking=True), batch.mean, batch.std)
    if not isinstance(batch, Tensor) or batch.ndim != 5 or batch.shape[2] != 3 or not batch.is_floating_point():
        shape = f"{tuple(batch.shape)} {batch.dtype}" if isinstance(batch, Tensor) else type(batch).__name__
        raise ValueError(f"frames are {shape}; they must be a normalized float tensor B x T x 3 x H x W")
    if 0 in batch.shape:
        raise ValueError(f"frames are {tuple(batch.shape)}: nothing to encode")
    return batch.to(device)


def _bytes(values: Tensor) -> Tensor:
    if values.ndim != 5 or values.shape[2] != 3 or values.dtype != torch.uint8 or 0 in values.shape:
        raise ValueError(f"pixels are {tuple(values.shape)} {values.dtype}; they must be uint8 B x T x 3 x H x W")
    return values
