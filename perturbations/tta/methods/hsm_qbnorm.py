"""HSM + QB-Norm (HAT-VTR, Tab. 14): HSM's weights on the scores of QB-Norm, without any training."""

from __future__ import annotations

from dataclasses import replace

from perturbations.tta.methods import qbnorm
from perturbations.tta.methods.method_registry import HSM, Batches, BatchScores, Method, Task, Tensor


def _hsm_qbnorm(task: Task, batches: Batches) -> BatchScores:
    """Eq. 6 of HAT-VTR with QB-Norm's scores in the place of similarities, which still give the weights.

    The paper does not say how the two are combined. Similarities are those of the model as it is, and the first batch,
    which has no history, has QB-Norm's scores.
    """
    import torch

    from perturbations.tta.memories import memory_of
    from perturbations.tta.rescoring import activated, batch_by_batch, log_mass, nearest, of_bank

    compare, values = task.comparison(), task.values
    history = memory_of(values)
    beta = values["bank_beta"]
    mass = log_mass(of_bank(task, compare), beta)
    hubs = nearest(of_bank(task, compare), values["bank_k"]) if values["dynamic"] else None

    def rescore(similarities: Tensor) -> Tensor:
        # Only the ratios within a row count. Minus the mean, no number leaves float32.
        scores = torch.exp(beta * similarities - (mass - mass.mean()))
        scores = scores if hubs is None else activated(similarities, scores, hubs)
        weighted = history.rescore(similarities, scores) if len(history) else scores
        history.append(similarities)
        return weighted

    yield from batch_by_batch(task, batches, compare, rescore)


METHOD = Method(
    name="hsm_qbnorm",
    title="HSM + QB-Norm",
    paper="HAT-VTR, Tab. 14",
    place=85,
    run=_hsm_qbnorm,
    minimizes="nothing: HSM's weights on QB-Norm's scores over `bank=`, training queries",
    gives="weighted scores",
    by_default=False,
    needs_bank=True,
    own=(
        *HSM,
        *(
            replace(parameter, name=parameter.name if parameter.name == "dynamic" else f"bank_{parameter.name}")
            for parameter in qbnorm.METHOD.own
        ),
    ),
)
