"""Finds the main object of a clip without a trained model.

Three answers, the first that is trusted, and each frame says which one it has (`Sighting.source`):

- *motion*: one object that the frames agree on moves against the camera (`candidates`).
- *contrast*: nothing moves, and what differs from the frame's border fills a box.
- *centre*: a central region, drawn aside by what moves. Each place has a probability of belonging to the
  object: a prior for the middle, times evidence plus a constant. The box is the one whose expected overlap with the
  object is largest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple, cast

import cv2
import numpy as np
import numpy.typing as npt

from perturbations.analysis import candidates
from perturbations.analysis.candidates import Candidate, ChosenObject
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
_FASTEST, _SOMETHING = 98, 99.5  # the percentiles of motion that count as whole, and as something that moves
_GRAIN = 60.0  # variance of colour, in squared levels of OpenCV's CIELAB, that every border has

_COLUMNS, _ROWS = 32, 24  # cells of a map; boxes begin and end between cells
_SPREAD = 0.35, 0.4  # standard deviations of the prior, in widths and heights
_ALONE = 0.1  # the probability in the middle where there is no evidence
_SCATTERED, _WHOLE = 0.45, 0.6  # parts of a box: motion that fills less is no object; contrast that fills more is one
_EVERY = 2  # every second analysed frame is searched first; where these disagree, the others are not


class Sighting(NamedTuple):
    """The main object in one frame, and what its box rests on."""

    detection: Detection
    source: _Source


class _Evidence(NamedTuple):
    """Of one frame: maps of speed against the camera, and per cell how much it moves or stands out, 0 to 1."""

    moves: list[_Floats]
    source: _Source
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
    fills = {position: _fill(seen.cells) for position, seen in evidence.items()}
    still = [fills[position] for position in positions if evidence[position].source == "contrast"]
    stands_out = bool(still) and float(np.median(still)) >= _WHOLE
    regions = {position: _region(*_trusted(seen, stands_out)) for position, seen in evidence.items()}
    colours = {position: _colours(frames[position], box) for position, (box, _) in regions.items()}
    # The colours of all frames are in every detection, so that changes of light and pose keep one track.
    usual = np.mean([colours[position] for position in positions], axis=0)
    sightings = []
    for position, choice in zip(positions, _one_object(frames, evidence, fills, positions), strict=True):
        box, overlap = regions[position]
        source: _Source = "contrast" if stands_out and evidence[position].source == "contrast" else "centre"
        mixed = 2 * usual + colours[position]
        if choice is not None:
            source, box, overlap = "motion", _in_parts(choice, frames[position]), choice.score
            mixed = 2 * choice.colours + choice.candidate.colours
        embedding = (mixed / np.linalg.norm(mixed)).astype(np.float32)
        in_pixels = (box[0] * size[1], box[1] * size[0], box[2] * size[1], box[3] * size[0])
        sightings.append(Sighting(Detection(in_pixels, overlap, "", embedding), source))
    return sightings


def _one_object(
    frames: Mapping[int, Image],
    evidence: Mapping[int, _Evidence],
    fills: Mapping[int, float],
    positions: Sequence[int],
) -> Sequence[ChosenObject | None]:
    """The parts of the one object that moves in the clip; None in every frame without one."""
    moving = [fills[position] for position in positions if evidence[position].source == "motion"]
    # Few clips with scattered motion show one object, and cutting candidates out takes longer than all the rest.
    if len(moving) < len(positions) / 2 or np.median(moving) < _SCATTERED:
        return [None] * len(positions)
    by_position: dict[int, list[Candidate]] = {}
    choices: list[ChosenObject | None] = []
    for tried in (positions[::_EVERY], positions):
        for position in set(tried) - set(by_position):
            by_position[position] = list(candidates.find(frames[position], evidence[position].moves))
        choices = candidates.choose([by_position[position] for position in tried])
        if not candidates.is_one_object(choices):
            return [None] * len(positions)
    return choices


def _trusted(evidence: _Evidence, stands_out: bool) -> tuple[_Floats, float]:
    """The evidence for a region, and the probability of the middle without evidence."""
    if evidence.source == "motion":
        return evidence.cells, _ALONE
    return (evidence.cells, 0.0) if stands_out else (np.zeros_like(evidence.cells), _ALONE)


def _in_parts(choice: ChosenObject, frame: Image) -> _Region:
    height, width = frame.shape[:2]
    x0, y0, x1, y1 = choice.candidate.box
    return x0 / width, y0 / height, x1 / width, y1 / height


# --- evidence --------------------------------------------------------------------------------------------------------


def _evidence(frames: Mapping[int, Image], position: int) -> _Evidence:
    """What moves in a frame, or what stands out if nothing moves."""
    frame = frames[position]
    moves = _moves(frames, position) if min(frame.shape[:2]) >= _SMALLEST else []
    if any(float(np.percentile(move, _SOMETHING)) >= _STILL for move in moves):
        most = [np.clip(move / max(float(np.percentile(move, _FASTEST)), _STILL), 0, 1) for move in moves]
        return _Evidence(moves, "motion", _cells(np.asarray(np.mean(most, axis=0), np.float32)))
    return _Evidence(moves, "contrast", _contrast(frame))


def _moves(frames: Mapping[int, Image], position: int) -> list[_Floats]:
    """Maps of speed against the camera, in pixels, for each distance that there are frames for."""
    grey = {
        near: np.asarray(cv2.cvtColor(frames[near], cv2.COLOR_RGB2GRAY), np.uint8)
        for near in neighbourhood([position], max(frames) + 1)
        if near in frames and frames[near].shape == frames[position].shape
    }
    texture = _texture(grey[position])
    speeds = (_own_motion(grey, position, distance) for distance in _DISTANCES)
    return [np.asarray(speed * texture, np.float32) for speed in speeds if speed is not None]


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


def _best(probability: _Floats) -> tuple[candidates.Rectangle, float]:
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


def _region(cells: _Floats, alone: float) -> tuple[_Region, float]:
    """The box in parts of the frame, and its expected overlap; `alone` is the prior's probability in the middle."""
    (x0, y0, x1, y1), overlap = _best(np.asarray(_prior() * np.minimum(cells + alone, 1), np.float32))
    return (x0 / _COLUMNS, y0 / _ROWS, x1 / _COLUMNS, y1 / _ROWS), overlap


def _colours(frame: Image, box: _Region) -> _Floats:
    height, width = frame.shape[:2]
    part = np.zeros((height, width), bool)
    left, top = int(box[0] * width), int(box[1] * height)
    part[top : max(top + 1, round(box[3] * height)), left : max(left + 1, round(box[2] * width))] = True
    return candidates.histogram(frame, part)
