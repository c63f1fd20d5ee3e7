"""Detections of a few frames become objects with tracks and ranks, and boxes for every frame (MLVP, Alg. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_SAME = 0.85
"""Above this cosine similarity, an object of another frame belongs to the track."""

_PERSISTENCE, _AREA, _CONFIDENCE = 0.5, 0.3, 0.2


class Detection(NamedTuple):
    """One object that a detector found in one frame.

    Attributes:
        box: (x0, y0, x1, y1) in pixels of the frame, 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height.
        score: confidence in [0, 1].
        label: the searched word that it matches; empty for a detector that needs no words.
        embedding: L2-normalized float32 vector of the box's content, for tracking.
    """

    box: tuple[float, float, float, float]
    score: float
    label: str
    embedding: npt.NDArray[np.float32]


Object = dict[str, Any]
"""A ranked object of one frame, as rows keep it.

`label`; `box`, (x0, y0, x1, y1) in pixels; `track`, a number; `confidence`, `persistence`, `area` and `score`, in
[0, 1], see `rank`.
"""


def track(frames: Sequence[Sequence[Detection]]) -> list[list[int]]:
    """Give each detection of each frame a track (Alg. 3, line 14).

    Detections are taken in order of appearance. A detection joins the first track whose first object it resembles, if
    the track has no object in this frame yet; otherwise it begins a new track.
    """
    firsts: list[npt.NDArray[np.float32]] = []
    last_seen: list[int] = []
    tracks: list[list[int]] = []
    for number, detections in enumerate(frames):
        tracks.append([])
        for detection in detections:
            for index, first in enumerate(firsts):
                if last_seen[index] < number and float(first @ detection.embedding) > _SAME:
                    break
            else:
                index = len(firsts)
                firsts.append(detection.embedding)
                last_seen.append(number)
            last_seen[index] = number
            tracks[-1].append(index)
    return tracks


def rank(frames: Sequence[Sequence[Detection]], height: int, width: int) -> list[list[Object]]:
    """Each frame's objects, best first (Alg. 3, lines 15 to 25).

    An object's score is 0.5 persistence + 0.3 area ratio + 0.2 confidence: the share of frames that its track appears
    in, the part of the frame that its box covers, and the detector's own score.
    """
    tracks = track(frames)
    appearances = np.bincount([index for indices in tracks for index in indices] or [0])
    ranked = []
    for detections, indices in zip(frames, tracks, strict=True):
        objects: list[Object] = []
        for detection, index in zip(detections, indices, strict=True):
            x0, y0, x1, y1 = detection.box
            confidence = float(detection.score)
            persistence = float(appearances[index] / len(frames))
            area = (x1 - x0) * (y1 - y0) / (height * width)
            numbers = {
                "confidence": confidence,
                "persistence": persistence,
                "area": area,
                "score": _PERSISTENCE * persistence + _AREA * area + _CONFIDENCE * confidence,
            }
            box = tuple(round(float(edge), 2) for edge in detection.box)
            rounded = {name: round(float(number), 4) for name, number in numbers.items()}
            objects.append({"label": detection.label, "box": box, "track": index, **rounded})
        ranked.append(sorted(objects, key=lambda ranked_object: -ranked_object["score"]))
    return ranked


def interpolate(
    positions: Sequence[int],
    boxes: Sequence[Sequence[float] | None],
    tracks: Sequence[int | None],
    num_frames: int,
) -> npt.NDArray[np.float64]:
    """The main object's box in every frame of a clip: num_frames x 4 (x0, y0, x1, y1), NaN without an object.

    Between two analysed frames that show the same track the box moves in a straight line. Otherwise a frame has the box
    of the nearest analysed frame (of two equally near frames, the earlier), or NaN if that frame has no box.
    """
    places, first = np.unique(np.asarray(positions), return_index=True)
    known = np.array([boxes[index] or (np.nan,) * 4 for index in first], np.float64)
    track_of = [tracks[index] for index in first]
    every = np.arange(num_frames)
    before = np.clip(np.searchsorted(places, every, side="right") - 1, 0, None)
    after = np.clip(before + 1, None, len(places) - 1)
    span = np.maximum(places[after] - places[before], 1)
    part = np.clip((every - places[before]) / span, 0, 1)[:, None]
    together = np.array([track is not None and track == following for track, following in pairwise(track_of)], bool)
    same = np.append(together, False)[before][:, None]
    straight = (1 - part) * known[before] + part * known[after]
    nearest = np.where(part <= 0.5, known[before], known[after])
    interpolated: npt.NDArray[np.float64] = np.where(same & (part > 0) & (part < 1), straight, nearest)
    return interpolated
