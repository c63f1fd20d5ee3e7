"""Finds the main object of a clip without a trained model.

Each place of a frame has a probability of belonging to the object: a prior for the middle, times evidence. The box is
the one whose expected overlap with the object is largest. Each frame says what its box rests on (`Sighting.source`):

- *motion*: an object that moves as a whole against the camera: what moves fills a box.
- *contrast*: nothing moves, and what differs from the frame's border fills a box.
- *centre*: neither, as with people, of whom only parts move: a constant is added to what moves, so that the box is a
  central region, drawn aside by motion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple, cast

import cv2
import numpy as np
import numpy.typing as npt

from perturbations.analysis.tracking import Detection
from perturbations.base.arrays import Image

_Floats = npt.NDArray[np.float32]
_Region = tuple[float, float, float, float]
_Source = Literal["motion", "contrast", "centre"]
"""What a box rests on."""

_SIDE = 150  # pixels of the shorter side that the search works at
_SMALLEST = 16  # pixels; in smaller frames nothing moves
_DISTANCES = (1, 2, 5)  # in frames, between two frames that are compared: short for fast objects, long for slow ones
_STILL = 0.5  # pixels of motion that are noise
_EDGE = 20.0  # gradient, in grey levels per pixel times Sobel's 8, at which the flow counts half
_FASTEST, _SOMETHING = 98, 99.5  # the percentiles of motion that are an object's fastest part, and something that moves
_FAST = 0.6  # of the fastest part's motion: from here on, a place certainly moves
_GRAIN = 60.0  # variance of colour, in squared levels of OpenCV's CIELAB, that every border has

_COLUMNS, _ROWS = 32, 24  # cells of a map; boxes begin and end between cells
_SPREAD = 0.35, 0.4  # standard deviations of the prior, in widths and heights
_ALONE = 0.1  # the probability in the middle where there is no evidence
_NARROWER = 1.5  # a power of trusted evidence: the window of the optical flow widens an object's outline
_WHOLE = 0.67  # of a box: evidence that fills more of it, in the median of a clip's frames, is an object by itself
_LEVELS = 8  # of each colour in a histogram


class Sighting(NamedTuple):
    """The main object in one frame, and what its box rests on."""

    detection: Detection
    source: _Source


class _Evidence(NamedTuple):
    """Of one frame: per cell, how much it moves, or stands out if nothing moves, 0 to 1."""

    source: Literal["motion", "contrast"]
    cells: _Floats


def neighbourhood(positions: Collection[int], num_frames: int) -> set[int]:
    """The frames that finding the objects at `positions` needs: these and at most six around each."""
    near = (0, *_DISTANCES, *(-distance for distance in _DISTANCES))
    return {at + step for at in positions for step in near if 0 <= at + step < num_frames}


def shrunk(frame: Image) -> Image:
    """A frame, RGB uint8 H x W x 3, at the size that the search works at."""
    scale = _SIDE / min(frame.shape[:2])
    if scale >= 1:
        return frame.copy()
    size = max(1, round(frame.shape[1] * scale)), max(1, round(frame.shape[0] * scale))
    return np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA), np.uint8)


def detect(frames: Mapping[int, Image], positions: Sequence[int], size: tuple[int, int]) -> list[Sighting]:
    """The main object in each of the frames at `positions`, in pixels of the clip.

    Args:
        frames: shrunk frames by position; all of `neighbourhood(positions, ...)` that exist.
        positions: the analysed frames; one may occur twice.
        size: (height, width) of the clip.
    """
    evidence = {position: _evidence(frames, position) for position in set(positions)}
    fills: dict[_Source, list[float]] = defaultdict(list)
    for position in positions:
        fills[evidence[position].source].append(_fill(evidence[position].cells))
    trusted = {source for source, parts in fills.items() if np.median(parts) >= _WHOLE}
    regions = {position: _region(seen, seen.source in trusted) for position, seen in evidence.items()}
    colours = {position: _colours(frames[position], box) for position, (box, _) in regions.items()}
    # The colours of all frames are in every detection, so that changes of light and pose keep one track.
    usual = np.mean([colours[position] for position in positions], axis=0)
    sightings = []
    for position in positions:
        box, overlap = regions[position]
        source = evidence[position].source
        mixed = 2 * usual + colours[position]
        embedding = (mixed / np.linalg.norm(mixed)).astype(np.float32)
        in_pixels = (box[0] * size[1], box[1] * size[0], box[2] * size[1], box[3] * size[0])
        detection = Detection(in_pixels, overlap, "", embedding)
        sightings.append(Sighting(detection, source if source in trusted else "centre"))
    return sightings


# --- evidence --------------------------------------------------------------------------------------------------------


def _evidence(frames: Mapping[int, Image], position: int) -> _Evidence:
    """What moves in a frame, or what stands out if nothing moves."""
    frame = frames[position]
    moves = _moves(frames, position) if min(frame.shape[:2]) >= _SMALLEST else []
    if any(float(np.percentile(move, _SOMETHING)) >= _STILL for move in moves):
        most = [np.clip(move / max(_FAST * float(np.percentile(move, _FASTEST)), _STILL), 0, 1) for move in moves]
        # Between the arithmetic and the geometric mean: what moves at one distance alone counts little.
        return _Evidence("motion", _cells(np.asarray(np.mean(np.sqrt(most), axis=0) ** 2, np.float32)))
    return _Evidence("contrast", _contrast(frame))


def _moves(frames: Mapping[int, Image], position: int) -> list[_Floats]:
    """Maps of speed against the camera, in pixels, for each distance that there are frames for."""
    grey = {
        near: np.asarray(cv2.cvtColor(frames[near], cv2.COLOR_RGB2GRAY), np.uint8)
        for near in neighbourhood([position], max(frames) + 1)
        if near in frames and frames[near].shape == frames[position].shape
    }
    texture = _texture(grey[position])
    speeds = (_own_motion(grey, position, distance) for distance in _DISTANCES)
    moves = [np.asarray(speed * texture, np.float32) for speed in speeds if speed is not None]
    # Where most of the picture moves against the camera, the camera's motion was not found.
    return [move for move in moves if np.median(move) < _STILL] or moves


def _texture(grey: Image) -> _Floats:
    """How reliable the flow is, 0 to 1: on a bare wall it only comes from the edges around."""
    across, down = (cv2.Sobel(grey, cv2.CV_32F, *order, ksize=3) for order in ((1, 0), (0, 1)))
    strength = cv2.GaussianBlur(cv2.magnitude(across, down), (0, 0), 3)
    return np.asarray(strength / (strength + _EDGE), np.float32)


def _own_motion(grey: Mapping[int, Image], position: int, distance: int) -> _Floats | None:
    """Speed against the camera, in pixels: the smaller of the speeds to the frame before and to the frame after.

    The smaller, because background that is covered or uncovered seems to move in one of the two.
    """
    speeds = [
        _against_camera(grey[position], grey[near])
        for near in (position - distance, position + distance)
        if near in grey
    ]
    return np.asarray(np.minimum.reduce(speeds), np.float32) if speeds else None


def _against_camera(grey: Image, near: Image) -> _Floats:
    flow = cv2.calcOpticalFlowFarneback(grey, near, cast(Image, None), 0.5, 4, 13, 3, 5, 1.1, 0)
    field = np.asarray(flow, np.float32)
    return np.asarray(np.linalg.norm(field - _camera(field), axis=2), np.float32)


def _camera(flow: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """The flow that a moving, turning or zooming camera would cause, fitted to most of the picture."""
    height, width = flow.shape[:2]
    step = max(1, min(height, width) // 24)
    rows, columns = (part.ravel() for part in np.mgrid[step // 2 : height : step, step // 2 : width : step])
    start = np.stack([columns, rows], axis=1).astype(np.float32)
    model, _ = cv2.estimateAffinePartial2D(
        start, start + flow[rows, columns], method=cv2.RANSAC, ransacReprojThreshold=1.0, maxIters=500, confidence=0.999
    )
    if model is None:
        return np.zeros_like(flow)
    places = _places(height, width)
    shift: npt.NDArray[np.floating] = places @ np.asarray(model, np.float32).T - places[:, :, :2]
    return shift


@lru_cache(maxsize=1)
def _places(height: int, width: int) -> _Floats:
    """x, y and 1 of each pixel, H x W x 3."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    return np.stack([x, y, np.ones_like(x)], axis=2)


def _contrast(frame: Image) -> _Floats:
    """How unlike the colours of the frame's border each cell is, 0 to 1.

    The colour's Mahalanobis distance to each of the four sides, without the side that it is most unlike: an object
    often touches one.
    """
    small = cv2.resize(frame, (4 * _COLUMNS, 4 * _ROWS), interpolation=cv2.INTER_AREA)
    colours = np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2LAB), np.float64)
    distances = []
    for side in (colours[:4], colours[-4:], colours[:, :4], colours[:, -4:]):
        pixels = side.reshape(-1, 3)
        spread = np.linalg.inv(np.cov(pixels.T) + _GRAIN * np.eye(3))
        apart = colours - pixels.mean(axis=0)
        distances.append(np.sqrt(np.maximum(np.einsum("yxi,ij,yxj->yx", apart, spread, apart), 0)))
    unlike = np.sort(distances, axis=0)[:3].mean(axis=0)
    return _cells(np.asarray(unlike / max(float(unlike.max()), 1.0), np.float32))


def _cells(places: _Floats) -> _Floats:
    return np.asarray(cv2.resize(places, (_COLUMNS, _ROWS), interpolation=cv2.INTER_AREA), np.float32)


# --- boxes -----------------------------------------------------------------------------------------------------------


@cache
def _prior() -> _Floats:
    """How likely each cell belongs to the main object, before anything is seen, as a part of the middle's."""
    y, x = np.mgrid[0:_ROWS, 0:_COLUMNS]
    across, down = ((x + 0.5) / _COLUMNS - 0.5) / _SPREAD[0], ((y + 0.5) / _ROWS - 0.5) / _SPREAD[1]
    return np.asarray(np.exp(-(across**2 + down**2) / 2), np.float32)


@cache
def _boxes() -> tuple[npt.NDArray[Any], ...]:
    """Every box between cells: its first column and row, the last ones (excluded), and its area in frames."""
    (x0, x1), (y0, y1) = (np.triu_indices(count + 1, 1) for count in (_COLUMNS, _ROWS))
    return x0, y0, x1, y1, np.outer(x1 - x0, y1 - y0) / (_COLUMNS * _ROWS)


def _best(probability: _Floats) -> tuple[tuple[int, int, int, int], float]:
    """The box that is expected to overlap the object most, and by how much: about the mean intersection over union."""
    x0, y0, x1, y1, area = _boxes()
    sums = np.pad(probability.astype(np.float64).cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0))) / probability.size
    # All pairs of columns by all pairs of rows; whole rows of a table are gathered, which is faster than single sums.
    low, high = (np.ascontiguousarray(sums[end].T) for end in (y0, y1))
    within = (high - low)[x1] - high[x0] + low[x0]
    overlaps = within / (area + sums[-1, -1] - within)
    x, y = np.unravel_index(overlaps.argmax(), overlaps.shape)
    corners = (int(x0[x]), int(y0[y]), int(x1[x]), int(y1[y]))
    return corners, float(np.clip(overlaps[x, y], 0, 1))


def _fill(cells: _Floats) -> float:
    """How much of the best box for the evidence the evidence fills.

    What moves or differs as a whole fills its box; scattered evidence comes from water, grain or a camera that no
    simple motion explains.
    """
    (x0, y0, x1, y1), _ = _best(_prior() * cells)
    return float(cells[y0:y1, x0:x1].mean())


def _region(evidence: _Evidence, trusted: bool) -> tuple[_Region, float]:
    """The box in parts of the frame, and its expected overlap."""
    if trusted:
        probability = evidence.cells**_NARROWER
    else:
        moves = evidence.cells if evidence.source == "motion" else np.zeros_like(evidence.cells)
        probability = np.minimum(moves + _ALONE, 1)
    (x0, y0, x1, y1), overlap = _best(np.asarray(_prior() * probability, np.float32))
    return (x0 / _COLUMNS, y0 / _ROWS, x1 / _COLUMNS, y1 / _ROWS), overlap


def _colours(frame: Image, box: _Region) -> _Floats:
    """Colours of a box: square roots of the shares of 8 x 8 x 8 colours, smoothed, of length 1."""
    height, width = frame.shape[:2]
    left, top = int(box[0] * width), int(box[1] * height)
    part = frame[top : max(top + 1, round(box[3] * height)), left : max(left + 1, round(box[2] * width))]
    bins = part.reshape(-1, 3).astype(np.int64) * _LEVELS // 256
    counts = np.bincount((bins[:, 0] * _LEVELS + bins[:, 1]) * _LEVELS + bins[:, 2], minlength=_LEVELS**3)
    cube = np.pad(counts.reshape((_LEVELS,) * 3).astype(np.float64), 1, mode="edge")
    for axis in range(3):
        cube = 0.5 * cube + 0.25 * (np.roll(cube, 1, axis) + np.roll(cube, -1, axis))
    root = np.sqrt(cube[1:-1, 1:-1, 1:-1].ravel())
    return np.asarray(root / (np.linalg.norm(root) + 1e-9), np.float32)
