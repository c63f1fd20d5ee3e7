"""Hubness Suppression Memory: scores re-weighted by how popular each gallery item was with recent queries.

HAT-VTR, Sec. 4.2, Eq. 5 and 6. Only column-wise softmax statistics of past batches enter the scores of the current one,
so a past batch is kept as two rows (column maxima and sums of exponentials), not as its B x N_G matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from perturbations.tta.losses import fraction

_Columns = Tensor
"""2 x N_G: the maximum of alpha x similarity over some queries, and the sum of exponentials relative to it."""


class HubnessMemory:
    """The newest `capacity` batches' column statistics, first in, first out.

    A queue of two stacks. Each entry of `_older` merges all batches from its own to the end of the stack. So the oldest
    batch is dropped without a subtraction, which would cancel digits, and a batch costs O(N_G) on average for any
    capacity.

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
        self._older: list[_Columns] = []
        self._newer: list[_Columns] = []
        self._newer_merged: _Columns | None = None

    def __len__(self) -> int:
        return len(self._older) + len(self._newer)

    def append(self, similarities: Tensor) -> None:
        """Add a batch's B x N_G similarities and drop the oldest batch where that exceeds the capacity."""
        similarities = sound(similarities)
        if not len(similarities):
            return
        added = _columns(similarities, self.alpha)
        self._newer.append(added)
        self._newer_merged = added if self._newer_merged is None else _merge(self._newer_merged, added)
        if len(self) > self.capacity:
            self._drop_oldest()

    def rescore(self, similarities: Tensor, scores: Tensor | None = None) -> Tensor:
        """The current batch's B x N_G scores by Eq. 6, over the memory and the batch itself.

        Similarities give the weights; `scores` are weighted in their place where they are given.
        """
        weighted = similarities if scores is None else scores
        counted = sound(similarities)
        if not len(counted):
            return weighted
        merged = _columns(counted, self.alpha)
        for past in (self._older[-1] if self._older else None, self._newer_merged):
            if past is not None:
                merged = _merge(merged, past)
        # m softmax_col(alpha S) + (1 - m) softmax_row(beta S), the columns' softmax by their statistics
        popular = torch.exp(self.alpha * similarities - merged[0]) / merged[1]
        sure = torch.softmax(self.beta * similarities, dim=1)
        return weighted * (self.m * popular + (1 - self.m) * sure)

    def _drop_oldest(self) -> None:
        if not self._older:
            merged: _Columns | None = None
            while self._newer:
                newest = self._newer.pop()
                merged = newest if merged is None else _merge(merged, newest)
                self._older.append(merged)
            self._newer_merged = None
        self._older.pop()


_HISTORY = 0.1
"""Batches in the memory, as a share of the gallery's size (released code; the paper's K is 100 of 1,000)."""


def memory_of(values: Mapping[str, Any], items: int) -> HubnessMemory:
    """The memory of a method with the parameters `registry.HSM`, for a gallery of some items."""
    capacity = int(values["k"] or 0) or fraction(_HISTORY, items)
    return HubnessMemory(capacity, values["alpha"], values["beta"], values["m"])


def sound(similarities: Tensor) -> Tensor:
    """The rows that are finite: one broken query must not destroy the scores of all later ones."""
    return similarities[similarities.isfinite().all(1)]


def _columns(similarities: Tensor, alpha: float) -> _Columns:
    """Column statistics of a B x N_G matrix."""
    scaled = alpha * similarities
    largest = scaled.amax(0)
    return torch.stack([largest, torch.exp(scaled - largest).sum(0)])


def _merge(a: _Columns, b: _Columns) -> _Columns:
    """Statistics of the rows of both."""
    largest = torch.maximum(a[0], b[0])
    return torch.stack([largest, a[1] * torch.exp(a[0] - largest) + b[1] * torch.exp(b[0] - largest)])
