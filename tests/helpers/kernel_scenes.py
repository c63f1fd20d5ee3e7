"""A drawn scene, guides and bounds, by which tests run every kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from looping import each
from scipy import ndimage

from perturbations.base import rng
from perturbations.models.guides import style_pictures
from perturbations.suites.suite_registry import Perturbation

Apply = Callable[[np.ndarray, int], np.ndarray]


SIZES = [(37, 53), (64, 48), (1, 1), (1, 9), (9, 1), (2, 3), (3, 2), (5, 31)]


each_severity = each("severity", range(1, 6))


each_size = each("size", SIZES)


def motion_of(num_frames: int, height: int, width: int) -> Callable[[int], tuple[np.ndarray, float, bool]]:
    """Half of the frame moves, into a direction that changes."""
    mask = np.broadcast_to(np.arange(width) * 2 >= width, (height, width)).copy()
    return lambda index: (mask, 30.0 + 50 * index, False)


def boxes_of(num_frames: int, height: int, width: int) -> np.ndarray:
    """A box in every frame but the last of several."""
    boxes = np.repeat([[0, 0, max(1, width * 3 // 4), max(1, height * 3 // 4)]], num_frames, axis=0).astype(np.float32)
    boxes[num_frames - 1 if num_frames > 1 else num_frames :] = np.nan
    return boxes


# What guided kernels are told of a clip.
GUIDES: dict[str, Callable[[int, int, int], Any]] = {
    "motion": motion_of,
    "main_object": boxes_of,
    "style": lambda *_: style_pictures.painter(
        style_pictures.StyleGuide(version=1, backend="offline", files={}),
        style_pictures.StyleFacts(style="mosaic", files={}),
    ),
    "frost": lambda *_: None,
    "clock": lambda num_frames, *_: np.arange(num_frames) / 25,
    "frame_rate": lambda *_: 25.0,
    "donor": lambda num_frames, *_: (num_frames, 1.3),
    "random_donor": lambda *_: (100_000, 25.0),
}


def scene(num_frames: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    """Coloured blobs under fine texture, drifting; some black, some white."""
    generator = np.random.default_rng(seed)
    coarse = ndimage.zoom(generator.normal(128, 90, (height // 8 + 3, width // 8 + 3, 3)), (8, 8, 1), order=1)
    texture = generator.normal(0, 6, coarse.shape)
    picture = np.clip(coarse + texture, 0, 255).astype(np.uint8)
    return np.stack([picture[:height, i % 8 : i % 8 + width] for i in range(num_frames)])


def drawn(entry: Perturbation, num_frames: int, height: int, width: int, seed: int = 0, item: str = "clip") -> Any:
    if entry.realization is None:
        return None
    generator = rng.generator(seed, "demo", item, entry.key, None if entry.draw == "clip" else 0)
    return entry.realization(generator, num_frames, height, width)


def bound(entry: Perturbation, severity: int, realization: Any, shape: tuple[int, ...]) -> Apply:
    kernel = entry.kernel
    guide = () if entry.guide is None else (GUIDES[entry.guide](*shape[:3]),)
    apply: Apply = kernel(realization, *guide, *shape[:3], **entry.parameters(severity))
    return apply


def perturbed(entry: Perturbation, severity: int, frames: np.ndarray, seed: int = 0, item: str = "clip") -> np.ndarray:
    apply = bound(entry, severity, drawn(entry, *frames.shape[:3], seed, item), frames.shape)
    return np.stack([apply(frame, index) for index, frame in enumerate(frames)])


def perturbed_size(entry: Perturbation, realization: Any, size: tuple[int, ...], **parameters: Any) -> tuple[int, ...]:
    """Height, width and channels of the frames that a kernel makes of T x H x W x 3."""
    if entry.shape is None:
        return size[1:]
    shape = entry.shape([realization], *size[:3], **parameters)
    return shape.height, shape.width, 3


MOST_EQUAL = 0.96
"""The share of equal values that any clip can be held to: a reference's floats decide where a level rounds."""


def assert_close(ours: np.ndarray, exact: np.ndarray, equal_share: float = MOST_EQUAL) -> None:
    """At most one grey level apart, and equal in at least this share of the values."""
    assert ours.shape == exact.shape
    difference = np.abs(ours.astype(int) - exact)
    assert difference.max() <= 1
    assert np.mean(difference == 0) >= equal_share


def truncated(y: np.ndarray) -> np.ndarray:
    """uint8 levels of y in [0, 1]; sums in double precision may end a hair below a whole number."""
    return np.floor(np.clip(y, 0, 1) * 255 + 1e-7).astype(int)
