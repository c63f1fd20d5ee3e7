"""Counts and timings of a run."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

_PARTS = ("encode", "adapt", "rerank")
"""Forward passes of the query encoder; losses, backward passes and optimizer; similarities and re-ranking."""


@dataclass
class Counts:
    """Steps of a run.

    Attributes:
        updates: the optimizer changed the weights.
        empty: no query of the batch passed the method's filter, the step was skipped.
        non_finite: the loss or a gradient was infinite or NaN, the step was skipped.
    """

    updates: int = 0
    empty: int = 0
    non_finite: int = 0


_Mark = float | torch.cuda.Event
"""A moment: seconds, or a point in the work of a GPU."""


_Span = tuple[str, _Mark, _Mark, str | None]
"""A part's name, its start and end, and the part around it, for which that time does not count."""


Unadapted = dict[tuple[int, int], tuple[torch.Tensor, list[_Span]]]
"""Features of the queries by the model as it is, which all methods without adaptation share.

By seed and the batch's number: the features, and the time that they took, which counts for every run. Pass one to every
`adapt` of the same model, queries in the same batches, direction and precision.
"""


@dataclass
class Timings:
    """Milliseconds per query of each part, batch by batch; pass an instance to `adapt`.

    On a GPU, points in its own work are recorded, and read one batch later: the program does not wait for it. Elsewhere
    it is wall time.
    """

    _device: torch.device = field(default_factory=lambda: torch.device("cpu"), repr=False)
    _open: list[str] = field(default_factory=list, repr=False)
    _spans: list[_Span] = field(default_factory=list, repr=False)
    _waiting: tuple[list[_Span], int] | None = field(default=None, repr=False)
    _ms: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _PARTS}, repr=False)

    @property
    def ms(self) -> dict[str, list[float]]:
        """For each part one number per batch."""
        self._read()
        return self._ms

    def start(self, device: torch.device) -> None:
        """Begin a run on this device."""
        self._device = device
        self._spans, self._waiting = [], None
        self._ms = {name: [] for name in self._ms}
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time inside, less the time of nested parts, for the part `name`."""
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
        self._read()
        self._waiting, self._spans = (self._spans, queries), []

    def share(self, queries: int) -> None:
        """Share the time since the end of the last batch among all batches, which have `queries` queries together."""
        self._read()
        spent, self._spans = self._per_query(self._spans, queries), []
        self._ms = {name: [of_batch + spent[name] for of_batch in values] for name, values in self._ms.items()}

    def summary(self) -> dict[str, float]:
        """`<part>_ms_p50` and `_p95` per query for each part and their `total`, and `peak_memory_mib`.

        Percentiles are over batches, interpolated. Memory is the device's allocation peak on CUDA and the process's
        largest resident size elsewhere. Empty without a batch.
        """
        parts = self.ms
        if not parts["encode"]:
            return {}
        rows = {**parts, "total": [sum(of_batch) for of_batch in zip(*parts.values(), strict=True)]}
        points = torch.tensor([0.5, 0.95], dtype=torch.float64)
        percentiles: dict[str, float] = {}
        for name, values in rows.items():
            p50, p95 = torch.tensor(values, dtype=torch.float64).quantile(points).tolist()
            percentiles |= {f"{name}_ms_p50": p50, f"{name}_ms_p95": p95}
        return {**percentiles, "peak_memory_mib": self._peak_mib()}

    def _read(self) -> None:
        """Read the marks of the last batch that ended, after the device has passed them."""
        if self._waiting is None:
            return
        spans, queries = self._waiting
        self._waiting = None
        for name, value in self._per_query(spans, queries).items():
            self._ms[name].append(value)

    def _per_query(self, spans: Sequence[_Span], queries: int) -> dict[str, float]:
        """Milliseconds per query of each name."""
        spent = dict.fromkeys(self._ms, 0.0)
        for name, start, end, around in spans:
            elapsed = 1000 * _seconds(start, end) / queries
            spent[name] += elapsed
            if around is not None:
                spent[around] -= elapsed
        return spent

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


def _seconds(start: _Mark, end: _Mark) -> float:
    if isinstance(start, float) or isinstance(end, float):
        assert isinstance(start, float)
        assert isinstance(end, float)
        return end - start
    end.synchronize()
    milliseconds: float = start.elapsed_time(end)
    return milliseconds / 1000
