"""Frames through an image encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

CHUNK = 24
"""Frames of one pass on the CPU: what lies between two layers then stays in the cache, and peaks stay low."""


def per_frame(encode: Callable[[Tensor], Tensor], frames: Tensor) -> Tensor:
    """B x T x 3 x H x W -> B x T x D, by an encoder of images (M x 3 x H x W -> M x D), chunk by chunk on the CPU."""
    images = frames.flatten(0, 1)
    chunks = images.split(CHUNK) if images.device.type == "cpu" else (images,)
    features = [encode(chunk) for chunk in chunks]
    return torch.cat(features).unflatten(0, frames.shape[:2])


def image_features(model: Any, pixels: Tensor) -> Tensor:
    """Projected features M x D of images M x 3 x H x W."""
    return features_of(model.get_image_features(pixel_values=pixels))


def features_of(output: Any) -> Tensor:
    """The projected features, from whatever object this version of transformers wraps them in."""
    features: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return features
