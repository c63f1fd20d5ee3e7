"""A fixed descriptor of a clip's look, colours and their places: the `offline` clip embedding."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from perturbations.base.arrays import Image

_SIDE, _GRID, _LEVELS = 64, 8, 6


def describe(frames: Sequence[Image]) -> npt.NDArray[np.float32]:
    """One vector of length 1 for a clip: float32, 408 numbers.

    The first part is the mean colour on an 8 x 8 grid, minus the middle grey. The second part is the square roots of
    the shares of 6 x 6 x 6 colours, minus their mean, so that the similarity of unlike clips is near 0 and not near 1.
    Nothing is learned from data.

    Args:
        frames: a few of the clip's frames: uint8 RGB, height x width x 3. MLVP takes 12.

    Raises:
        ValueError: there is no frame.
    """
    if not len(frames):
        raise ValueError("a clip without frames cannot be described")
    small = np.array([cv2.resize(frame, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA) for frame in frames], np.uint8)
    cell = _SIDE // _GRID
    means = small.reshape(len(small), _GRID, cell, _GRID, cell, 3).mean(axis=(0, 2, 4), dtype=np.float64)
    vector = np.concatenate([_unit(means.ravel() / 127.5 - 1, at_least=2.0), _unit(_histogram(small))])
    return _unit(vector).astype(np.float32)


def _histogram(frames: Image) -> npt.NDArray[np.float64]:
    """Square roots of the shares of colours; a pixel is split between the two nearest levels of each channel.

    So a slight change of light changes little.
    """
    places = np.arange(256) * (_LEVELS - 1) / 255
    below = np.minimum(places.astype(np.int64), _LEVELS - 2)
    above = places - below
    shares = np.zeros((_LEVELS,) * 3)
    red, green, blue = (frames[..., channel].ravel() for channel in range(3))
    for r, g, b in np.ndindex(2, 2, 2):
        part = [above if upper else 1 - above for upper in (r, g, b)]
        bins = ((below + r)[red] * _LEVELS + (below + g)[green]) * _LEVELS + (below + b)[blue]
        counts = np.bincount(bins, part[0][red] * part[1][green] * part[2][blue], minlength=_LEVELS**3)
        shares += counts.reshape(shares.shape)
    root = np.sqrt(shares.ravel() / len(red))
    return np.asarray(root - root.mean())


def _unit(vector: npt.NDArray[np.float64], at_least: float = 1e-9) -> npt.NDArray[np.float64]:
    """The vector divided by its length, or by `at_least` where it is shorter: flat grey clips hold a coder's noise."""
    return vector / max(float(np.sqrt(np.square(vector).sum())), at_least)
