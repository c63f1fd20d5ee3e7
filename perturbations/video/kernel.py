"""What a pixel kernel returns for one clip: the change of a frame, or of a batch of frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perturbations.arrays import Image

Apply = Callable[[Image, int], Image]
"""(frame, index) -> frame."""


@dataclass(frozen=True)
class Batched:
    """A kernel that changes several frames at once, each as if it were alone.

    Attributes:
        apply: frames B x H x W x 3 -> frames, B up to `size`.
        size: as many frames as memory is meant for.
    """

    apply: Callable[[Image], Image]
    size: int


Kernel = Apply | Batched
