"""How a job starts: what it leaves out of what libraries and Python do, because most jobs are short."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_USUAL, _SELDOM = 700, 20_000
"""Objects that are made before Python looks for garbage among the youngest."""


def collect_seldom() -> None:
    """Let Python look for garbage less often, and not when it ends: a start makes objects that stay.

    Looking at all of them takes a fifth of the CPU time of a short job.
    """
    gc.set_threshold(_SELDOM)
    atexit.register(gc.freeze)


def collect_as_usual() -> None:
    """Let Python look for garbage as often as it does itself: where a clip's frames or tensors may be among it."""
    gc.set_threshold(_USUAL)


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


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)
        return None
