"""What a detector finds in a frame."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Detection(NamedTuple):
    """One object that a detector found in one frame.

    Attributes:
        box: (x0, y0, x1, y1) in pixels of the frame, 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height.
        score: confidence in [0, 1].
        label: the query that it matches; empty for a detector that needs no words.
        embedding: L2-normalized float32 vector of the box's content, for tracking.
    """

    box: tuple[float, float, float, float]
    score: float
    label: str
    embedding: npt.NDArray[np.float32]
