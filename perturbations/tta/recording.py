"""Counts and timings of a run."""

from __future__ import annotations

import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

PARTS = ("encode", "adapt", "rerank")
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


@dataclass
class Unadapted:
    """Features of the queries by the model as it is, which all methods without adaptation share.

    Pass one instance to every `adapt` of the same model, queries in the same batches, direction and precision.

    Attributes:
        kept: by seed and the batch's number: the features, and the seconds that they took, which count for every run.
    """

    kept: dict[tuple[int, int], tuple[torch.Tensor, float]] = field(default_factory=dict)


@dataclass
class Timings:
    """Milliseconds per query of each part, batch by batch; pass an instance to `adapt`.

    Attributes:
        ms: for each of PARTS, one number per batch. Wall time, after the device has finished its work.
    """

    ms: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in PARTS})
    _device: torch.device = field(default_factory=lambda: torch.device("cpu"), repr=False)
    _spent: dict[str, float] = field(default_factory=lambda: defaultdict(float), repr=False)
    _open: list[list[float]] = field(default_factory=list, repr=False)

    def start(self, device: torch.device) -> None:
        """Begin a run on this device."""
        self._device = device
        self._spent.clear()
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time inside, less the time of nested parts, for the part `name`."""
        inner = [0.0]
        self._open.append(inner)
        started = self._now()
        try:
            yield
        finally:
            elapsed = self._now() - started
            self._open.pop()
            self._spent[name] += elapsed - inner[0]
            if self._open:
                self._open[-1][0] += elapsed

    def spent(self, name: str) -> float:
        """Seconds counted for the part `name` since the end of the last batch."""
        return self._spent[name]

    def add(self, name: str, seconds: float) -> None:
        """Count time for the part `name` that was spent in an earlier run."""
        self._spent[name] += seconds

    def end_batch(self, queries: int) -> None:
        """Count the time since the end of the last batch for this batch."""
        for name in PARTS:
            self.ms[name].append(1000 * self._spent.pop(name, 0.0) / queries)

    def share(self, queries: int) -> None:
        """Share the time since the end of the last batch among all batches, which have `queries` queries together."""
        for name in PARTS:
            spent = 1000 * self._spent.pop(name, 0.0) / queries
            self.ms[name] = [of_batch + spent for of_batch in self.ms[name]]

    def summary(self) -> dict[str, float]:
        """`<part>_ms_p50` and `_p95` per query for each part and their `total`, and `peak_memory_mib`.

        Percentiles are over batches, interpolated. Memory is the device's allocation peak on CUDA and the process's
        largest resident size elsewhere. Empty without a batch.
        """
        if not self.ms["encode"]:
            return {}
        rows = {**self.ms, "total": [sum(parts) for parts in zip(*self.ms.values(), strict=True)]}
        points = torch.tensor([0.5, 0.95], dtype=torch.float64)
        percentiles: dict[str, float] = {}
        for name, values in rows.items():
            p50, p95 = torch.tensor(values, dtype=torch.float64).quantile(points).tolist()
            percentiles |= {f"{name}_ms_p50": p50, f"{name}_ms_p95": p95}
        return {**percentiles, "peak_memory_mib": self._peak_mib()}

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        elif self._device.type == "mps":
            torch.mps.synchronize()
        return time.perf_counter()

    def _peak_mib(self) -> float:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device) / 2**20
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return largest / (2**20 if sys.platform == "darwin" else 2**10)
