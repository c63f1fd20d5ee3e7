"""The precision of matrix products: what a method's forward and backward passes of the query encoder compute in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from perturbations.base.errors import ConfigError


class PrecisionSteps(NamedTuple):
    """How the query encoder multiplies matrices.

    Attributes:
        autocast: the type of the products' factors, or None for that of the weights.
        tf32: factors of float32 are rounded to 10 bits of mantissa, as tensor cores take them.
    """

    autocast: torch.dtype | None = None
    tf32: bool = False


EXACT = PrecisionSteps()
PRECISIONS = {"float32": EXACT, "tf32": PrecisionSteps(tf32=True), "bfloat16": PrecisionSteps(autocast=torch.bfloat16)}


def precision_of(name: str, device: torch.device) -> PrecisionSteps:
    """The precision called `name`; raises `ConfigError` for an unknown one, or one that the device does not have."""
    if name not in PRECISIONS:
        raise ConfigError(f"precision {name!r} is unknown; allowed: {', '.join(PRECISIONS)}")
    if PRECISIONS[name].tf32 and device.type != "cuda":
        raise ConfigError(f"precision {name!r} needs an NVIDIA GPU, the device is {device}; use float32 or bfloat16")
    return PRECISIONS[name]


@contextmanager
def forward(precision: PrecisionSteps, device: torch.device) -> Iterator[None]:
    """Inside, products of a forward pass have this precision."""
    cast = nullcontext() if precision.autocast is None else torch.autocast(device.type, precision.autocast)
    with tensor_cores(precision, device), cast:
        yield


@contextmanager
def tensor_cores(precision: PrecisionSteps, device: torch.device) -> Iterator[None]:
    """Inside, products of float32 are exact or TF32, as the precision says; afterwards as the caller had set them.

    torch computes convolutions, such as the embedding of patches, in TF32 unless told otherwise.
    """
    if device.type != "cuda":
        yield
        return
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    try:
        products.allow_tf32 = convolutions.allow_tf32 = precision.tf32
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


def wide(features: Tensor) -> Tensor:
    """Features in float32, or in float64 where the model is: a shorter precision is for matrix products alone."""
    return features.to(torch.promote_types(features.dtype, torch.float32))
