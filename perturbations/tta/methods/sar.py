"""SAR (Niu et al., ICLR 2023): entropy of the certain queries, minimized towards flat minima (SAM around AdamW)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perturbations.base.bounds import SHARE, Range
from perturbations.tta.methods.method_registry import Batches, BatchScores, Method, Parameter, Task, Tensor

if TYPE_CHECKING:
    from perturbations.tta.gallery import Comparison
    from perturbations.tta.inputs import Batch


def _sar(task: Task, batches: Batches) -> BatchScores:
    """Mean entropy of the most certain queries (40 %), its gradient taken at the worst weights within rho.

    As released, the second pass filters the terms -p log p of the same queries one by one, not summed over the
    gallery. The released code also computes a moving average of the second loss, which it does not use.
    """
    compare = task.comparison()
    for batch in batches:
        with task.adapting():
            prepared = task.on_device(batch)
            for _ in range(task.steps):
                logits = _step(task, prepared, compare)
        yield task.finish(logits)


def _step(task: Task, batch: Batch, compare: Comparison) -> Tensor:
    import torch

    from perturbations.tta.losses import entropy, entropy_terms, fraction

    features = task.encode(batch)
    with task.recording.part("adapt"):
        logits = compare(features) / task.temperature
        entropies = entropy(logits)
        threshold = entropies.detach().kthvalue(fraction(task.values["certain"], len(entropies))).values
        certain = entropies <= threshold
        if not task.backward(entropies[certain].mean() if certain.any() else None):
            return logits.detach()
        with torch.no_grad():
            weights = [parameter.clone() for parameter in task.parameters]
            gradients = [torch.zeros_like(it) if it.grad is None else it.grad for it in task.parameters]
            length = torch.stack([gradient.norm() for gradient in gradients]).norm()
            for parameter, gradient in zip(task.parameters, gradients, strict=True):
                parameter.add_(gradient * (task.values["rho"] / (length + 1e-12)))
        worst = task.encode(batch)
        terms = entropy_terms(compare(worst)[certain] / task.temperature)
        kept = terms[terms < threshold]
        usable = task.backward(kept.mean() if len(kept) else None)
        with torch.no_grad():
            for parameter, weight in zip(task.parameters, weights, strict=True):
                parameter.copy_(weight)
        if usable:
            task.update()
    return logits.detach()


METHOD = Method(
    name="sar",
    title="SAR",
    paper="Niu et al., ICLR 2023",
    place=30,
    run=_sar,
    minimizes="entropy of the 40 % most certain, at a flat place",
    gives="cosines / tau",
    rates={"v2t": 3e-5, "t2v": 3e-5},
    own=(
        Parameter("certain", SHARE, 0.4, "share of a batch that counts as certain", "released code"),
        Parameter(
            "rho", Range(0, 1e6), 0.05, "radius in which the worst weights are looked for", "Niu et al., Sec. 4.1"
        ),
    ),
)
