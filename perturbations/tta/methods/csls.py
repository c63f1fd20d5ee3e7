"""CSLS (Conneau et al., ICLR 2018, Eq. 3): similarities minus the mean similarity of either side's neighbours."""

from __future__ import annotations

from perturbations.base.bounds import whole
from perturbations.tta.methods.method_registry import Batches, BatchScores, Method, Parameter, Task, Tensor


def _csls(task: Task, batches: Batches) -> BatchScores:
    """Cross-domain similarity local scaling over all queries. O(Q N_G) time and memory."""
    from perturbations.tta.rescoring import after_all

    k = task.values["k"]
    yield from after_all(task, batches, lambda similarities: _locally_scaled(similarities, k))


def _locally_scaled(similarities: Tensor, k: int) -> Tensor:
    """2 S - (mean of a query's k nearest items) - (mean of an item's k nearest queries), Q x N_G; S is changed."""
    import torch

    from perturbations.tta.rescoring import ROWS

    queries, items = similarities.shape
    near_items = torch.cat([rows.topk(min(k, items), 1).values.mean(1) for rows in similarities.split(ROWS)])
    near_queries = torch.cat([part.topk(min(k, queries), 0).values.mean(0) for part in similarities.split(ROWS, 1)])
    return similarities.mul_(2).sub_(near_items[:, None]).sub_(near_queries)


METHOD = Method(
    name="csls",
    title="CSLS",
    paper="Conneau et al., ICLR 2018",
    place=90,
    run=_csls,
    minimizes="nothing: local scaling over all queries",
    gives="twice the cosines minus the neighbours' means",
    by_default=False,
    needs_all_queries=True,
    own=(Parameter("k", whole(1, 1_000_000), 10, "neighbours of a query, and of an item", "Conneau et al., Sec. 2.3"),),
)
