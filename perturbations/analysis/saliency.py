"""Finds the main object of a clip without a trained model: what moves against the camera, stands out, and stays.

Each analysed frame gives candidates: places where the optical flow to frames before and after differs from the camera's
own motion, or, where nothing moves, places that are salient (spectral residual). Each candidate is cut out of its
surroundings (GrabCut). The candidate that all frames support most, by colour, motion and contrast, is chosen; each
frame then gives its own candidate most like the chosen one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import cv2
import numpy as np
import numpy.typing as npt

from perturbations.analysis.detections import Detection
from perturbations.arrays import Image

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]

_SIDE = 150  # pixels of the shorter side that the search works at
_SMALLEST = 16  # pixels; smaller frames are not searched
_DISTANCES = (1, 2, 5)  # in frames, between two frames that are compared: short for fast objects, long for slow ones
_CANDIDATES = 3  # places per map of motion or saliency
_STILL = 0.5  # pixels of motion that are noise
_LEAST_PIXELS = 12
_EDGE = 20.0  # gradient, in grey levels per pixel times Sobel's 8, at which the flow counts half
_USUAL_AREA = 0.03  # of the frame; smaller objects are less often what a clip is about
_LEAST_ALIKE = 0.3  # candidates less like the chosen one are other objects
_LEVELS = 8  # of each colour in a histogram


class _Candidate(NamedTuple):
    box: tuple[int, int, int, int]
    colours: Floats  # histogram, of length 1
    contrast: float  # how unlike its surroundings it is, 0 to 1
    weight: float  # how likely it is the main object, by itself


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


def detect(frames: Mapping[int, Image], positions: Sequence[int], size: tuple[int, int]) -> list[list[Detection]]:
    """The main object in the frames at `positions`: at most one detection each, in pixels of the clip.

    Args:
        frames: shrunk frames by position; all of `neighbourhood(positions, ...)` that exist.
        positions: the analysed frames; one may occur twice.
        size: (height, width) of the clip.
    """
    candidates = {position: list(_candidates(frames, position)) for position in set(positions)}
    choices = _choose([candidates[position] for position in positions])
    return [
        [_detection(choice, frames[position].shape[:2], size)] if choice is not None else []
        for position, choice in zip(positions, choices, strict=True)
    ]


def _detection(choice: tuple[_Candidate, Floats, float], shape: tuple[int, ...], size: tuple[int, int]) -> Detection:
    candidate, colours, alike = choice
    down, across = size[0] / shape[0], size[1] / shape[1]
    x0, y0, x1, y1 = candidate.box
    box = (x0 * across, y0 * down, min(x1 * across, size[1]), min(y1 * down, size[0]))
    # The colours that all frames agreed on are in every detection, so that changes of light and pose keep one track.
    agreed = 2 * colours + candidate.colours
    score = (candidate.contrast + alike) / 2
    return Detection(box, min(max(score, 0.0), 1.0), "", (agreed / np.linalg.norm(agreed)).astype(np.float32))


# --- candidates ------------------------------------------------------------------------------------------------------


def _candidates(frames: Mapping[int, Image], position: int) -> Iterator[_Candidate]:
    frame = frames[position]
    if min(frame.shape[:2]) < _SMALLEST:
        return
    grey = {
        near: np.asarray(cv2.cvtColor(frames[near], cv2.COLOR_RGB2GRAY), np.uint8)
        for near in neighbourhood([position], max(frames) + 1)
        if near in frames and frames[near].shape == frame.shape
    }
    texture = _texture(grey[position])
    speeds = (_own_motion(grey, position, distance) for distance in _DISTANCES)
    moves = [np.asarray(speed * texture, np.float32) for speed in speeds if speed is not None]
    seen: list[tuple[int, int, int, int]] = []
    for places in [*moves, None]:
        if places is None:
            if seen:
                return  # something moves, so what only stands out does not count
            places = _spectral_residual(grey[position])
        for part in _parts(places):
            outlined = _cut_out(frame, part)
            if outlined is None or any(_overlap(outlined[0], box) > 0.7 for box in seen):
                continue
            seen.append(outlined[0])
            yield _described(frame, *outlined, moves)


def _texture(grey: Image) -> Floats:
    """How reliable the flow is, 0 to 1: on a bare wall it only comes from the edges around."""
    across, down = (cv2.Sobel(grey, cv2.CV_32F, *order, ksize=3) for order in ((1, 0), (0, 1)))
    strength = cv2.GaussianBlur(cv2.magnitude(across, down), (0, 0), 3)
    return np.asarray(strength / (strength + _EDGE), np.float32)


def _own_motion(grey: Mapping[int, Image], position: int, distance: int) -> Floats | None:
    """Speed against the camera, in pixels: the smaller of the speeds to the frame before and to the frame after.

    The smaller, because background that is covered or uncovered seems to move in one of the two.
    """
    speeds = [
        _against_camera(grey[position], grey[near])
        for near in (position - distance, position + distance)
        if near in grey
    ]
    return np.asarray(np.minimum.reduce(speeds), np.float32) if speeds else None


def _against_camera(grey: Image, near: Image) -> Floats:
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
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    moved = np.stack([x, y, np.ones_like(x)], axis=2) @ np.asarray(model, np.float32).T
    shift: npt.NDArray[np.floating] = moved - np.stack([x, y], axis=2)
    return shift


def _spectral_residual(grey: Image) -> Floats:
    """Saliency after Hou and Zhang 2007: the spectrum less its smooth part."""
    small = cv2.resize(grey, (64, 64), interpolation=cv2.INTER_AREA).astype(np.float32)
    spectrum = np.fft.fft2(small)
    strength = np.log(np.abs(spectrum) + 1e-6).astype(np.float32)
    residual = strength - cv2.blur(strength, (3, 3))
    saliency = np.abs(np.fft.ifft2(np.exp(residual + 1j * np.angle(spectrum)))) ** 2
    smooth = cv2.GaussianBlur(saliency.astype(np.float32), (0, 0), 2.5)
    if smooth.std() < 1e-7 or small.std() < 1:
        return np.zeros(grey.shape, np.float32)
    smooth = (smooth - smooth.mean()) / smooth.std()
    return np.asarray(cv2.resize(smooth, (grey.shape[1], grey.shape[0])), np.float32)


def _parts(places: Floats) -> Iterator[Mask]:
    """The connected parts of a map that hold most of it."""
    smooth = cv2.GaussianBlur(places, (0, 0), 1.2)
    high = (smooth > max(_STILL, 0.4 * float(np.percentile(smooth, 99.5)))).astype(np.uint8)
    opened = cv2.morphologyEx(high, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    count, labels = cv2.connectedComponents(opened)
    held = np.bincount(labels.ravel(), weights=smooth.ravel(), minlength=count)
    held[0] = 0
    for label in np.argsort(-held, kind="stable")[:_CANDIDATES]:
        part: Mask = labels == label
        if held[label] > 0 and part.sum() >= _LEAST_PIXELS:
            yield part


def _bounds(part: Mask) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _cut_out(frame: Image, part: Mask) -> tuple[tuple[int, int, int, int], Mask] | None:
    """The object of which `part` is a rough outline: its box and its pixels (GrabCut, Rother et al. 2004)."""
    height, width = part.shape
    x0, y0, x1, y1 = _bounds(part)
    margin = max(6, max(x1 - x0, y1 - y0) // 4)
    left, top = max(0, x0 - margin), max(0, y0 - margin)
    right, bottom = min(width, x1 + margin), min(height, y1 + margin)
    rough = part[top:bottom, left:right]
    labels = np.full(rough.shape, cv2.GC_BGD, np.uint8)
    rim = max(2, margin // 3)
    inside = np.zeros_like(rough)
    inside[rim if top else 0 : len(rough) - (rim if bottom < height else 0)] = True
    inside[:, : rim if left else 0] = False
    inside[:, rough.shape[1] - (rim if right < width else 0) :] = False
    labels[inside] = cv2.GC_PR_BGD
    labels[rough] = cv2.GC_PR_FGD
    core = cv2.erode(rough.astype(np.uint8), np.ones((3, 3), np.uint8), iterations=max(1, min(x1 - x0, y1 - y0) // 5))
    labels[core > 0] = cv2.GC_FGD
    if {int(label) % 2 for label in np.unique(labels)} != {0, 1} or (labels == cv2.GC_BGD).sum() < 20:
        return None
    cv2.setRNGSeed(0)  # GrabCut draws from OpenCV's global generator
    crop = np.ascontiguousarray(frame[top:bottom, left:right])
    cv2.grabCut(crop, labels, cast(Sequence[int], None), np.zeros((1, 65)), np.zeros((1, 65)), 2, cv2.GC_INIT_WITH_MASK)
    front = np.isin(labels, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.uint8)
    opened = cv2.morphologyEx(front, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    count, pieces = cv2.connectedComponents(opened)
    shared = np.bincount(pieces[rough], minlength=count)
    shared[0] = 0
    # A person's face, shirt and hands may be separate pieces: all that hold a good part of the outline count.
    cut = np.isin(pieces, np.flatnonzero(shared > 0.2 * shared.max()))
    if not shared.any() or cut.sum() < _LEAST_PIXELS:
        return None
    whole = np.zeros_like(part)
    whole[top:bottom, left:right] = cut
    return _bounds(whole), whole


def _described(frame: Image, box: tuple[int, int, int, int], part: Mask, moves: Sequence[Floats]) -> _Candidate:
    height, width = part.shape
    x0, y0, x1, y1 = box
    margin = max(4, (x1 - x0 + y1 - y0) // 6)
    around = np.zeros_like(part)
    around[max(0, y0 - margin) : y1 + margin, max(0, x0 - margin) : x1 + margin] = True
    around &= cv2.dilate(part.astype(np.uint8), np.ones((3, 3), np.uint8)) == 0
    colours = _histogram(frame, part)
    contrast = 1 - float(colours @ _histogram(frame, around)) if around.any() else 0.0
    speed = stands_out = 0.0
    if moves:
        own = [(float(move[part].mean()), float(move[around].mean()) if around.any() else 0.0) for move in moves]
        fast = [float(np.percentile(move, 99)) + 1e-3 for move in moves]
        speed = float(np.mean([min(1, inside / most) for (inside, _), most in zip(own, fast, strict=True)]))
        stands_out = float(np.mean([inside / (inside + outside + 1e-3) for inside, outside in own]))
    area = float(part.mean())
    touched = (x0 <= 0) + (y0 <= 0) + (x1 >= width) + (y1 >= height)
    weight = (0.2 + contrast) * (0.1 + speed * stands_out) * min(1.0, area / _USUAL_AREA) ** 0.5 * 0.6**touched
    aside = np.hypot((x0 + x1) / width - 1, (y0 + y1) / height - 1)  # 0 in the middle, 1.4 in a corner
    return _Candidate(box, colours, contrast, weight * (0.35 if area > 0.5 else 1) * float(np.exp(-(aside**2))))


def _histogram(frame: Image, part: Mask) -> Floats:
    """Square roots of the shares of 8 x 8 x 8 colours, smoothed, of length 1."""
    bins = frame[part].astype(np.int64) * _LEVELS // 256
    counts = np.bincount((bins[:, 0] * _LEVELS + bins[:, 1]) * _LEVELS + bins[:, 2], minlength=_LEVELS**3)
    cube = np.pad(counts.reshape((_LEVELS,) * 3).astype(np.float64), 1, mode="edge")
    for axis in range(3):
        cube = 0.5 * cube + 0.25 * (np.roll(cube, 1, axis) + np.roll(cube, -1, axis))
    root = np.sqrt(cube[1:-1, 1:-1, 1:-1].ravel())
    return np.asarray(root / (np.linalg.norm(root) + 1e-9), np.float32)


def _overlap(first: tuple[int, int, int, int], second: tuple[int, int, int, int]) -> float:
    across = max(0, min(first[2], second[2]) - max(first[0], second[0]))
    down = max(0, min(first[3], second[3]) - max(first[1], second[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return across * down / (sum(areas) - across * down)


# --- decision --------------------------------------------------------------------------------------------------------


def _choose(frames: Sequence[Sequence[_Candidate]]) -> list[tuple[_Candidate, Floats, float] | None]:
    """Per frame: the candidate most like the object that all frames support, that object's colours, and how alike."""
    every = [(number, candidate) for number, candidates in enumerate(frames) for candidate in candidates]
    if not every:
        return [None] * len(frames)
    colours = np.stack([candidate.colours for _, candidate in every])
    alike = colours @ colours.T
    weights = np.array([candidate.weight for _, candidate in every])
    numbers = np.array([number for number, _ in every])
    # In each frame, the candidate most like it supports a candidate.
    support = np.zeros(len(every))
    for number in set(numbers.tolist()):
        of_frame = numbers == number
        support += (alike[:, of_frame] ** 4 * weights[of_frame]).max(axis=1)
    agreed = int(np.argmax(support * np.sqrt(weights)))
    chosen: list[tuple[_Candidate, Floats, float] | None] = []
    for number in range(len(frames)):
        of_frame = np.flatnonzero(numbers == number)
        scores = alike[agreed, of_frame] ** 4 * np.sqrt(weights[of_frame])
        best = int(of_frame[scores.argmax()]) if len(of_frame) else -1
        fits = best >= 0 and alike[agreed, best] >= _LEAST_ALIKE
        chosen.append((every[best][1], colours[agreed], float(alike[agreed, best])) if fits else None)
    return chosen
