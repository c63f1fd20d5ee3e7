"""The precision of matrix products: what a method's forward and backward passes of the query encoder compute in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor

from perturbations.base.errors import ConfigError

PRECISIONS = ("float32", "tf32", "bfloat16")
"""As the weights are; with factors rounded to 10 bits of mantissa, as tensor cores take them; with shorter factors."""


def check(precision: str, device: torch.device) -> None:
    """Raise `ConfigError` for an unknown precision, or one that the device does not have."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision {precision!r} is unknown; allowed: {', '.join(PRECISIONS)}")
    if precision == "tf32" and device.type != "cuda":
        raise ConfigError(
            f"precision {precision!r} needs an NVIDIA GPU, the device is {device}; use float32 or bfloat16"
        )


@contextmanager
def forward(precision: str, device: torch.device) -> Iterator[None]:
    """Inside, products of a forward pass have this precision."""
    cast = torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()
    with tensor_cores(precision, device), cast:
        yield


@contextmanager
def tensor_cores(precision: str, device: torch.device) -> Iterator[None]:
    """Inside, products of float32 are exact or TF32, as the precision says; afterwards as the caller had set them.

    torch computes convolutions, such as the embedding of patches, in TF32 unless told otherwise.
    """
    if device.type != "cuda":
        yield
        return
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    try:
        products.allow_tf32 = convolutions.allow_tf32 = precision == "tf32"
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


def wide(features: Tensor) -> Tensor:
    """Features in float32, or in float64 where the model is: a shorter precision is for matrix products alone."""
    return features.to(torch.promote_types(features.dtype, torch.float32))
