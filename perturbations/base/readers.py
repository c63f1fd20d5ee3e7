"""The libraries that decode clips when they are opened. Standard library only: jobs' arguments name them."""

from __future__ import annotations

from typing import Literal, get_args

Reader = Literal["pyav", "decord"]
"""What decodes the files of clips that are opened. Both give the same frames."""

READERS: tuple[Reader, ...] = get_args(Reader)
