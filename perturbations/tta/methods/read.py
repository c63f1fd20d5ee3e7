"""READ (Yang et al., ICLR 2024): the confidence-aware loss; as released, without the term that balances classes."""

from __future__ import annotations

from perturbations.tta.methods.method_registry import Batches, BatchScores, Method, Task, Tensor

_LOG_GAMMA = -1.0  # gamma = 1/e


def read(task: Task, batches: Batches) -> BatchScores:
    """Mean of p (1 - log p + log gamma), p a query's largest probability: it raises high p and lowers low p."""
    compare = task.comparison()

    def objective(features: Tensor, step: int) -> tuple[Tensor, Tensor]:
        logits = compare(features) / task.temperature
        log_p = logits.log_softmax(-1).amax(-1)
        return logits, (log_p.exp() * (1 - log_p + _LOG_GAMMA)).mean()

    for batch in batches:
        yield task.finish(task.minimize(batch, objective))


METHOD = Method(
    name="read",
    title="READ",
    paper="Yang et al., ICLR 2024",
    place=20,
    run=read,
    minimizes="confidence-aware loss",
    gives="cosines / tau",
    rates={"v2t": 3e-5, "t2v": 3e-5},
)
