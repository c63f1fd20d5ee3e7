"""No adaptation: the model as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

from perturbations.tta.task import Task


def none(task: Task, batches: Iterable[Any]) -> Iterator[Tensor]:
    """Cosine similarities."""
    compare = task.comparison()
    for batch in batches:
        yield task.finish(task.score(batch, compare))
