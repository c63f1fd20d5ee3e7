"""QB-Norm (Bogolin et al., CVPR 2022): (dynamic) inverted softmax over a bank of training queries."""

from __future__ import annotations

from perturbations.base.bounds import Range, whole
from perturbations.tta.methods.method_registry import FLAG, Batches, BatchScores, Method, Parameter, Task, Tensor


def _qbnorm(task: Task, batches: Batches) -> BatchScores:
    """Similarities normalized by those of the bank's M queries with each gallery item (Eq. 5 and 6 there).

    S - (log of the sum over the bank of exp(beta S_bank)) / beta: the order of exp(beta S) / that sum, as cosines.
    Dynamic (DIS): for queries whose nearest item is among the k nearest of some query of the bank; others keep their
    similarities. Otherwise (IS): for all. Over the scenario's own queries as the bank the two are the same, see
    `inverted_softmax`. O(M N_G) time once, O(N_G) memory.
    """
    from perturbations.tta.rescoring import activated, batch_by_batch, log_mass, nearest, of_bank

    compare = task.comparison()
    beta = task.values["beta"]
    mass = log_mass(of_bank(task, compare), beta)
    hubs = nearest(of_bank(task, compare), task.values["k"]) if task.values["dynamic"] else None

    def rescore(similarities: Tensor) -> Tensor:
        normalized = similarities - mass / beta
        return normalized if hubs is None else activated(similarities, normalized, hubs)

    yield from batch_by_batch(task, batches, compare, rescore)


METHOD = Method(
    name="qbnorm",
    title="QB-Norm",
    paper="Bogolin et al., CVPR 2022",
    place=80,
    run=_qbnorm,
    minimizes="nothing: dynamic inverted softmax over `bank=`, training queries",
    gives="cosines minus each item's hubness",
    by_default=False,
    needs_bank=True,
    own=(
        Parameter("beta", Range(0, 1e6, above=True), 20.0, "inverse temperature", "released code"),
        Parameter("k", whole(1, 1_000_000), 1, "nearest items of a query of the bank that count as hubs", "Sec. 3.3"),
        Parameter("dynamic", FLAG, True, "DIS: only queries near a hub are normalized; false: IS, all are", "Eq. 6"),
    ),
)
