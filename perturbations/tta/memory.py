"""Reliable pairs of queries and gallery items, kept from past batches (HAT-VTR's Reliable Memory, TCR's queue)."""

from __future__ import annotations

import torch
from torch import Tensor

SIZE = 16


class PairMemory:
    """At most SIZE pairs, the best by an indicator.

    Attributes:
        queries: M x D features, without gradients; `items` likewise.
        entropies: M, of the queries' predictions within their batch.
    """

    def __init__(self, *, largest_first: bool) -> None:
        self._largest_first = largest_first
        self._indicators = torch.empty(0)
        self.queries = torch.empty(0)
        self.items = torch.empty(0)
        self.entropies = torch.empty(0)

    def add(self, indicators: Tensor, queries: Tensor, items: Tensor, entropies: Tensor, count: int) -> None:
        """Let the `count` best of a batch in, then keep the SIZE best of all."""
        best = indicators.detach().topk(count, largest=self._largest_first).indices
        old = (self._indicators, self.queries, self.items, self.entropies)
        new = [one.detach()[best] for one in (indicators, queries, items, entropies)]
        merged = [torch.cat([a, b]) if len(a) else b for a, b in zip(old, new, strict=True)]
        if len(merged[0]) >= SIZE:
            kept = merged[0].topk(SIZE, largest=self._largest_first).indices
            merged = [one[kept] for one in merged]
        self._indicators, self.queries, self.items, self.entropies = merged
