"""No adaptation: the model as it is."""

from __future__ import annotations

from perturbations.tta.methods.method_registry import Batches, BatchScores, Method, Task


def _none(task: Task, batches: Batches) -> BatchScores:
    """Cosine similarities."""
    compare = task.comparison()
    for batch in batches:
        yield task.finish(task.score(batch, compare))


METHOD = Method(
    name="none",
    title="no adaptation",
    paper="the model as it is",
    place=0,
    run=_none,
    minimizes="nothing",
    gives="cosines",
    is_baseline=True,
)
