"""What every visual kernel must keep to: purity, keys, shared realizations, rising distortion, any small clip."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looping import each
from scipy import ndimage

from perturbations.base import rng
from perturbations.models.guides import style
from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import Perturbation

Apply = Callable[[np.ndarray, int], np.ndarray]
PIXEL = [
    form for entry in suite_registry.perturbations(kind="video") if entry.method == "pixel" for form in entry.forms()
]
GROWING = [entry for entry in PIXEL if entry.monotonic and entry.shape is None]
SCENARIOS = [(entry, severity) for entry in PIXEL for severity in entry.severities]
SIZES = [(37, 53), (64, 48), (1, 1), (1, 9), (9, 1), (2, 3), (3, 2), (5, 31)]


def form_key(entry: Perturbation) -> str:
    return f"{entry.key}-{entry.variant}"


each_entry = pytest.mark.parametrize("entry", PIXEL, ids=form_key)
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
    "style": lambda *_: style.painter(
        style.StyleGuide(version=1, backend="offline", files={}),
        style.StyleFacts(style="mosaic", files={}),
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


@each_entry
def test_a_kernel_is_a_function_of_a_frame_and_its_index(entry: Perturbation) -> None:
    """It leaves its input alone, gives an array of its own, and neither order nor memory layout of frames matters."""
    for severity in entry.severities:
        check_kernel(entry, severity)


def check_kernel(entry: Perturbation, severity: int) -> None:
    frames = scene(4, 36, 50)
    before = frames.copy()
    frames.flags.writeable = False
    realization = drawn(entry, *frames.shape[:3])
    apply = bound(entry, severity, realization, frames.shape)
    size = perturbed_size(entry, realization, frames.shape, **entry.parameters(severity))
    results = [apply(frame, index) for index, frame in enumerate(frames)]
    kept = [apply(frame, index).copy() for index, frame in enumerate(frames)]
    assert not np.array_equal(results, frames)
    assert not np.shares_memory(results[0], results[1])
    for result, expected in zip(results, kept, strict=True):
        assert (result.shape, result.dtype) == (size, np.uint8)
        assert np.array_equal(result, expected)
        assert not np.shares_memory(result, frames)
        assert result.flags.writeable
        assert result.flags.c_contiguous
        result[...] = 0
    for index in (3, 1, 1, 0, 2):
        padded = np.pad(frames[index], ((2, 2), (3, 3), (0, 0)))
        assert np.array_equal(apply(padded[2:-2, 3:-3], index), kept[index])
    assert np.array_equal(frames, before)


def on_some_clip(holds: Callable[[np.ndarray], bool], height: int, width: int) -> bool:
    """Whether something holds on a clip of two frames or, for kernels that change a stretch of a clip, of many."""
    return any(holds(scene(num_frames, height, width)) for num_frames in (2, 80))


@each_entry
def test_the_key_determines_the_bytes(entry: Perturbation) -> None:
    frames = scene(2, 24, 32)
    others: list[dict[str, Any]] = [{"item": "other"}, {"seed": 1}]
    for severity in entry.severities:
        assert np.array_equal(perturbed(entry, severity, frames), perturbed(entry, severity, frames)), severity
        for other in others if entry.realization is not None else ():

            def differs(frames: np.ndarray, severity: int = severity, other: dict[str, Any] = other) -> bool:
                same = perturbed(entry, severity, frames)
                return not np.array_equal(perturbed(entry, severity, frames, **other), same)

            assert on_some_clip(differs, 24, 32), (severity, other)


@pytest.mark.parametrize("entry", [form for form in PIXEL if form.realization is not None], ids=form_key)
def test_the_severities_share_a_realization(entry: Perturbation) -> None:
    """One draw serves them all, and none of them changes it."""
    frames = scene(3, 24, 32)
    realization = drawn(entry, *frames.shape[:3])
    untouched = copy.deepcopy(realization)
    for severity in entry.severities:
        apply = bound(entry, severity, realization, frames.shape)
        shared = np.stack([apply(frame, index) for index, frame in enumerate(frames)])
        assert np.array_equal(shared, perturbed(entry, severity, frames))
    parts, originals = (value if isinstance(value, tuple) else (value,) for value in (realization, untouched))
    for part, original in zip(parts, originals, strict=True):
        assert np.array_equal(part, original)


@each("seed", range(3))
@pytest.mark.parametrize("entry", GROWING, ids=form_key)
def test_distortion_never_falls(entry: Perturbation, seed: int) -> None:
    frames = scene(4, 60, 80, seed)
    errors = [np.abs(perturbed(entry, s, frames, seed).astype(int) - frames).mean() for s in entry.severities]
    assert errors == sorted(errors)
    assert errors[0] > 0


@settings(max_examples=150)
@given(
    scenario=st.sampled_from(SCENARIOS),
    size=st.tuples(st.integers(1, 4), st.integers(1, 26), st.integers(1, 26)),
    seed=st.integers(0, 2**32),
    level=st.none() | st.integers(0, 255),
)
def test_any_small_clip(
    scenario: tuple[Perturbation, int], size: tuple[int, int, int], seed: int, level: int | None
) -> None:
    entry, severity = scenario
    frames = scene(*size, seed) if level is None else np.full((*size, 3), level, np.uint8)
    before = frames.copy()
    result = perturbed(entry, severity, frames, seed)
    expected = perturbed_size(entry, drawn(entry, *size, seed), frames.shape, **entry.parameters(severity))
    assert (result.shape, result.dtype) == ((len(frames), *expected), np.uint8)
    assert np.array_equal(frames, before)
    assert np.array_equal(perturbed(entry, severity, frames, seed), result)
