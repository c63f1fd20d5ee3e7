"""How far a job is: one log line now and then, with rate and estimate."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")

log = logging.getLogger("perturbations")

_EVERY_S = 5.0


def logged(things: Iterable[T], total: int, unit: str) -> Iterator[T]:
    """Pass things on and log items done, rate and time left, at most every few seconds and at the end."""
    start = spoken = time.monotonic()
    for done, thing in enumerate(things, start=1):
        now = time.monotonic()
        if done == total or now - spoken >= _EVERY_S:
            # tqdm's text without its bar: a log file is read line by line.
            log.info(tqdm.format_meter(done, total, now - start, unit=f" {unit}", ncols=0).strip())
            spoken = now
        yield thing
