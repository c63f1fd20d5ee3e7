"""One object that all frames of a clip agree on: parts that move or stand out, cut out, and compared by colour.

Each analysed frame gives candidates: places that move against the camera, or, where nothing moves, places that are
salient (spectral residual). Each is cut out of its surroundings (GrabCut). The candidate that all frames support most,
by colour, motion and contrast, is chosen; each frame then gives its own candidate most like the chosen one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import cv2
import numpy as np
import numpy.typing as npt

from perturbations.base.arrays import Image

Rectangle = tuple[int, int, int, int]
_Mask = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float32]

_CANDIDATES = 3  # places per map of motion or saliency
_STILL = 0.5  # pixels of motion that are noise
_LEAST_PIXELS = 12
_USUAL_AREA = 0.03  # of the frame; smaller objects are less often what a clip is about
_LEAST_ALIKE = 0.3  # candidates less like the chosen one are other objects
_AGREED, _LIKELY = 0.96, 0.17  # medians over a clip's frames, below which its candidates are not one object
_LEVELS = 8  # of each colour in a histogram


class Candidate(NamedTuple):
    """A part of a frame: its box, its colours (a histogram of length 1), and two numbers in [0, 1].

    `contrast` is how unlike its surroundings it is, `weight` how likely it is the main object, by itself.
    """

    box: Rectangle
    colours: _Floats
    contrast: float
    weight: float


class ChosenObject(NamedTuple):
    """A frame's candidate most like the object that all frames support, that object's colours, and how alike."""

    candidate: Candidate
    colours: _Floats
    alike: float

    @property
    def score(self) -> float:
        """Confidence in [0, 1]."""
        return min(max((self.candidate.contrast + self.alike) / 2, 0.0), 1.0)


def choose(frames: Sequence[Sequence[Candidate]]) -> list[ChosenObject | None]:
    """Each frame's part of the object that all frames support; None in a frame without it."""
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
    chosen: list[ChosenObject | None] = []
    for number in range(len(frames)):
        of_frame = np.flatnonzero(numbers == number)
        scores = alike[agreed, of_frame] ** 4 * np.sqrt(weights[of_frame])
        best = int(of_frame[scores.argmax()]) if len(of_frame) else -1
        fits = best >= 0 and alike[agreed, best] >= _LEAST_ALIKE
        chosen.append(ChosenObject(every[best][1], colours[agreed], float(alike[agreed, best])) if fits else None)
    return chosen


def is_one_object(choices: Sequence[ChosenObject | None]) -> bool:
    """Whether the choices show the same thing in most frames, and one that is likely a main object."""
    alike = [choice.alike if choice else 0.0 for choice in choices]
    likely = [choice.alike * choice.candidate.weight if choice else 0.0 for choice in choices]
    return bool(np.median(alike) >= _AGREED and np.median(likely) >= _LIKELY)


# --- candidates ---------------------------------------------------------------------------------------------------


def find(frame: Image, moves: Sequence[_Floats]) -> Iterator[Candidate]:
    """The candidates of a frame, RGB uint8 H x W x 3; `moves` are maps of speed against the camera, H x W in pixels."""
    seen: list[Rectangle] = []
    for places in [*moves, None]:
        if places is None:
            if seen:
                return  # something moves, so what only stands out does not count
            places = _spectral_residual(np.asarray(cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY), np.uint8))
        for part in _parts(places):
            outlined = _cut_out(frame, part)
            if outlined is None or any(_overlap(outlined[0], box) > 0.7 for box in seen):
                continue
            seen.append(outlined[0])
            yield _described(frame, *outlined, moves)


def _spectral_residual(grey: Image) -> _Floats:
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


def _parts(places: _Floats) -> Iterator[_Mask]:
    """The connected parts of a map that hold most of it."""
    smooth = cv2.GaussianBlur(places, (0, 0), 1.2)
    high = (smooth > max(_STILL, 0.4 * float(np.percentile(smooth, 99.5)))).astype(np.uint8)
    opened = cv2.morphologyEx(high, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    count, labels = cv2.connectedComponents(opened)
    held = np.bincount(labels.ravel(), weights=smooth.ravel(), minlength=count)
    held[0] = 0
    for label in np.argsort(-held, kind="stable")[:_CANDIDATES]:
        part: _Mask = labels == label
        if held[label] > 0 and part.sum() >= _LEAST_PIXELS:
            yield part


def _bounds(part: _Mask) -> Rectangle:
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _cut_out(frame: Image, part: _Mask) -> tuple[Rectangle, _Mask] | None:
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


def _described(frame: Image, box: Rectangle, part: _Mask, moves: Sequence[_Floats]) -> Candidate:
    height, width = part.shape
    x0, y0, x1, y1 = box
    margin = max(4, (x1 - x0 + y1 - y0) // 6)
    around = np.zeros_like(part)
    around[max(0, y0 - margin) : y1 + margin, max(0, x0 - margin) : x1 + margin] = True
    around &= cv2.dilate(part.astype(np.uint8), np.ones((3, 3), np.uint8)) == 0
    colours = histogram(frame, part)
    contrast = 1 - float(colours @ histogram(frame, around)) if around.any() else 0.0
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
    return Candidate(box, colours, contrast, weight * (0.35 if area > 0.5 else 1) * float(np.exp(-(aside**2))))


def histogram(frame: Image, part: _Mask) -> _Floats:
    """Colours of a part of a frame: square roots of the shares of 8 x 8 x 8 colours, smoothed, of length 1."""
    bins = frame[part].astype(np.int64) * _LEVELS // 256
    counts = np.bincount((bins[:, 0] * _LEVELS + bins[:, 1]) * _LEVELS + bins[:, 2], minlength=_LEVELS**3)
    cube = np.pad(counts.reshape((_LEVELS,) * 3).astype(np.float64), 1, mode="edge")
    for axis in range(3):
        cube = 0.5 * cube + 0.25 * (np.roll(cube, 1, axis) + np.roll(cube, -1, axis))
    root = np.sqrt(cube[1:-1, 1:-1, 1:-1].ravel())
    return np.asarray(root / (np.linalg.norm(root) + 1e-9), np.float32)


def _overlap(first: Rectangle, second: Rectangle) -> float:
    across = max(0, min(first[2], second[2]) - max(first[0], second[0]))
    down = max(0, min(first[3], second[3]) - max(first[1], second[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return across * down / (sum(areas) - across * down)
