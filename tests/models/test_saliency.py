"""The offline main-object detector."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
import scenes

from benchmarks import main_object
from perturbations.demo import film
from perturbations.media.clip import uniform_indices
from perturbations.models.analysis import saliency, tracking

Box = tuple[float, float, float, float]


def sightings(frames: list[np.ndarray], analysed: int = 12) -> list[saliency.Sighting]:
    """The main object in the analysed frames."""
    positions = uniform_indices(analysed, len(frames))
    small = {place: saliency.shrunk(frames[place]) for place in saliency.neighbourhood(positions, len(frames))}
    return [saliency.sighting(small, position, frames[0].shape[:2]) for position in positions]


def boxes_of(seen: list[saliency.Sighting], frames: list[np.ndarray]) -> np.ndarray:
    """The main object's box in every frame."""
    positions = uniform_indices(len(seen), len(frames))
    return tracking.interpolate(positions, [sighting.box for sighting in seen], [0] * len(seen), len(frames))


def boxes_in(frames: list[np.ndarray], analysed: int = 12) -> np.ndarray:
    return boxes_of(sightings(frames, analysed), frames)


def overlap(first: Box, second: Box) -> float:
    across = max(0.0, min(first[2], second[2]) - max(first[0], second[0]))
    down = max(0.0, min(first[3], second[3]) - max(first[1], second[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return across * down / (sum(areas) - across * down)


def share_of_frames(boxes: np.ndarray, truth: Sequence[Box]) -> float:
    """In which share of the frames the box is the object's."""
    pairs = zip(boxes, truth, strict=True)
    return float(np.mean([not np.isnan(box[0]) and overlap(tuple(box), real) >= 0.5 for box, real in pairs]))


def test_the_demo_s_objects_are_found() -> None:
    """In at least 90 % of all frames, over clips that no number was chosen for."""
    shares = [share_of_frames(boxes_in(list(film.frames(index))), scenes.boxes(index)) for index in range(40, 44)]
    assert np.mean(shares) >= 0.9


def textured(height: int, width: int, seed: int, low: int, high: int) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(low, high, (height // 4 + 1, width // 4 + 1, 3), dtype=np.uint8)
    return cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)


def panned(pan: int, speed: int | None, offset: int = 150) -> list[np.ndarray]:
    """A camera that moves over a background, and a square that moves in its picture, if there is one."""
    background, square = textured(150, 500, 0, 60, 150), textured(40, 40, 1, 120, 255)
    frames = []
    for index in range(30):
        frame = background[:, offset + pan * index : offset + pan * index + 220].copy()
        if speed is not None:
            x = 40 + speed * index
            frame[50:90, x : x + 40] = square
        frames.append(frame)
    return frames


@pytest.mark.parametrize(("pan", "speed"), [(0, 3), (2, 3), (2, 0), (-3, 2)])
def test_what_moves_against_the_camera(pan: int, speed: int) -> None:
    """A square that keeps its place in the picture while the camera moves does too."""
    truth = [(40 + speed * index, 50, 80 + speed * index, 90) for index in range(30)]
    assert share_of_frames(boxes_in(panned(pan, speed), analysed=6), truth) >= 0.9


def test_where_nothing_moves_the_centre_counts() -> None:
    busy = textured(150, 200, 3, 0, 255)
    seen = sightings([busy] * 10)
    assert {sighting.source for sighting in seen} == {"centre"}
    for sighting in seen:
        assert overlap(sighting.box, (50, 30, 150, 120)) > 0.7


@pytest.mark.parametrize(("speed", "source"), [(2, "motion"), (None, "centre")])
def test_a_square_that_moves_is_an_object_by_itself_and_a_panned_scene_is_not(speed: int | None, source: str) -> None:
    assert {sighting.source for sighting in sightings(panned(3, speed, offset=0), 4)} == {source}


def test_boxes_drawn_by_hand_on_real_clips(reference: Path) -> None:
    """Ten clips, every third of 12 labelled frames; all of them: `benchmarks/main_object.py`."""
    table = main_object.boxes(reference / "data", every=3)
    assert table["clip"].nunique() == 10
    detector, centre = (own for _, own in table.groupby("whose", sort=False))
    overlaps = detector["overlap"].dropna()
    assert (overlaps >= 0.5).mean() >= 0.6
    assert main_object.share(overlaps) >= max(0.7, main_object.share(centre["overlap"]))
    assert overlaps.median() > centre["overlap"].median()
    assert detector["area"].median() >= 0.1


def test_the_same_clip_gives_the_same_boxes_and_stays_as_it_was() -> None:
    frames = list(film.frames(4))[:30]
    before = [frame.copy() for frame in frames]
    first = boxes_in(frames, 4)
    cv2.setRNGSeed(77)
    assert np.array_equal(first, boxes_in(frames, 4), equal_nan=True)
    assert all(np.array_equal(frame, other) for frame, other in zip(frames, before, strict=True))


@pytest.mark.parametrize(
    "frames",
    [
        [np.zeros((60, 80, 3), np.uint8)] * 5,
        [np.zeros((1, 1, 3), np.uint8)],
        [np.full((2, 2, 3), 9, np.uint8)] * 3,
        [np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)],
        list(np.random.default_rng(0).integers(0, 256, (9, 40, 50, 3), dtype=np.uint8)),
        [np.full((16, 300, 3), 50, np.uint8)] * 2,
    ],
    ids=["black", "a-pixel", "4-pixels", "one-frame", "noise", "a-strip"],
)
def test_clips_without_an_object(frames: list[np.ndarray]) -> None:
    seen = sightings(frames)
    boxes = boxes_of(seen, frames)
    height, width = frames[0].shape[:2]
    assert boxes.shape == (len(frames), 4)
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, :2] < boxes[:, 2:]).all()
    assert (boxes[:, 2:] <= (width, height)).all()
    if len({frame.tobytes() for frame in frames}) == 1:
        assert {sighting.source for sighting in seen} == {"centre"}


def test_portrait_and_large_frames_give_boxes_in_their_own_pixels() -> None:
    frames, truth = list(film.frames(0))[:24], scenes.boxes(0)[:24]
    large = [cv2.resize(frame, (1280, 960)) for frame in frames]
    assert share_of_frames(boxes_in(large, 4), [tuple(4 * side for side in box) for box in truth]) >= 0.9
    upright = [np.ascontiguousarray(np.rot90(frame)) for frame in frames]
    assert share_of_frames(boxes_in(upright, 4), [(box[1], 320 - box[2], box[3], 320 - box[0]) for box in truth]) >= 0.9


def test_the_frames_that_are_needed() -> None:
    assert saliency.neighbourhood([10], 100) == {9, 10, 11}
    assert saliency.neighbourhood([0, 3], 4) == {0, 1, 2, 3}
