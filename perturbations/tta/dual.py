"""DBNorm (Wang et al., EMNLP 2023): normalization over a bank of queries and a bank of gallery items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from perturbations.base.errors import ConfigError
from perturbations.tta.rescoring import (
    activated,
    asks_hub,
    batch_by_batch,
    log_mass,
    nearest,
    of_bank,
    of_gallery_bank,
    signed,
)

if TYPE_CHECKING:
    from perturbations.tta.task import Batches, BatchScores, Task


def run(task: Task, batches: Batches, *, dynamic: bool) -> BatchScores:
    """The scores of DualIS, or of DualDIS where `dynamic`, in the form that the parameters name."""
    values, compare = task.values, task.comparison()
    betas = values["beta_query"], values["beta_gallery"]
    k = values["k"] if dynamic else None
    if values["form"] == "released":
        banks = [torch.cat(list(parts)) for parts in (of_bank(task, compare), of_gallery_bank(task))]
        yield from _in_order(task, batches, _released(banks[0], banks[1], betas, k))
        return
    masses = log_mass(of_bank(task, compare), betas[0]), log_mass(of_gallery_bank(task), betas[1])
    hubs = None if k is None else (nearest(of_bank(task, compare), k), nearest(of_gallery_bank(task), k))
    yield from batch_by_batch(
        task, batches, compare, lambda similarities: _normalized(similarities, masses, betas, hubs)
    )


def _normalized(
    similarities: Tensor, masses: Sequence[Tensor], betas: Sequence[float], hubs: Sequence[Tensor] | None
) -> Tensor:
    """Numbers in the order of the product of both factors, B x N_G, of similarities B x N_G.

    Args:
        similarities: of queries with the gallery.
        masses: `log_mass` of each bank, N_G each.
        betas: the inverse temperature of each bank.
        hubs: the items near to an entry of each bank (the dynamic form), or None.
    """
    logs, signs = torch.zeros_like(similarities), torch.ones_like(similarities)
    for place, (beta, mass) in enumerate(zip(betas, masses, strict=True)):
        # A row's order does not depend on the mean, without which differences keep their digits.
        factor = beta * similarities - (mass - mass.mean())
        if hubs is not None:
            normalized = asks_hub(similarities, hubs[place])
            factor = torch.where(normalized, factor, similarities.abs().log())
            signs = torch.where(normalized, signs, signs * similarities)
        logs = logs + factor
    return signed(signs, logs)


def _released(bank: Tensor, items: Tensor, betas: Sequence[float], k: int | None) -> Tensor:
    """The scores of the published function `db_norm`, L x N_G.

    It is called with three matrices and uses two: its second bank, the gallery bank's L x N_G matrix, stands where the
    test matrix belongs, so no score depends on a query. In the dynamic form (k is given) the first normalization also
    overwrites the matrix that the second one takes as its bank and as its test matrix.

    Args:
        bank: M x N_G similarities of the bank's queries with the gallery.
        items: L x N_G similarities of the gallery bank's items with the gallery.
        betas: the inverse temperatures.
        k: how many items are near to an entry of a bank; None: all rows are normalized.
    """
    first = torch.exp(betas[0] * items - log_mass([bank], betas[0]))
    if k is None:
        return first * torch.exp(betas[1] * items - log_mass([items], betas[1]))
    changed = activated(items, first, nearest([bank], k))
    again = torch.exp(betas[1] * changed - log_mass([changed], betas[1]))
    result = activated(changed, again, nearest([changed], k))
    return result * result  # both factors are the one matrix that was overwritten twice


def _in_order(task: Task, batches: Batches, scores: Tensor) -> BatchScores:
    """Row i for query i: the only reading in which the released scores have a row per query."""
    start, compare = 0, task.comparison()
    for batch in batches:
        count = len(task.score(batch, compare))
        if start + count > len(scores):
            break
        yield task.finish(scores[start : start + count])
        start += count
    else:
        if start == len(scores):
            return
    raise ConfigError(
        f"the released form of DBNorm has a row per item of the gallery bank, {len(scores)}, and needs as many queries"
    )
