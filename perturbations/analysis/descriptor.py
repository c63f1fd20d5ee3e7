"""A fixed descriptor of what a clip looks like: colour, gradients, motion. The `offline` clip embedding."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
Vector = npt.NDArray[np.float32]

_SIDE, _GRID, _ORIENTATIONS, _LEVELS = 64, 4, 8, 6
_WEIGHTS = {"layout": 1.0, "histogram": 1.2, "gradients": 1.0, "motion": 0.5}

# Grey, red against green, yellow against blue: orthogonal, each of unit length.
_OPPONENT = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]], np.float32)
_OPPONENT /= np.linalg.norm(_OPPONENT, axis=1, keepdims=True)


def describe(frames: Sequence[Image]) -> Vector:
    """Describe a clip by a few of its frames, RGB uint8 H x W x 3, in order: float32, of length 1.

    Four blocks, each centred on what a featureless clip would give and of a fixed length, so that unlike clips are near
    0 and not near 1: the layout of opponent colours on a 4 x 4 grid, the histogram of colours, the histogram of
    gradient orientations on the grid, and where things change from frame to frame. Frames are looked at as 64 x 64, so
    that resolution hardly matters. Only the motion block depends on their order.
    """
    small = np.stack([cv2.resize(frame, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA) for frame in frames]).astype(
        np.uint8
    )
    colours = small.astype(np.float32) / 255 @ _OPPONENT.T
    blocks = {
        "layout": _cells(colours.mean(axis=0)),
        "histogram": _histogram(small),
        "gradients": _gradients(colours[..., 0]),
        "motion": _motion(colours[..., 0]),
    }
    vector = np.concatenate([_WEIGHTS[name] * _unit(block) for name, block in blocks.items()])
    return _unit(vector).astype(np.float32)


def _unit(vector: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    length = float(np.linalg.norm(vector))
    return vector.astype(np.float64) / length if length > 1e-9 else np.zeros(vector.shape)


def _cells(plane: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Means over the cells of the grid, less the middle grey."""
    size = _SIDE // _GRID
    means = plane.reshape(_GRID, size, _GRID, size, -1).mean(axis=(1, 3))
    means[..., 0] -= _OPPONENT[0].sum() / 2
    return np.asarray(means.ravel(), np.float64)


def _histogram(frames: npt.NDArray[np.uint8]) -> npt.NDArray[np.floating]:
    """Square roots of the shares of 6 x 6 x 6 colours, less their mean."""
    bins = frames.reshape(-1, 3).astype(np.int64) * _LEVELS // 256
    flat = (bins[:, 0] * _LEVELS + bins[:, 1]) * _LEVELS + bins[:, 2]
    shares = np.bincount(flat, minlength=_LEVELS**3) / len(flat)
    # Neighbouring colours share, so that a slight change of light does not make two clips unlike.
    smooth = cv2.GaussianBlur(shares.reshape(_LEVELS, _LEVELS, _LEVELS), (3, 3), 0.7)
    root = np.sqrt(smooth.ravel())
    centred: npt.NDArray[np.floating] = root - root.mean()
    return centred


def _gradients(grey: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Strength of 8 orientations in each cell, as square roots, less each cell's mean."""
    total = np.zeros((_ORIENTATIONS, _GRID, _GRID))
    size = _SIDE // _GRID
    for frame in grey:
        down, across = np.gradient(frame)
        strength = np.hypot(across, down)
        angle = np.mod(np.arctan2(down, across), np.pi)
        which = np.minimum((angle / np.pi * _ORIENTATIONS).astype(int), _ORIENTATIONS - 1)
        for one in range(_ORIENTATIONS):
            kept = np.where(which == one, strength, 0)
            total[one] += kept.reshape(_GRID, size, _GRID, size).sum(axis=(1, 3))
    root = np.sqrt(total)
    centred: npt.NDArray[np.floating] = (root - root.mean()).ravel()
    return centred


def _motion(grey: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """How much each cell changes from one frame to the next, as square roots, less their mean."""
    if len(grey) < 2:
        return np.zeros(_GRID * _GRID)
    size = _SIDE // _GRID
    change = np.abs(np.diff(grey, axis=0)).mean(axis=0)
    root = np.sqrt(change.reshape(_GRID, size, _GRID, size).mean(axis=(1, 3)))
    centred: npt.NDArray[np.floating] = (root - root.mean()).ravel()
    return centred
