"""Time and memory of re-ranking a batch of 16 by the hubness memory, streaming and direct.

    python benchmarks/hsm.py [--items 1000 10000 100000] [--history 100] [--limit-gib 4]

One thread, float32, random similarities. The direct form keeps the history's matrices and takes the softmax over all of
their rows (HAT-VTR, Eq. 5 and 6). `kept` is what each form keeps between batches. A batch appends and re-ranks four
times (three steps and the final scores), the history full: the oldest batch leaves. The direct form is skipped where
what it keeps and its three temporary matrices exceed the limit or what is free. `apart` is the largest difference of
the final scores, relative to the largest score.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable

import psutil
import torch

from perturbations.tta.hsm import HubnessMemory, Weighting

BATCH, REPEATS = 16, 3


def direct(history: deque[torch.Tensor], current: torch.Tensor) -> torch.Tensor:
    whole = torch.cat([*history, current])
    by = Weighting()
    weights = by.m * torch.softmax(by.alpha * whole, 0) + (1 - by.m) * torch.softmax(by.beta * whole, 1)
    return (whole * weights)[-len(current) :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--history", type=int, default=100)
    parser.add_argument("--limit-gib", type=float, default=4)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| items | batches kept | form | cpu ms per batch | ms per query | kept MiB | apart |")
    print("|---|---|---|---|---|---|---|")
    for items in options.items:
        generator = torch.Generator().manual_seed(0)
        matrix_mib = 4 * BATCH * items / 2**20
        needed = 4 * options.history * matrix_mib
        free = min(options.limit_gib * 2**10, psutil.virtual_memory().available / 2**20)
        memory = HubnessMemory(options.history)
        history: deque[torch.Tensor] | None = deque(maxlen=options.history) if needed < free else None
        for _ in range(options.history + 5):
            past = torch.rand(BATCH, items, generator=generator)
            memory.append(past)
            if history is not None:
                history.append(past)
        current = torch.rand(BATCH, items, generator=generator)

        def stream(memory: HubnessMemory = memory, current: torch.Tensor = current) -> torch.Tensor:
            for _ in range(4):
                scores = memory.rescore(current)
            memory.append(current)
            return scores

        def whole(history: deque[torch.Tensor] | None = history, current: torch.Tensor = current) -> torch.Tensor:
            assert history is not None
            for _ in range(4):
                scores = direct(history, current)
            history.append(current)
            return scores

        kept = options.history * 4 * items / 2**20
        row = f"| {items:,} | {options.history}"
        first = stream()
        cpu = best_ms(stream)
        print(f"{row} | streaming | {cpu:.2f} | {cpu / BATCH:.3f} | {2 * kept:.1f} | |", flush=True)
        if history is None:
            print(f"{row} | direct | skipped: {needed / 1024:.1f} GiB | | {BATCH * kept:.1f} | |")
            continue
        other = whole()
        apart = float((first - other).abs().max() / other.abs().max())
        cpu = best_ms(whole)
        print(f"{row} | direct | {cpu:.2f} | {cpu / BATCH:.3f} | {BATCH * kept:.1f} | {apart:.1e} |", flush=True)


def best_ms(work: Callable[[], torch.Tensor]) -> float:
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return 1000 * min(times)


if __name__ == "__main__":
    main()
