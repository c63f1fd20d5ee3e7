"""What methods keep of past batches: reliable pairs, and how popular each gallery item was."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class PairMemory:
    """At most `size` reliable pairs of queries and items, the best by an indicator (HAT-VTR's and TCR's).

    Attributes:
        queries: M x D features, without gradients; `items` likewise.
        entropies: M, of the queries' predictions within their batch.
        largest_entropy: queries with more entropy than this are not certain; with an empty memory no query is certain.
    """

    def __init__(self, size: int, *, largest_first: bool) -> None:
        self._size = size
        self._largest_first = largest_first
        self._indicators = torch.empty(0)
        self.queries = torch.empty(0)
        self.items = torch.empty(0)
        self.entropies = torch.empty(0)
        self.largest_entropy = float("-inf")

    def add(self, indicators: Tensor, queries: Tensor, items: Tensor, entropies: Tensor, count: int) -> None:
        """Add the `count` best pairs of a batch, then keep the `size` best of all. Pairs with NaN are left out."""
        finite = (indicators.isfinite() & entropies.isfinite()).nonzero().flatten()
        count = min(count, len(finite))
        if not count:
            return
        best = finite[indicators.detach()[finite].topk(count, largest=self._largest_first).indices]
        old = (self._indicators, self.queries, self.items, self.entropies)
        new = [values.detach()[best] for values in (indicators, queries, items, entropies)]
        merged = [torch.cat([a, b]) if len(a) else b for a, b in zip(old, new, strict=True)]
        if len(merged[0]) >= self._size:
            kept = merged[0].topk(self._size, largest=self._largest_first).indices
            merged = [values[kept] for values in merged]
        self._indicators, self.queries, self.items, self.entropies = merged
        self.largest_entropy = float(self.entropies.max())  # once per batch: a GPU stops for it


# --- hubness suppression ---------------------------------------------------------------------------------------------


class HubnessMemory:
    """HSM: scores re-weighted by how popular each item was with recent queries (HAT-VTR, Sec. 4.2, Eq. 5 and 6).

    It holds the newest `capacity` batches, first in, first out. Only column-wise softmax statistics of past batches
    enter the scores of the current one, so a batch is kept as two rows (column maxima and sums of exponentials), not as
    its B x N_G matrix.

    Attributes:
        capacity: how many batches.
        alpha: the factor in the softmax of columns: how popular a gallery item is.
        beta: the factor in the softmax of rows: how sure a query is.
        m: the weight of columns in Eq. 6; rows have 1 - m.
    """

    def __init__(self, capacity: int, alpha: float = 100.0, beta: float = 10.0, m: float = 0.5) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; one batch at least")
        self.capacity = capacity
        self.alpha, self.beta, self.m = alpha, beta, m
        self._past: deque[Tensor] = deque(maxlen=capacity)

    def __len__(self) -> int:
        return len(self._past)

    def append(self, similarities: Tensor) -> None:
        """Add a batch's B x N_G similarities and drop the oldest batch where that exceeds the capacity."""
        similarities = sound(similarities)
        if len(similarities):
            self._past.append(self._columns(similarities))

    def rescore(self, similarities: Tensor, scores: Tensor | None = None) -> Tensor:
        """The current batch's B x N_G scores by Eq. 6, over the memory and the batch itself.

        Similarities give the weights; `scores` are weighted in their place where they are given.
        """
        weighted = similarities if scores is None else scores
        counted = sound(similarities)
        if not len(counted):
            return weighted
        largest, sums = torch.stack([*self._past, self._columns(counted)], 1)  # batches x N_G each
        top = largest.amax(0)
        # m softmax_col(alpha S) + (1 - m) softmax_row(beta S), the columns' softmax by their statistics
        popular = torch.exp(self.alpha * similarities - top) / (sums * torch.exp(largest - top)).sum(0)
        sure = torch.softmax(self.beta * similarities, dim=1)
        rescored: Tensor = weighted * (self.m * popular + (1 - self.m) * sure)
        return rescored

    def _columns(self, similarities: Tensor) -> Tensor:
        """2 x N_G: the maximum of alpha x similarity over some queries, and the sum of exponentials relative to it."""
        scaled = self.alpha * similarities
        largest = scaled.amax(0)
        return torch.stack([largest, torch.exp(scaled - largest).sum(0)])


def memory_of(values: Mapping[str, Any]) -> HubnessMemory:
    """The memory of a method with the parameters `registry.HSM`."""
    return HubnessMemory(values["k"], values["alpha"], values["beta"], values["m"])


def sound(similarities: Tensor) -> Tensor:
    """The rows that are finite: one broken query must not destroy the scores of all later ones."""
    return similarities[similarities.isfinite().all(1)]
