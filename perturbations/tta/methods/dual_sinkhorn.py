"""Dual bank Sinkhorn normalization (DBSN; Pan et al., ACM MM 2025): Sinkhorn's scaling over banks, without queries."""

from __future__ import annotations

from perturbations.tta.methods.method_registry import Batches, BatchScores, Method, Task
from perturbations.tta.methods.sinkhorn import TRANSPORT


def _dual_sinkhorn(task: Task, batches: Batches) -> BatchScores:
    """S + tau log u, u the items' scaling between the bank's M queries and the gallery with the gallery bank's L items.

    The gallery bank takes up the queries of the bank that no gallery item answers. O(iterations M (N_G + L)) time once,
    O(M (N_G + L)) memory.
    """
    import torch

    from perturbations.tta.rescoring import batch_by_batch, of_bank, potentials

    compare = task.comparison()
    others = task.comparison(task.gallery_bank)
    sides = zip(of_bank(task, compare), of_bank(task, others), strict=True)
    both = torch.cat([torch.cat(pair, 1) for pair in sides])
    hubness = potentials(both, task.values["tau"], task.values["iterations"])[: len(task.gallery)]
    yield from batch_by_batch(task, batches, compare, lambda similarities: similarities + hubness)


METHOD = Method(
    name="dual_sinkhorn",
    title="DBSN",
    paper="Pan et al., ACM MM 2025",
    place=140,
    run=_dual_sinkhorn,
    minimizes="nothing: Sinkhorn's scaling over `bank=` and `gallery_bank=`",
    gives="cosines minus each item's hubness",
    by_default=False,
    needs_bank=True,
    takes_gallery_bank=True,
    own=TRANSPORT,
)
