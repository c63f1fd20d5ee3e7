"""What a hostile file holds."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any


class Pwned:
    """A pickle that leaves a file where it is opened."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {shlex.quote(str(self.mark))}",)
