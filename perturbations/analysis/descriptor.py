"""A fixed descriptor of a clip's look: colour, gradients, motion. The `offline` clip embedding."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from perturbations.base.arrays import Image

_Vector = npt.NDArray[np.float32]

_SIDE, _GRID, _ORIENTATIONS, _LEVELS = 64, 4, 8, 6
_WEIGHTS = {"layout": 1.0, "histogram": 1.2, "gradients": 1.0, "motion": 0.5}

# Blocks shorter than this are not scaled up: in a flat or still clip they hold a coder's noise. In scenes that move,
# blocks are longer.
_FAINT = {"layout": 0.5, "gradients": 3.0, "motion": 0.05}

# Grey, red against green, yellow against blue: orthogonal. Sums of whole numbers are exact in any order; the last bits
# of matrix products and of NumPy's arctangent of singles differ between processors. `_SCALES` makes each axis of unit
# length and levels of 1.
_OPPONENT = ((1, 1, 1), (1, -1, 0), (1, 1, -2))
_SCALES = 1 / (255 * np.sqrt([3.0, 2.0, 6.0]))
_MIDDLE_GREY = 3**0.5 / 2

# Gradients of whole numbers often lie exactly between two orientations. This offset moves them into the second.
_TIES_UP = 1e-9


def describe(frames: Sequence[Image]) -> _Vector:
    """One vector of length 1 for a clip: float32, 408 numbers.

    Four blocks, each centred on the value of a featureless clip and scaled to a fixed length, so that the similarity of
    unlike clips is near 0 and not near 1: the layout of opponent colours on a 4 x 4 grid, the histogram of colours, the
    histogram of gradient orientations on the grid, and how much the cells change from each frame to the next. Nothing
    is learned from data. Frames are resized to 64 x 64, so that resolution and aspect ratio hardly matter. Only the
    last block depends on the frames' order, and it is the same for the reversed clip.

    Args:
        frames: a few of the clip's frames, in order: uint8 RGB, height x width x 3. MLVP takes 12.

    Raises:
        ValueError: there is no frame.
    """
    if not len(frames):
        raise ValueError("a clip without frames cannot be described")
    resized = [cv2.resize(frame, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA) for frame in frames]
    small: Image = np.array(resized, np.uint8)
    red, green, blue = (small[..., channel].astype(np.float64) for channel in range(3))
    colours = np.stack([r * red + g * green + b * blue for r, g, b in _OPPONENT], axis=-1)
    grey = np.ascontiguousarray(colours[..., 0])
    vector = np.concatenate(
        [
            _WEIGHTS["layout"] * _unit(_cells(colours.mean(axis=0) * _SCALES), _FAINT["layout"]),
            _WEIGHTS["histogram"] * _unit(_histogram(small)),
            _WEIGHTS["gradients"] * _unit(_gradients(grey), _FAINT["gradients"]),
            _WEIGHTS["motion"] * _unit(_motion(grey), _FAINT["motion"]),
        ]
    )
    return _unit(vector).astype(np.float32)


def _unit(vector: npt.NDArray[np.float64], faint: float = 1e-9) -> npt.NDArray[np.float64]:
    """The vector divided by its length, or by `faint` where it is shorter than that."""
    return vector / max(float(np.sqrt(np.square(vector).sum())), faint)


def _cells(plane: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Means over the cells of the grid, less the middle grey."""
    size = _SIDE // _GRID
    means = plane.reshape(_GRID, size, _GRID, size, -1).mean(axis=(1, 3))
    means[..., 0] -= _MIDDLE_GREY
    cells: npt.NDArray[np.float64] = means.ravel()
    return cells


def _histogram(frames: Image) -> npt.NDArray[np.float64]:
    """Square roots of the shares of 6 x 6 x 6 colours, less their mean.

    A pixel is split between the two nearest levels of each channel, so that a slight change of light changes little.
    """
    places = np.arange(256) * (_LEVELS - 1) / 255
    below = np.minimum(places.astype(np.int64), _LEVELS - 2)
    above = places - below
    shares = np.zeros(_LEVELS**3)
    red, green, blue = (frames[..., channel].ravel() for channel in range(3))
    for corner in range(8):
        r, g, b = corner >> 2, corner >> 1 & 1, corner & 1
        bins = ((below + r)[red] * _LEVELS + (below + g)[green]) * _LEVELS + (below + b)[blue]
        part = [above if upper else 1 - above for upper in (r, g, b)]
        shares += np.bincount(bins, part[0][red] * part[1][green] * part[2][blue], minlength=_LEVELS**3)
    root = np.sqrt(shares / len(red))
    centred: npt.NDArray[np.float64] = root - root.mean()
    return centred


def _gradients(grey: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Strength of 8 orientations in each cell, per frame, as square roots, less their mean; `grey` is unscaled."""
    down, across = np.gradient(grey, axis=(1, 2))
    angle = np.mod(np.arctan2(down, across) + _TIES_UP, np.pi)
    which = np.minimum((angle / np.pi * _ORIENTATIONS).astype(np.int64), _ORIENTATIONS - 1)
    cell = np.arange(_SIDE) * _GRID // _SIDE
    bins = (cell[:, None] * _GRID + cell) * _ORIENTATIONS + which
    strength = np.sqrt(across * across + down * down)
    total = np.bincount(bins.ravel(), strength.ravel(), minlength=_GRID * _GRID * _ORIENTATIONS)
    root = np.sqrt(total * _SCALES[0] / len(grey))
    centred: npt.NDArray[np.float64] = root - root.mean()
    return centred


def _motion(grey: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """How much each cell changes from one frame to the next, as square roots, less their mean; `grey` is unscaled."""
    if len(grey) < 2:
        return np.zeros(_GRID * _GRID)
    size = _SIDE // _GRID
    change = np.abs(np.diff(grey, axis=0)).mean(axis=0) * _SCALES[0]
    root = np.sqrt(change.reshape(_GRID, size, _GRID, size).mean(axis=(1, 3)))
    centred: npt.NDArray[np.float64] = (root - root.mean()).ravel()
    return centred
