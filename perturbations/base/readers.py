"""The names of the libraries that decode clips when they are opened, for options and keys. Standard library only."""

from __future__ import annotations

from typing import Literal, get_args

Reader = Literal["pyav", "decord", "torchcodec"]
"""What decodes the files of clips that are opened. All give the same frames."""

READERS: tuple[Reader, ...] = get_args(Reader)

NEEDS: dict[str, str] = {
    "decord": "pip install 'decord>=0.6,<0.7'",
    "torchcodec": "pip install 'torchcodec>=0.13', of the version that fits torch, and apt-get install ffmpeg",
}
"""What brings the libraries that the package does not install itself, and what those need."""
