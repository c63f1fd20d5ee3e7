"""Style transfer. Frames are RGB uint8, H x W x 3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from perturbations.base.arrays import Image
from perturbations.base.bounds import SHARE
from perturbations.base.kernel import Batched, FrameFunction, Kernel

_Floats = npt.NDArray[np.float32]
_Paint = Callable[[Image, float], Image]

_STYLE_SIDE = 512
"""Length of a style image's shorter side, as AdaIN's authors resize it."""

_LEVELS = 5
_EPS = 1e-5

# Grey, red against green, yellow against blue: orthogonal, each of unit length. Natural colours hardly correlate here.
_OPPONENT = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]], np.float64)
_OPPONENT /= np.linalg.norm(_OPPONENT, axis=1, keepdims=True)


@dataclass(frozen=True)
class Painter:
    """A painter of one style.

    Attributes:
        frame: the function (frame, alpha) -> frame.
        batch: the function (frames B x H x W x 3, alpha) -> frames, if it can paint batches.
        batch_size: the function (height, width) -> the largest batch.
        as_released: the painter of the same style as MM-Robustness' code paints: the picture at its own size, its
            levels rounded. None: this painter is that one.
    """

    frame: _Paint
    batch: _Paint | None = None
    batch_size: Callable[[int, int], int] = lambda height, width: 1
    as_released: Callable[[], Painter] | None = None


def style_transfer(
    realization: None, painter: Painter, num_frames: int, height: int, width: int, *, alpha: float
) -> FrameFunction:
    """Repaint every frame in one style, `alpha` of the way (AdaIN, Huang and Belongie 2017; MLVP, App. E.3)."""
    batch = painter.batch
    if batch is not None:
        return Batched(lambda frames: batch(frames, alpha), painter.batch_size(height, width))
    return lambda frame, index: painter.frame(frame, alpha)


class _Moments(NamedTuple):
    """Mean and standard deviation of each channel of a band."""

    mean: _Floats
    deviation: _Floats


def filter_bank(style: Image, *, own_size: bool = False) -> _Paint:
    """AdaIN on a filter bank instead of a network's features: the function (frame, alpha) -> frame.

    The shorter side of `style` is resized to 512 pixels first, unless it keeps its `own_size`.

    A frame is cut into the bands of a Laplacian pyramid of its opponent colours, and each band of each channel is moved
    to the style's mean and standard deviation: `t = alpha AdaIN(c, s) + (1 - alpha) c`. The bands then add up to a
    frame. With `alpha` 0 the frame comes back exactly.
    """
    targets = [moments(band) for band in bands(opponent(style if own_size else _resized(style)))]

    def paint(frame: Image, alpha: float) -> Image:
        if alpha == 0:
            return frame.copy()
        own = bands(opponent(np.ascontiguousarray(frame)))
        last = _residual(targets, len(own))
        for band, target in zip(own, [*targets[: len(own) - 1], last], strict=True):
            move(band, alpha, target)
        return rgb(joined(own))

    return paint


def _resized(style: Image) -> Image:
    height, width = style.shape[:2]
    scale = _STYLE_SIDE / min(height, width)
    if scale == 1:
        return style
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return cv2.resize(style, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR).astype(np.uint8)


def opponent(frame: Image) -> _Floats:
    """A frame's opponent colours, float32 H x W x 3."""
    return np.asarray(cv2.transform(frame.astype(np.float32), _OPPONENT), np.float32)


def rgb(colours: _Floats) -> Image:
    """Opponent colours as a frame, rounded and clipped."""
    frame = cv2.transform(colours, _OPPONENT.T)
    cv2.threshold(frame, 0, 0, cv2.THRESH_TOZERO, dst=frame)
    return np.asarray(cv2.convertScaleAbs(frame), np.uint8)


def bands(colours: _Floats) -> list[_Floats]:
    """The bands of a Laplacian pyramid, finest first, the residual last; `joined` adds them up again.

    The finest is where `colours` were.
    """
    pyramid: list[_Floats] = []
    while len(pyramid) < _LEVELS and min(colours.shape[:2]) >= 8:
        coarse = cv2.pyrDown(colours)
        enlarged = cv2.pyrUp(coarse, dstsize=(colours.shape[1], colours.shape[0]))
        pyramid.append(np.asarray(cv2.subtract(colours, enlarged, dst=colours), np.float32))
        colours = np.asarray(coarse, np.float32)
    return [*pyramid, colours]


def joined(pyramid: list[_Floats]) -> _Floats:
    """The colours of a pyramid from `bands`."""
    colours = pyramid[-1]
    for band in pyramid[-2::-1]:
        enlarged = cv2.pyrUp(colours, dstsize=(band.shape[1], band.shape[0]))
        colours = np.asarray(cv2.add(band, enlarged, dst=enlarged), np.float32)
    return colours


def moments(band: _Floats) -> _Moments:
    """The statistics of a band, H x W x 3, that AdaIN matches."""
    mean, deviation = cv2.meanStdDev(band)
    return _Moments(mean.ravel().astype(np.float32), np.sqrt(deviation.ravel() ** 2 + _EPS).astype(np.float32))


def _residual(targets: list[_Moments], count: int) -> _Moments:
    """The target of a frame's last band, which in a small frame covers all coarser bands of the style."""
    rest = targets[count - 1 :]
    deviation = np.sqrt(sum(target.deviation.astype(np.float64) ** 2 for target in rest))
    return _Moments(rest[-1].mean, np.asarray(deviation, np.float32))


def move(band: _Floats, alpha: float, target: _Moments) -> None:
    """Bring a band's statistics closer to the target's, in place."""
    own = moments(band)
    gain = alpha * target.deviation / own.deviation + (1 - alpha)
    shift = alpha * (target.mean - own.mean * target.deviation / own.deviation)
    rows = band.reshape(len(band), -1)
    # Factors of a whole row: NumPy takes ten times as long to repeat three of them.
    for operate, values in ((np.multiply, gain), (np.add, shift)):
        operate(rows, np.tile(values.astype(np.float32), band.shape[1]), out=rows)


# --- declarations ----------------------------------------------------------------------------------------------------

STYLE_TRANSFER = Kernel(kernel=style_transfer, guide="style", draws_guide=True, bounds={"alpha": SHARE})
