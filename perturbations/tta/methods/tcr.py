"""TCR (Li et al., ICLR 2025): noise-robust entropy, uniformity and a steady modality gap."""

from __future__ import annotations

from perturbations.base.bounds import whole
from perturbations.tta.methods.method_registry import RELIABLE, Batches, BatchScores, Method, Parameter, Task, Tensor


def _tcr(task: Task, batches: Batches) -> BatchScores:
    """The three terms over the batch and the gallery items nearest to its queries."""
    import torch

    from perturbations.tta.losses import entropy, fraction, gap, robust_entropy, scatter, unit
    from perturbations.tta.memories import PairMemory

    compare = task.comparison()
    items = task.gallery.features
    texts = unit(items) if task.direction == "v2t" else items.mean(1)
    gallery = texts
    memory = PairMemory(task.values["memory"], largest_first=False)
    filling, share, t = task.values["filling"], task.values["share"], task.values["t"]
    batch_index = 0

    def objective(features: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
        similarities = compare(features)
        queries = features.mean(1) if task.direction == "v2t" else unit(features)
        nearest = gallery[similarities.detach().argmax(1)]
        entropies = entropy(queries @ nearest.T / task.temperature)
        if step == 0 and batch_index < filling:
            with torch.no_grad():
                spread = (queries - queries.mean(0)).norm(dim=-1) + (nearest - nearest.mean(0)).norm(dim=-1)
                reliability = 2 * (queries - nearest).norm(dim=-1) - spread
                memory.add(reliability, queries, nearest, entropies, fraction(share, len(queries)))
        robust = robust_entropy(entropies, memory.largest_entropy)
        if robust is None:
            return similarities, None
        uniform = scatter(queries, queries.mean(0), t)
        steady = (gap(queries, nearest) - gap(memory.queries, memory.items)) ** 2
        return similarities, robust + uniform + steady

    for batch_index, batch in enumerate(batches):  # noqa: B007, the objective reads it
        yield task.finish(task.minimize(batch, objective))


METHOD = Method(
    name="tcr",
    title="TCR",
    paper="Li et al., ICLR 2025",
    place=50,
    run=_tcr,
    minimizes="noise-robust entropy + uniformity + steady gap",
    gives="cosines",
    rates={"v2t": 3e-4, "t2v": 3e-4},
    own=(
        *RELIABLE,
        Parameter(
            "filling",
            whole(1, 1_000_000),
            10,
            "the first batches of a scenario, which fill the memory",
            "released code",
        ),
    ),
)
