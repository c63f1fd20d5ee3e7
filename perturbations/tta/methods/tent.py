"""TENT (Wang et al., ICLR 2021): minimize the entropy of predictions; HAT-VTR, Eq. 3 and 4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

from perturbations.tta.losses import entropy
from perturbations.tta.task import Task


def tent(task: Task, batches: Iterable[Any]) -> Iterator[Tensor]:
    """Mean entropy of softmax(similarities / tau) over the gallery."""
    compare = task.comparison()

    def objective(features: Tensor, step: int) -> tuple[Tensor, Tensor]:
        logits = compare(features) / task.temperature
        return logits, entropy(logits).mean()

    for batch in batches:
        yield task.finish(task.minimize(batch, objective))
