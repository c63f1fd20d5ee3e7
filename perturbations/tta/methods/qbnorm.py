"""QB-Norm (Bogolin et al., CVPR 2022): dynamic inverted softmax over a bank of training queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from perturbations.tta.methods.registry import Method

if TYPE_CHECKING:
    from torch import Tensor

    from perturbations.tta.inputs import Batch
    from perturbations.tta.task import Task


BETA = 20.0  # inverse temperature


def qbnorm(task: Task, batches: Iterable[Batch]) -> Iterator[Tensor]:
    """Similarities normalized by the similarities of the bank's queries with each gallery item."""
    import torch

    compare = task.comparison()
    assert task.bank is not None
    with torch.no_grad():
        bank = torch.cat([compare(part) for part in task.bank.features.split(64)])
    for batch in batches:
        similarities = task.score(batch, compare)
        with task.timings.part("rerank"):
            similarities = querybank_normalized(similarities, bank)
        yield task.finish(similarities)


def querybank_normalized(similarities: Tensor, bank: Tensor) -> Tensor:
    """Dynamic inverted softmax (Eq. 5 and 6 there).

    exp(BETA s) / sum over the bank of exp(BETA s_bank), for queries whose nearest item is also the nearest of some
    query of the bank; others keep their similarities.

    Args:
        similarities: B x N_G.
        bank: M x N_G similarities of the bank's queries.
    """
    import torch

    hubs = bank.argmax(1).unique()
    affected = torch.isin(similarities.argmax(1), hubs)
    normalized = torch.exp(BETA * similarities - (BETA * bank).logsumexp(0))
    return torch.where(affected[:, None], normalized, similarities)


METHOD = Method(
    name="qbnorm",
    title="QB-Norm",
    paper="Bogolin et al., CVPR 2022",
    place=80,
    run=qbnorm,
    minimizes="nothing: dynamic inverted softmax over `bank=`, training queries",
    gives="normalized scores",
    by_default=False,
    needs_bank=True,
)
