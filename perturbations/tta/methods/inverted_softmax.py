"""Inverted softmax (Smith et al., ICLR 2017, Eq. 10): an item that many queries are near to counts less."""

from __future__ import annotations

from perturbations.base.bounds import Range
from perturbations.tta.methods.method_registry import Batches, BatchScores, Method, Parameter, Task


def _inverted_softmax(task: Task, batches: Batches) -> BatchScores:
    """S - (log of the sum over all queries of exp(beta S)) / beta: the order of exp(beta S) / that sum, as cosines.

    The dynamic form (DIS) over the same queries is the same: each query's nearest item is near to a query. Over a bank
    of other queries both are `qbnorm`'s. O(Q N_G) time and memory.
    """
    from perturbations.tta.rescoring import after_all, log_mass

    beta = task.values["beta"]
    yield from after_all(task, batches, lambda similarities: similarities.sub_(log_mass([similarities], beta) / beta))


METHOD = Method(
    name="inverted_softmax",
    title="IS",
    paper="Smith et al., ICLR 2017",
    place=100,
    run=_inverted_softmax,
    minimizes="nothing: inverted softmax over all queries",
    gives="cosines minus each item's hubness",
    by_default=False,
    needs_all_queries=True,
    own=(
        Parameter(
            "beta",
            Range(0, 1e6, above=True),
            20.0,
            "inverse temperature",
            "QB-Norm's and DBNorm's released code; Smith et al. tune it",
        ),
    ),
)
