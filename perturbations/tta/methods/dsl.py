"""Dual softmax at inference (DSL; Cheng et al., arXiv 2109.04290, Sec. 3.3): each item's best query counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from perturbations.tta.task import Task

SCALE = 100.0
"""CLIP's own logit scale, by which similarities are multiplied in the softmax over queries."""


def dsl(task: Task, batches: Iterable[Any]) -> Iterator[Tensor]:
    """Similarities times their softmax over all queries, which it must see first."""
    compare = task.comparison()
    parts = [task.finish(task.score(batch, compare)) for batch in batches]
    if not parts:
        return
    with task.timings.part("rerank"):
        rescored = dual_softmax(torch.cat(parts))
    task.timings.share(len(rescored))
    yield from rescored.split([len(part) for part in parts])


def dual_softmax(similarities: Tensor) -> Tensor:
    """S * softmax over queries of SCALE x S, for similarities of all Q queries, Q x N_G."""
    return similarities * torch.softmax(SCALE * similarities, dim=0)
