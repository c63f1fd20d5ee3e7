"""TENT (Wang et al., ICLR 2021): minimize the entropy of predictions; HAT-VTR, Eq. 3 and 4."""

from __future__ import annotations

from perturbations.tta.methods.method_registry import Batches, BatchScores, Method, Task, Tensor


def _tent(task: Task, batches: Batches) -> BatchScores:
    """Mean entropy of softmax(similarities / tau) over the gallery."""
    from perturbations.tta.losses import entropy

    compare = task.comparison()

    def objective(features: Tensor, step: int) -> tuple[Tensor, Tensor]:
        logits = compare(features) / task.temperature
        return logits, entropy(logits).mean()

    for batch in batches:
        yield task.finish(task.minimize(batch, objective))


METHOD = Method(
    name="tent",
    title="TENT",
    paper="Wang et al., ICLR 2021",
    place=10,
    run=_tent,
    minimizes="mean entropy",
    gives="cosines / tau",
    rates={"v2t": 3e-5, "t2v": 3e-5},
)
