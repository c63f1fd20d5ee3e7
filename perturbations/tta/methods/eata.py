"""EATA (Niu et al., ICML 2022): entropy of queries that are certain and unlike those seen before; no Fisher term."""

from __future__ import annotations

from perturbations.base.bounds import SHARE, Range
from perturbations.tta.methods.method_registry import Batches, BatchScores, Method, Parameter, Task, Tensor


def _eata(task: Task, batches: Batches) -> BatchScores:
    """Entropy weighted by 1/exp(entropy - largest), over the queries that pass both filters.

    If no query is certain, the 25 % most certain pass; if all are alike, the 10 % most certain pass.
    """
    from torch.nn.functional import cosine_similarity

    from perturbations.tta.losses import entropy, fraction

    compare = task.comparison()
    largest, alike_from, momentum = (task.values[name] for name in ("largest_entropy", "alike", "momentum"))
    mean_prediction: Tensor | None = None

    def objective(features: Tensor, step: int) -> tuple[Tensor, Tensor]:
        nonlocal mean_prediction
        logits = compare(features) / task.temperature
        entropies = entropy(logits)
        kept = (entropies < largest).nonzero().flatten()
        if not len(kept):
            kept = entropies.topk(fraction(0.25, len(entropies)), largest=False).indices
        predictions = logits.detach().softmax(-1)
        if mean_prediction is not None:
            alike = cosine_similarity(mean_prediction[None], predictions[kept]).abs()
            unlike = kept[alike < alike_from]
            if not len(unlike):
                unlike = entropies.topk(fraction(0.1, len(entropies)), largest=False).indices
            kept = unlike
        new = predictions[kept].mean(0)
        if bool(new.isfinite().all()):
            mean_prediction = new if mean_prediction is None else momentum * mean_prediction + (1 - momentum) * new
        chosen = entropies[kept]
        return logits, (chosen / (chosen.detach() - largest).exp()).mean()

    for batch in batches:
        yield task.finish(task.minimize(batch, objective))


METHOD = Method(
    name="eata",
    title="EATA",
    paper="Niu et al., ICML 2022",
    place=40,
    run=_eata,
    minimizes="entropy of certain queries unlike earlier ones",
    gives="cosines / tau",
    rates={"v2t": 3e-4, "t2v": 3e-4},
    own=(
        Parameter(
            "largest_entropy", Range(0, 1e6), 0.4, "queries with less entropy, in nats, are certain", "released code"
        ),
        Parameter(
            "alike", SHARE, 0.05, "|cosine| with the mean prediction from which a query is left out", "released code"
        ),
        Parameter("momentum", SHARE, 0.9, "weight of the past in the mean prediction", "released code"),
    ),
)
