"""Similarities corrected for hubs, gallery items that are near to many queries. Nothing here changes a weight.

Matrices are queries x gallery items. A bank's matrix is taken in parts of some rows, so that it need not be in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from perturbations.base.errors import ConfigError
from perturbations.tta.gallery import Comparison, Gallery
from perturbations.tta.losses import unit
from perturbations.tta.memories import sound
from perturbations.tta.task import Batches, BatchScores, Task

ROWS = 1024
"""Rows of a matrix that are computed at once: 40 MiB of a gallery of 10,000 items."""

_FEW = 64
"""Queries of a bank that are compared at once: X-Pool keeps a vector per pair."""


def after_all(task: Task, batches: Batches, rescore: Callable[[Tensor], Tensor]) -> BatchScores:
    """The rescored similarities Q x N_G of all queries, in their batches; `rescore` may change its argument.

    A query whose similarities are not finite keeps them: it must not destroy the scores of the others.
    """
    compare = task.comparison()
    parts = [task.finish(task.score(batch, compare)) for batch in batches]
    if not parts:
        return
    sizes = [len(part) for part in parts]
    similarities = torch.cat(parts)
    del parts
    with task.recording.part("rerank"):
        finite = similarities.isfinite().all(1)
        if bool(finite.all()):
            similarities = rescore(similarities)
        elif bool(finite.any()):
            similarities[finite] = rescore(similarities[finite])
    task.recording.share(len(similarities))
    yield from map(task.gallery.tied, similarities.split(sizes))


def batch_by_batch(
    task: Task, batches: Batches, compare: Comparison, rescore: Callable[[Tensor], Tensor]
) -> BatchScores:
    """The rescored similarities of each batch, B x N_G, which depend on no other query."""
    for batch in batches:
        similarities = task.score(batch, compare)
        with task.recording.part("rerank"):
            similarities = rescore(similarities)
        yield task.finish(similarities)


def of_bank(task: Task, compare: Comparison) -> Iterator[Tensor]:
    """Similarities of the bank's queries with the gallery, some rows at a time."""
    assert task.bank is not None
    for part in task.bank.features.split(_FEW if task.model.pooling is not None else ROWS):
        with torch.no_grad():  # never around a yield, where two such iterators would restore each other's mode
            similarities = sound(compare(part))
        yield similarities


def vectors(items: Gallery) -> Tensor:
    """One vector of length 1 per item, N x D: a text's features, or the mean of a video's frames."""
    return unit(items.features if items.direction == "v2t" else items.features.mean(1))


def of_gallery_bank(task: Task) -> Iterator[Tensor]:
    """Similarities of the gallery bank's items with the gallery's, some rows at a time."""
    items = vectors(task.gallery).T
    for part in vectors(task.gallery_bank).split(ROWS):
        yield part @ items


# --- inverted softmax ------------------------------------------------------------------------------------------------


def log_mass(parts: Iterable[Tensor], beta: float) -> Tensor:
    """log of the sum over all rows of exp(beta S), per gallery item: N_G."""
    masses = [torch.logsumexp(beta * piece, 0) for part in parts for piece in part.split(ROWS)]
    return torch.stack(masses).logsumexp(0)


def signed(values: Tensor, logs: Tensor) -> Tensor:
    """Numbers in the order of sign(values) * exp(logs) within each row, Q x N_G; the exponentials may leave float32.

    Above 0 they are `logs`. Values below 0 come after all of these, in their own order, and 0 between both.
    """
    lowest = torch.where(values == 0, torch.inf, logs).amin(1, keepdim=True).clamp(max=0) - 1
    return torch.where(values > 0, logs, torch.where(values < 0, 2 * lowest - logs, lowest))


def nearest(parts: Iterable[Tensor], k: int) -> Tensor:
    """The gallery items that are among the k nearest of some row, sorted; those that tie with the k-th are too."""
    near = [(part >= part.topk(min(k, part.shape[1]), dim=1).values[:, -1:]).any(0) for part in parts]
    items: Tensor = torch.stack(near).any(0).nonzero()[:, 0]
    return items


def asks_hub(similarities: Tensor, hubs: Tensor) -> Tensor:
    """Whether each query's nearest item is one of `hubs`, B x 1, of signed similarities B x N_G."""
    return torch.isin(similarities.argmax(1), hubs)[:, None]


def activated(similarities: Tensor, normalized: Tensor, hubs: Tensor) -> Tensor:
    """Normalized rows where a query's nearest item is one of `hubs`, the similarities themselves elsewhere."""
    return torch.where(asks_hub(similarities, hubs), normalized, similarities)


# --- DBNorm (Wang et al., EMNLP 2023): a bank of queries and a bank of gallery items ----------------------------------


def by_two_banks(task: Task, batches: Batches, *, dynamic: bool) -> BatchScores:
    """The scores of DualIS, or of DualDIS where `dynamic`, in the form that the parameters name."""
    values, compare = task.values, task.comparison()
    betas = values["beta_query"], values["beta_gallery"]
    k = values["k"] if dynamic else None
    if values["form"] == "released":
        banks = [torch.cat(list(parts)) for parts in (of_bank(task, compare), of_gallery_bank(task))]
        yield from _row_by_row(task, batches, _db_norm(banks[0], banks[1], betas, k))
        return
    masses = log_mass(of_bank(task, compare), betas[0]), log_mass(of_gallery_bank(task), betas[1])
    hubs = None if k is None else (nearest(of_bank(task, compare), k), nearest(of_gallery_bank(task), k))
    yield from batch_by_batch(
        task, batches, compare, lambda similarities: _by_both_factors(similarities, masses, betas, hubs)
    )


def _by_both_factors(
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


def _db_norm(bank: Tensor, items: Tensor, betas: Sequence[float], k: int | None) -> Tensor:
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


def _row_by_row(task: Task, batches: Batches, scores: Tensor) -> BatchScores:
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


# --- Sinkhorn --------------------------------------------------------------------------------------------------------


def potentials(similarities: Tensor, tau: float, iterations: int) -> Tensor:
    """tau log u of the items after some iterations of Sinkhorn's algorithm, N_G.

    The kernel is exp((S - 1) / tau), both marginals are uniform, and an iteration scales rows (queries), then columns
    (items). In logarithms, since the kernel leaves float32. O(iterations Q N_G) time, O(ROWS N_G) memory.
    """
    queries, items = similarities.shape
    log_u = similarities.new_full((items,), -float(torch.tensor(float(items)).log()))
    of_rows, of_columns = (-float(torch.tensor(float(count)).log()) for count in (queries, items))
    for _ in range(iterations):
        masses = []
        for rows in similarities.split(ROWS):
            kernel = (rows - 1) / tau
            log_v = of_rows - torch.logsumexp(kernel + log_u, 1)
            masses.append(torch.logsumexp(kernel.add_(log_v[:, None]), 0))
        log_u = of_columns - torch.stack(masses).logsumexp(0)
    return tau * log_u


# --- inverse graph convolution ---------------------------------------------------------------------------------------


def convolved(items: Tensor, others: Tensor, rate: float, share: float | None, *, itself: bool = False) -> Tensor:
    """Items N x D of length 1, minus what they share with others M x D of length 1.

    With `share` (LocalAdj): minus `rate` times the mean over the nearest share of the others, each times its cosine.
    Without: minus `rate` times the mean over all, each times its cosine minus the mean cosine. O(N M D) time.
    Where the others are the items (`itself`), an item is none of its own nearest: it would be moved to 0.
    """
    if share is None:
        pulled = items @ (others.T @ others) - (items.mean(0) @ others.mean(0)) * others.sum(0)
        return _unit_or_zero(items - rate * pulled / len(others))
    count = max(1, int(share * len(others)))
    moved = []
    for start in range(0, len(items), ROWS):
        rows = items[start : start + ROWS]
        cosines = rows @ others.T
        if itself:
            cosines.diagonal(start).fill_(0)
        near = cosines.topk(count, dim=1)
        weights = rows.new_zeros(len(rows), len(others)).scatter_(1, near.indices, near.values)
        moved.append(_unit_or_zero(rows - rate * (weights @ others) / count))
    return torch.cat(moved)


def _unit_or_zero(rows: Tensor) -> Tensor:
    """Vectors of length 1; zero where only rounding is left, as of an item minus itself."""
    lengths = rows.norm(dim=1, keepdim=True)
    return torch.where(lengths > 1e-5, rows / lengths, 0)
