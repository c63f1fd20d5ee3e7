"""What a job writes into its log: how far it is, and its error; and signs of life for the supervisor."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from perturbations.base import shown

_T = TypeVar("_T")
Tick = Callable[[], None]

_log = logging.getLogger("perturbations")

_EVERY_S = 5.0
_TAIL = 64 * 1024

_ERROR = "perturb: "
_RAISED = re.compile(r"[A-Za-z_.]*(Error|Exception|Interrupt)(: |$)")
"""The last line of a traceback."""


def error_line(error: object) -> str:
    """The line with which a command ends that has failed."""
    return _ERROR + shown.lines(str(error))


def error_of(log: Path) -> str | None:
    """The error with which a job ended, its own or that of a library, by its log; None where it holds none."""
    lines = last_lines(log)
    if errors := [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]:
        return errors[-1]
    return lines[-1] if lines and _RAISED.match(lines[-1]) else None


def last_line(log: Path) -> str:
    """The last line of a log, also while its job writes it; an empty text where there is none."""
    return "".join(last_lines(log)[-1:])


def last_lines(log: Path) -> list[str]:
    """The lines at the end of a log that are not empty; none where it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return []


def log_kept(kept: int, total: int) -> None:
    """Log how many items of a job were finished before."""
    if kept:
        _log.info("%d of %d were finished before and are kept", kept, total)


def counted(total: int, unit: str) -> Callable[[], None]:
    """What is called when one more of `total` items is done: it logs how many are, and the time left.

    It does so at most every few seconds, and at the end of what took that long.
    """
    start = last_log = time.monotonic()
    done = 0

    def count() -> None:
        nonlocal done, last_log
        done += 1
        now = time.monotonic()
        if now - last_log >= _EVERY_S or (done == total and last_log > start):
            took, left = (shown.duration(seconds) for seconds in (now - start, (now - start) * (total - done) / done))
            _log.info("%d of %d %s in %s, %s left", done, total, unit, took, left)
            last_log = now

    return count


def logged(items: Iterable[_T], total: int, unit: str) -> Iterator[_T]:
    """Pass items on, `counted`."""
    count = counted(total, unit)
    for item in items:
        count()
        yield item


def no_tick() -> None:
    """For callers that nobody watches."""


def ticking(items: Iterable[_T], tick: Tick) -> Iterator[_T]:
    """Pass items on and tell the supervisor of each."""
    for item in items:
        tick()
        yield item


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
