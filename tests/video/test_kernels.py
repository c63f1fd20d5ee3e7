"""What every visual kernel must keep to: purity, keys, shared realizations, rising distortion, any small clip."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_scenes import (
    bound,
    drawn,
    perturbed,
    perturbed_size,
    scene,
)
from looping import each

from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import Perturbation

PIXEL = [
    form for entry in suite_registry.perturbations(kind="video") if entry.method == "pixel" for form in entry.forms()
]
GROWING = [entry for entry in PIXEL if entry.monotonic and entry.shape is None]
SCENARIOS = [(entry, severity) for entry in PIXEL for severity in entry.severities]


def form_key(entry: Perturbation) -> str:
    return f"{entry.key}-{entry.variant}"


each_entry = pytest.mark.parametrize("entry", PIXEL, ids=form_key)


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
