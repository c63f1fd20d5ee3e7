"""What a run of `adapt` did: counted steps, and milliseconds per query."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

_PARTS = ("encode", "adapt", "rerank")
"""Forward passes of the query encoder; losses, backward passes and optimizer; similarities and re-ranking."""

_Mark = float | torch.cuda.Event
"""A moment: seconds, or a point in the work of a GPU."""


_Span = tuple[str, _Mark, _Mark, str | None]
"""A part's name, its start and end, and the part around it, for which that time does not count."""


Unadapted = dict[tuple[int, int], tuple[torch.Tensor, list[_Span]]]
"""Features of the queries by the model as it is, which all methods without adaptation share.

By seed and the batch's number: the features, and the time that they took, which counts for every run. Pass one to every
`adapt` of the same model, queries in the same batches, direction and precision.
"""


class Recording:
    """The steps of a run, and milliseconds per query of each part, batch by batch; pass an instance to `adapt`.

    On a GPU, points in its own work are recorded, and read at the end: the program does not wait for it. Elsewhere it
    is wall time.

    Attributes:
        counts: the steps by what became of them. `updates`: the optimizer changed the weights; `empty`: no query of the
            batch passed the method's filter; `non_finite`: the loss or a gradient was infinite or NaN.
    """

    def __init__(self) -> None:
        self.start(torch.device("cpu"))

    def start(self, device: torch.device) -> None:
        """Begin a run on this device."""
        self.counts = dict.fromkeys(("updates", "empty", "non_finite"), 0)
        self._device = device
        self._open: list[str] = []
        self._spans: list[_Span] = []
        self._batches: list[tuple[list[_Span], int]] = []
        self._of_all: tuple[list[_Span], int] = [], 1
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time inside, minus the time of nested parts, for the part `name`."""
        around = self._open[-1] if self._open else None
        self._open.append(name)
        started = self._mark()
        try:
            yield
        finally:
            self._open.pop()
            self._spans.append((name, started, self._mark(), around))

    @contextmanager
    def kept(self) -> Iterator[list[_Span]]:
        """The list that it gives holds, afterwards, the time that was counted inside."""
        before = len(self._spans)
        spent: list[_Span] = []
        yield spent
        spent += self._spans[before:]

    def again(self, spent: Sequence[_Span]) -> None:
        """Count time that was spent in an earlier run."""
        self._spans += spent

    def end_batch(self, queries: int) -> None:
        """Count the time since the end of the last batch for this batch."""
        self._batches.append((self._spans, queries))
        self._spans = []

    def share(self, queries: int) -> None:
        """Share the time since the end of the last batch among all batches, which have `queries` queries together."""
        self._of_all, self._spans = (self._spans, queries), []

    @property
    def ms(self) -> dict[str, list[float]]:
        """For each part one number per batch."""
        of_all = _per_query(*self._of_all)
        batches = [_per_query(*own) for own in self._batches]
        return {name: [own[name] + of_all[name] for own in batches] for name in _PARTS}

    def summary(self) -> dict[str, float]:
        """`<part>_ms_p50` and `_p95` per query for each part and their `total`, and `peak_memory_mib`.

        Percentiles are over batches, interpolated. Memory is the device's allocation peak on CUDA and the process's
        largest resident size elsewhere. Empty without a batch.
        """
        if not self._batches:
            return {}
        parts = self.ms
        rows = {**parts, "total": np.sum([*parts.values()], axis=0)}
        points = {name: np.percentile(values, [50, 95]).tolist() for name, values in rows.items()}
        percentiles = {
            f"{name}_ms_{point}": value
            for name, values in points.items()
            for point, value in zip(("p50", "p95"), values, strict=True)
        }
        return {**percentiles, "peak_memory_mib": self._peak_mib()}

    def _mark(self) -> _Mark:
        if self._device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record(torch.cuda.current_stream(self._device))
            return event
        if self._device.type == "mps":
            torch.mps.synchronize()
        return time.perf_counter()

    def _peak_mib(self) -> float:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device) / 2**20
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return largest / (2**20 if sys.platform == "darwin" else 2**10)


def _per_query(spans: Sequence[_Span], queries: int) -> dict[str, float]:
    """Milliseconds per query of each part."""
    spent = dict.fromkeys(_PARTS, 0.0)
    for name, start, end, around in spans:
        elapsed = 1000 * _seconds(start, end) / queries
        spent[name] += elapsed
        if around is not None:
            spent[around] -= elapsed
    return spent


def _seconds(start: _Mark, end: _Mark) -> float:
    if isinstance(start, float) or isinstance(end, float):
        assert isinstance(start, float)
        assert isinstance(end, float)
        return end - start
    end.synchronize()
    milliseconds: float = start.elapsed_time(end)
    return milliseconds / 1000
