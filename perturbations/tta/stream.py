"""A method that keeps what it learned from one scenario to the next: the continual setting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from torch import Tensor

from perturbations.tta.inputs import Batch


class Stream:
    """One run of `adapt` over the queries of several scenarios, one scenario after the other.

    Weights, the optimizer's moments, and the memories of the method stay as they are in between.
    """

    def __init__(self, run: Callable[[Iterator[Batch]], Iterator[Tensor]]) -> None:
        """Start `run`, which yields one tensor per batch before it takes the next, as every method that learns does."""
        self._given: deque[Batch] = deque()
        self._results = run(self._coming())

    def _coming(self) -> Iterator[Batch]:
        while self._given:
            yield self._given.popleft()

    def ask(self, batches: Iterable[Batch]) -> Iterator[Tensor]:
        """The similarities of a scenario's batches."""
        for batch in batches:
            self._given.append(batch)
            yield next(self._results)
