"""Sinkhorn normalization (SN; Pan et al., ACM MM 2025): every item is to be retrieved by as many queries."""

from __future__ import annotations

from perturbations.base.bounds import Range, whole
from perturbations.tta.methods.method_registry import Batches, BatchScores, Method, Parameter, Task


def _sinkhorn(task: Task, batches: Batches) -> BatchScores:
    """S + tau log u, u the items' scaling of the transport plan between all queries and the gallery.

    O(iterations Q N_G) time, O(Q N_G) memory.
    """
    from perturbations.tta.rescoring import after_all, potentials

    tau, iterations = task.values["tau"], task.values["iterations"]
    yield from after_all(
        task, batches, lambda similarities: similarities.add_(potentials(similarities, tau, iterations))
    )


TRANSPORT = (
    Parameter("tau", Range(1e-4, 100), 0.01, "entropic regularization, the temperature", "released code"),
    Parameter("iterations", whole(1, 10_000), 10, "of Sinkhorn's algorithm", "released code"),
)

METHOD = Method(
    name="sinkhorn",
    title="SN",
    paper="Pan et al., ACM MM 2025",
    place=130,
    run=_sinkhorn,
    minimizes="nothing: Sinkhorn's scaling over all queries",
    gives="cosines minus each item's hubness",
    by_default=False,
    needs_all_queries=True,
    own=TRANSPORT,
)
