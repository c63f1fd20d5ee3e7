"""EATA (Niu et al., ICML 2022): entropy of queries that are certain and unlike those seen before; no Fisher term."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from perturbations.tta.methods.registry import Method, Rates

if TYPE_CHECKING:
    from torch import Tensor

    from perturbations.tta.inputs import Batch
    from perturbations.tta.task import Task


LARGEST_ENTROPY = 0.4
ALIKE = 0.05  # |cosine| with the mean prediction
MOMENTUM = 0.9


def eata(task: Task, batches: Iterable[Batch]) -> Iterator[Tensor]:
    """Entropy weighted by 1/exp(entropy - 0.4), over the queries that pass both filters.

    If no query is certain, the 25 % most certain pass; if all are alike, the 10 % most certain pass.
    """
    from torch.nn.functional import cosine_similarity

    from perturbations.tta.losses import entropy, fraction

    compare = task.comparison()
    mean_prediction: Tensor | None = None

    def objective(features: Tensor, step: int) -> tuple[Tensor, Tensor]:
        nonlocal mean_prediction
        logits = compare(features) / task.temperature
        entropies = entropy(logits)
        kept = (entropies < LARGEST_ENTROPY).nonzero().flatten()
        if not len(kept):
            kept = entropies.topk(fraction(0.25, len(entropies)), largest=False).indices
        predictions = logits.detach().softmax(-1)
        if mean_prediction is not None:
            alike = cosine_similarity(mean_prediction[None], predictions[kept]).abs()
            unlike = kept[alike < ALIKE]
            if not len(unlike):
                unlike = entropies.topk(fraction(0.1, len(entropies)), largest=False).indices
            kept = unlike
        new = predictions[kept].mean(0)
        if bool(new.isfinite().all()):
            mean_prediction = new if mean_prediction is None else MOMENTUM * mean_prediction + (1 - MOMENTUM) * new
        chosen = entropies[kept]
        return logits, (chosen / (chosen.detach() - LARGEST_ENTROPY).exp()).mean()

    for batch in batches:
        yield task.finish(task.minimize(batch, objective))


METHOD = Method(
    name="eata",
    title="EATA",
    paper="Niu et al., ICML 2022",
    place=40,
    run=eata,
    minimizes="entropy of certain queries unlike earlier ones",
    gives="cosines / tau",
    rates=Rates(v2t=3e-4, t2v=3e-4),
)
