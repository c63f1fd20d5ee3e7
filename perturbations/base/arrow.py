"""How pyarrow starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


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
