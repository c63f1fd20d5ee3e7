"""SHOT (Liang et al., ICML 2020), in the form of TCR's comparison: certain for each query, different for all."""

from __future__ import annotations

from perturbations.base.bounds import SHARE, Range
from perturbations.tta.methods.method_registry import Batches, BatchScores, Method, Parameter, Task, Tensor


def _shot(task: Task, batches: Batches) -> BatchScores:
    """Information maximization with pseudo-labels, batch by batch; see `information_loss`."""
    compare = task.comparison()
    threshold, weight = task.values["threshold"], task.values["weight"]

    def objective(features: Tensor, step: int) -> tuple[Tensor, Tensor]:
        logits = compare(features) / task.temperature
        return logits, information_loss(logits, threshold, weight)

    for batch in batches:
        yield task.finish(task.minimize(batch, objective))


def information_loss(logits: Tensor, threshold: float, weight: float) -> Tensor:
    """Mean entropy of predictions, minus the entropy of their mean, plus weight x cross-entropy with pseudo-labels.

    A query whose largest probability is above `threshold` has its nearest item as its pseudo-label; without such a
    query there is no cross-entropy. logits: B x N_G.
    """
    import torch
    from torch.nn.functional import cross_entropy

    from perturbations.tta.losses import entropy

    probabilities = logits.softmax(-1)
    mean = probabilities.mean(0)
    loss = entropy(logits).mean() + (mean * torch.log(mean + 1e-5)).sum()
    certainty, label = probabilities.max(-1)
    certain = certainty > threshold
    return loss + weight * cross_entropy(logits[certain], label[certain]) if bool(certain.any()) else loss


METHOD = Method(
    name="shot",
    title="SHOT",
    paper="Liang et al., ICML 2020",
    place=45,
    run=_shot,
    minimizes="mean entropy - entropy of the mean + cross-entropy with pseudo-labels",
    gives="cosines / tau",
    rates={"v2t": 3e-5, "t2v": 3e-5},
    by_default=False,
    own=(
        Parameter("threshold", SHARE, 0.9, "probability above which a query has a pseudo-label", "TCR's released code"),
        Parameter("weight", Range(0, 1e4), 0.1, "of the cross-entropy with pseudo-labels", "TCR's released code"),
    ),
)
