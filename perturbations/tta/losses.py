"""The terms that several methods minimize, as pure functions of features and logits."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def unit(x: Tensor) -> Tensor:
    """Vectors normalized along the last axis; those of length 0 stay."""
    return normalize(x, dim=-1)


def entropy(logits: Tensor) -> Tensor:
    """Shannon entropy in nats of each row's softmax: ... x N -> ..."""
    return entropy_terms(logits).sum(-1)


def entropy_terms(logits: Tensor) -> Tensor:
    """-p log p of each element, p each row's softmax: ... x N -> ... x N.

    The softmax is computed as such, not as exp(log p), which rounds otherwise. Queries whose k nearest items are one
    hub have the entropy log k, all of them; which of these are at most the memory's largest entropy is up to the last
    bit, and this form has the released code's.
    """
    return -(logits.softmax(-1) * logits.log_softmax(-1))


def scatter(x: Tensor, center: Tensor, t: float) -> Tensor:
    """mean exp(-||x - center|| / t): small where vectors (... x D) are far from their center (HAT-VTR, Eq. 7 and 8)."""
    return torch.exp(-(x - center).norm(dim=-1) / t).mean()


def gap(a: Tensor, b: Tensor) -> Tensor:
    """Distance between the means of the normalized vectors of a and b (N x D each): the modality gap."""
    distance: Tensor = (unit(a).mean(0) - unit(b).mean(0)).norm()
    return distance


def robust_entropy(entropies: Tensor, largest: float) -> Tensor | None:
    """Mean over the rows that are at most `largest` of entropy x (1 - entropy / (largest + 1e-3)).

    HAT-VTR, Eq. 11; the factor is a weight without gradient. None when no row is certain enough.
    """
    kept = entropies[entropies <= largest]
    if not len(kept):
        return None
    weights = (1 - kept.detach() / (largest + 1e-3)).clamp(min=0)
    return (kept * weights).mean()


def fraction(share: float, count: int) -> int:
    """That share of `count`, rounded down, but at least 1, so that small batches work."""
    return max(1, int(share * count))
