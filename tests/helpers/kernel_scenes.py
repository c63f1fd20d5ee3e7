"""A drawn scene, guides and bounds, by which tests run every kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from looping import each
from scipy import ndimage

from perturbations.base import rng
from perturbations.media import quality
from perturbations.media.clip import Image
from perturbations.models.guides import style_pictures
from perturbations.suites.suite_registry import Perturbation
from perturbations.video import occlusion

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


def frames_of(size: tuple[int, int]) -> np.ndarray:
    """Three pictures, noise among them, a black one and a white one."""
    noisy = np.random.default_rng(1).integers(0, 256, (1, *size, 3), dtype=np.uint8)
    plain = [np.full((1, *size, 3), level, np.uint8) for level in (0, 255)]
    return np.concatenate([scene(2, *size), noisy, *plain])


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


def golden_frame() -> np.ndarray:
    """48 x 64 RGB uint8: curved slopes, a disk, a chequered corner, a black and a white bar."""
    rows, columns = np.mgrid[:48, :64]
    image = np.stack(
        [columns**2 // 16, (rows * columns) // 12, 250 - (rows**2 + 3 * rows * columns % 37) // 11], axis=2
    )
    image[(rows - 20) ** 2 + (columns - 24) ** 2 < 130] = (220, 60, 30)
    checks = (rows // 5 + columns // 5) % 2 == 0
    image[checks & (rows >= 28) & (columns >= 40)] = (20, 90, 200)
    image[4:7, 8:56], image[40:42, 4:32] = 0, 255
    return image.astype(np.uint8)


def psnr(*pairs: tuple[Image, Image]) -> float:
    distortion = quality.Distortion(structural=False)
    for first, second in pairs:
        distortion.add(first, second)
    assert distortion.psnr_db is not None
    return distortion.psnr_db


AT_45_DB = 255**2 / 10**4.5


def mean_square(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.mean((first.astype(float) - second) ** 2))


def digest_clip() -> np.ndarray:
    """Four frames of a coloured texture that moves, made of whole numbers."""
    texture = np.random.default_rng(5).integers(0, 256, (24, 32, 3)).repeat(4, 0).repeat(4, 1)
    for axis in (0, 1):
        texture = sum(np.roll(texture, shift, axis) for shift in range(-2, 3)) // 5
    return np.stack([texture[index : index + 61, 2 * index : 2 * index + 83] for index in range(4)]).astype(np.uint8)
