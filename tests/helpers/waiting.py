"""Waits for what other processes do."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

import psutil

PATIENCE_S = 60.0
"""How long a test lets a worker be silent."""


def wait_for(condition: Callable[[], bool], limit_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        pause(0.01)


def pause(seconds: float) -> None:
    select.select([], [], [], seconds)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
