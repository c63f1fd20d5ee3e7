"""How a job starts and ends: what it leaves out of what libraries and Python do, because most jobs are short."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_USUAL, _SELDOM = 700, 20_000
"""Objects that are made before Python looks for garbage among the youngest."""


_ended_with: list[int] = []


def collect_seldom() -> None:
    """Let Python look for garbage less often, and not when it ends: a start makes objects that stay.

    Looking at all of them takes a fifth of the CPU time of a short job.
    """
    gc.set_threshold(_SELDOM)
    atexit.register(end)  # the first that is registered is the last that is called


def end_with(status: int) -> None:
    """Let this process end with a status as soon as all that waits for its end has been called."""
    _ended_with[:] = [status]


def end() -> None:
    """End the process without taking apart what it imported, where its status is known."""
    gc.freeze()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # Python says what is wrong
        return
    for status in _ended_with:
        os._exit(status)


def collect_as_usual() -> None:
    """Let Python look for garbage as often as it does itself: where a clip's frames or tensors may be among it.

    Not among what is there already, which stays: a forked process would copy all of it by looking.
    """
    gc.freeze()
    gc.set_threshold(_USUAL)


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
_KEPT_BYTES = 256 * 2**20
_LARGEST_BYTES = 32 * 2**20  # more is refused


def keep_memory() -> None:
    """Let this process keep the memory of frames that it frees, for the next frames: glibc's alone.

    glibc returns it to the system, which clears it for each frame: that may take longer than a kernel.
    """
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BYTES)


def leave_out_pandas() -> None:
    """Let pyarrow make arrays without importing pandas, which takes 0.2 CPU s of each process.

    It imports pandas with its first array, to recognize a Series. Told that there is none, it looks again as soon as
    `to_pandas` is called. Only for processes that never give it a Series: there it would no longer take NaN for null.
    """
    if "pandas" in sys.modules:
        return
    absent = _NoPandas()
    sys.meta_path.insert(0, absent)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(absent)


class _NoPandas:
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)
        return None
