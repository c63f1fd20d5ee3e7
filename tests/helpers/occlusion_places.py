"""Where the reference places its occlusions."""

from __future__ import annotations

import numpy as np

from perturbations.video import occlusion


def occlusion_places(
    draws: np.ndarray, boxes: np.ndarray, height: int, width: int, ratio: float
) -> tuple[occlusion.OcclusionPlaces, list[tuple[int, int, int]]]:
    """The places that give recorded whole numbers, which the reference drew in order; and each with its range.

    Before the first box the rectangle's sides are drawn; in another frame without a box how far it moves, in one with a
    box its place, and in one whose box has no area nothing. Ranges are (number, low, high excluded), across and down.
    """
    frame_size = np.array([width, height])
    uniform, size, ranges = np.zeros((len(boxes), 2)), np.zeros(2), []
    rest, known = iter(draws.reshape(-1, 2)), False
    for index, box in enumerate(boxes):
        low, high = np.array([-5, -5]), np.array([6, 6])
        if not np.isnan(box).any():
            low, end = np.clip(box.astype(int).reshape(2, 2), 0, frame_size)
            if (end <= low).any():
                continue
            high = np.maximum(low + 1, end - ((end - low) * ratio**0.5).astype(int))
        elif not known:
            low, high = frame_size // 8, frame_size // 4
        number = next(rest)
        ranges += zip(number.tolist(), low.tolist(), high.tolist(), strict=True)
        drawn = (number - low + 0.5) / (high - low)
        if np.isnan(box).any() and not known:
            size = drawn
        else:
            uniform[index] = drawn
        known = True
    assert not list(rest)
    return occlusion.OcclusionPlaces(uniform, size), ranges
