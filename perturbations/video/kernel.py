"""What pixel kernels give for one clip: a function that changes a frame or a batch of frames, and the clip's shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perturbations.base.arrays import Image

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


FrameFunction = Apply | Batched


@dataclass(frozen=True)
class Shape:
    """The perturbed frames of a clip.

    Attributes:
        height, width: of every perturbed frame, in pixels.
        kept: the positions of the frames that are not lost, ascending; None where no frame can be lost.
    """

    height: int
    width: int
    kept: tuple[int, ...] | None = None


def draw_unit(rng: np.random.Generator, num_frames: int, height: int, width: int) -> float:
    """A number, uniform in [0, 1), for kernels in which nothing else is random."""
    return float(rng.random())
