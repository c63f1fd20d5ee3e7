"""Reliable pairs of queries and gallery items, kept from past batches (HAT-VTR's Reliable Memory, TCR's queue)."""

from __future__ import annotations

import torch
from torch import Tensor


class PairMemory:
    """At most `size` pairs, the best by an indicator.

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
        sound = (indicators.isfinite() & entropies.isfinite()).nonzero().flatten()
        count = min(count, len(sound))
        if not count:
            return
        best = sound[indicators.detach()[sound].topk(count, largest=self._largest_first).indices]
        old = (self._indicators, self.queries, self.items, self.entropies)
        new = [values.detach()[best] for values in (indicators, queries, items, entropies)]
        merged = [torch.cat([a, b]) if len(a) else b for a, b in zip(old, new, strict=True)]
        if len(merged[0]) >= self._size:
            kept = merged[0].topk(self._size, largest=self._largest_first).indices
            merged = [values[kept] for values in merged]
        self._indicators, self.queries, self.items, self.entropies = merged
        self.largest_entropy = float(self.entropies.max())  # once per batch: a GPU stops for it
