"""Dual softmax at inference (DSL; Cheng et al., arXiv 2109.04290, Sec. 3.3): an item's best query counts most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from perturbations.tta.methods.registry import Method

if TYPE_CHECKING:
    from torch import Tensor

    from perturbations.tta.inputs import Batch
    from perturbations.tta.task import Task


SCALE = 100.0
"""CLIP's own logit scale, the factor of similarities in the softmax over queries."""


def dsl(task: Task, batches: Iterable[Batch]) -> Iterator[Tensor]:
    """Similarities times their softmax over all queries, which must all be known first."""
    import torch

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
    import torch

    return similarities * torch.softmax(SCALE * similarities, dim=0)


METHOD = Method(
    name="dsl",
    title="DSL",
    paper="Cheng et al., arXiv 2109.04290",
    place=70,
    run=dsl,
    minimizes="nothing: dual softmax over all queries",
    gives="re-weighted cosines",
    needs_all_queries=True,
)
