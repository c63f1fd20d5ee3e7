"""How far a job is: the lines of its log that say so, written and read; and signs of life for the supervisor."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from perturbations.base import shown

_T = TypeVar("_T")
Tick = Callable[[], None]

_log = logging.getLogger("perturbations")

_EVERY_S = 5.0
_TAIL = 64 * 1024

_DONE = re.compile(r"(\d+)/\d+ \[(?:(\d+):)?(\d+):(\d+)<")  # of `_meter`
_KEPT = "%d of %d were finished before and are kept"
_KEPT_LINE = re.compile(_KEPT.replace("%d", r"(\d+)"))
_ERROR = "perturb: "


class JobLog(NamedTuple):
    """What a job's log says: the items that it passed, those of them that were finished before, its seconds, and why
    it failed: its error, which `has_error` tells from its last line.
    """

    done: int
    kept: int
    seconds: int
    reason: str
    has_error: bool


def read(path: Path) -> JobLog:
    """What the end of a log says, also while its job writes it; a log that cannot be read says nothing."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            text = file.read().decode(errors="replace")
    except OSError:
        text = ""
    *_, (done, hours, minutes, seconds) = [("0",) * 4, *_DONE.findall(text)]
    *_, (kept, _) = [("0", "0"), *_KEPT_LINE.findall(text)]
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    reason = (errors or lines or ["no line in its log"])[-1]
    return JobLog(int(done), int(kept), 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds), reason, bool(errors))


def error_line(error: object) -> str:
    """The line with which a command ends that has failed."""
    return _ERROR + shown.lines(str(error))


def log_kept(kept: int, total: int) -> None:
    """Log how many items of a job were finished before."""
    if kept:
        _log.info(_KEPT, kept, total)


def logged(things: Iterable[_T], total: int, unit: str) -> Iterator[_T]:
    """Pass things on and log items done, rate and time left, at most every few seconds and at the end."""
    start = last_log = time.monotonic()
    for done, thing in enumerate(things, start=1):
        now = time.monotonic()
        if done == total or now - last_log >= _EVERY_S:
            _log.info(_meter(done, total, now - start, unit))
            last_log = now
        yield thing


def _meter(done: int, total: int, seconds: float, unit: str) -> str:
    """tqdm's text without its bar: a log file is read line by line. Loading tqdm takes longer than a short job may."""
    rate = done / max(seconds, 1e-9)
    pace = f"{rate:.2f} {unit}/s" if rate >= 1 else f"{1 / rate:.2f} s/ {unit}"
    return f"{done / total:.0%} {done}/{total} [{_clock(seconds)}<{_clock((total - done) / rate)}, {pace}]"


def _clock(seconds: float) -> str:
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes:02d}:{left:02d}"


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
