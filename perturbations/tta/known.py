"""Methods on similarities, of features that are known: no model, no pixels, no tokens."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from perturbations.tta.adaptation import adapt
from perturbations.tta.encoders import DualEncoder
from perturbations.tta.gallery import Gallery
from perturbations.tta.inputs import Direction
from perturbations.tta.methods import registry
from perturbations.tta.recording import Unadapted
from perturbations.tta.rescoring import ROWS

_Floats = NDArray[np.float32]


def scores(
    method: str,
    direction: Direction,
    queries: _Floats,
    gallery: _Floats,
    bank: _Floats | None = None,
    gallery_bank: _Floats | None = None,
) -> _Floats:
    """The scores of queries N x D with a gallery N_G x D, float32, N x N_G, by a method that changes no weights.

    `bank` holds features of training queries, `gallery_bank` of items of the gallery's kind; each is used by the
    methods that take it. Raises `ConfigError` for a method that is unknown, adapts weights, or lacks its bank.
    """
    declared = registry.method(method)
    asking: Direction = "t2v" if direction == "v2t" else "v2t"  # the direction in which the queries are a gallery
    parts = _gallery(queries, asking).features.split(ROWS)
    kept: Unadapted = {(0, place): (part, []) for place, part in enumerate(parts)}
    norm = nn.LayerNorm(1)
    similarities = adapt(
        DualEncoder(norm, norm, _unknown, _unknown, pooling=None, modules=(norm,), frozen=True),
        method,
        [()] * len(parts),
        _gallery(gallery, direction),
        direction=direction,
        seed=0,
        bank=_gallery(bank, asking) if bank is not None and declared.needs_bank else None,
        gallery_bank=_gallery(gallery_bank, direction)
        if gallery_bank is not None and declared.takes_gallery_bank
        else None,
        unadapted=kept,
    )
    return np.concatenate([part.numpy() for part in similarities])


def _gallery(rows: _Floats, direction: Direction) -> Gallery:
    """Features as a gallery of texts (v2t), or of clips with one frame (t2v)."""
    features = torch.from_numpy(rows)
    return Gallery(direction, features if direction == "v2t" else features[:, None])


def _unknown(*given: Tensor | None) -> Tensor:
    raise TypeError("features are known; nothing is encoded")
