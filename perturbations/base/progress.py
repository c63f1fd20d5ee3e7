"""How far a job is: one log line now and then, with rate and estimate; and signs of life for the supervisor."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_T = TypeVar("_T")
Tick = Callable[[], None]

_log = logging.getLogger("perturbations")

_EVERY_S = 5.0


def logged(things: Iterable[_T], total: int, unit: str) -> Iterator[_T]:
    """Pass things on and log items done, rate and time left, at most every few seconds and at the end."""
    from tqdm import tqdm  # not at the top: Snakemake alone plans

    start = last_log = time.monotonic()
    for done, thing in enumerate(things, start=1):
        now = time.monotonic()
        if done == total or now - last_log >= _EVERY_S:
            # tqdm's text without its bar: a log file is read line by line.
            _log.info(tqdm.format_meter(done, total, now - start, unit=f" {unit}", ncols=0).strip())
            last_log = now
        yield thing


def no_tick() -> None:
    """For callers that nobody watches."""


def ticking(things: Iterable[_T], tick: Tick) -> Iterator[_T]:
    """Pass things on and tell the supervisor of each."""
    for thing in things:
        tick()
        yield thing


@contextmanager
def ticking_on(tick: Tick) -> Iterator[None]:
    """Tick every few seconds while a model loads and runs: that may take minutes without any other sign of life."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(_EVERY_S):
            tick()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
