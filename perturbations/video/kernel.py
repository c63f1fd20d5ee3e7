"""The result of a pixel kernel for one clip: a function that changes a frame, or a batch of frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perturbations.arrays import Image

Apply = Callable[[Image, int], Image]
"""(frame, index) -> frame."""


@dataclass(frozen=True)
class Batched:
    """A kernel that changes a batch of frames, each independently of the others.

    Attributes:
        apply: frames B x H x W x 3 -> frames, B up to `size`.
        size: the largest batch for the memory of a job.
    """

    apply: Callable[[Image], Image]
    size: int


Kernel = Apply | Batched
