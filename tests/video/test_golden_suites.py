"""The kernels of MSRVTT-P and MM-Robustness against what reference code made of the same frames and draws.

`imagecorruptions` is ImageNet-C's library on a drawn frame: see golden/README.md. Of the other set, any recorded one of
the same form will do: other clips, other sizes, other numbers of frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from copies import ROOT
from kernel_scenes import AT_45_DB, MOST_EQUAL, assert_close, each_severity, golden_frame, mean_square
from looping import each
from scipy import stats

from perturbations.suites import suite_registry
from perturbations.video import noise


@pytest.fixture(scope="module")
def golden(reference: Path) -> Any:
    return np.load(reference / "golden" / "image.npz")


@pytest.fixture(scope="module")
def library() -> dict[str, np.ndarray]:
    with np.load(ROOT / "tests" / "golden/imagecorruptions.npz") as held:
        return {name: held[name] for name in held.files}


def perturbed(
    key: str, severity: int, frame: np.ndarray, realization: Any = None, variant: str | None = None, **changed: Any
) -> np.ndarray:
    entry = suite_registry.get(key, variant)
    parameters = {**entry.parameters(severity), **changed}
    apply = entry.kernel(realization, 1, *frame.shape[:2], **parameters)
    result: np.ndarray = apply(frame, 0)
    return result


# Both compute in floats: sums that are whole numbers end a hair below or above one, and are truncated. The drawn frame
# has flat parts, whose means are whole numbers.
FLAT = 0.85
SHARES = {"defocus_blur": MOST_EQUAL, "zoom_blur": 0.9, "motion_blur": MOST_EQUAL, "static_rotate": MOST_EQUAL}
LIBRARY_SHARES = {
    **{
        f"{suite}/{name}": FLAT
        for suite in ("msrvtt_p", "mm_robustness")
        for name in ("defocus_blur", "zoom_blur", "motion_blur")
    },
    **{"mm_robustness/brightness": 0.9, "mm_robustness/contrast": 1.0, "mm_robustness/pixelate": 1.0},
}


@each_severity
@each("name", SHARES)
def test_what_draws_no_numbers_but_angles(golden: Any, name: str, severity: int) -> None:
    theirs = golden[f"msrvtt_p/{name}/{severity}"]
    angles = golden[f"msrvtt_p/{name}/{severity}/angle"] if name == "motion_blur" else [None] * len(theirs)
    for picture, angle, blurred in zip(golden["frames"], angles, theirs, strict=True):
        assert_close(perturbed(f"msrvtt_p/{name}", severity, picture, angle and float(angle)), blurred, SHARES[name])


def generator(severity: int) -> np.random.RandomState:
    """The generator as it stood before the library's recorded call."""
    return np.random.RandomState(100 + severity)


@each_severity
@each("key", LIBRARY_SHARES)
def test_what_draws_no_numbers_but_angles_in_the_library(
    library: dict[str, np.ndarray], key: str, severity: int
) -> None:
    name = key.partition("/")[2]
    angle = generator(severity).uniform(-45, 45) if name == "motion_blur" else None
    # The library's last range ends at 1.31, as MSRVTT-P's, and not at MM-Robustness's 1.33.
    changed = {"stop": 1.31} if (name, severity) == ("zoom_blur", 5) else {}
    assert_close(
        perturbed(key, severity, golden_frame(), angle, **changed), library[f"{name}/{severity}"], LIBRARY_SHARES[key]
    )


@each_severity
def test_jpeg(golden: Any, severity: int) -> None:
    for picture, theirs in zip(golden["frames"], golden[f"msrvtt_p/jpeg/{severity}"], strict=True):
        # Recorded with RGB frames: the feature extractors' program, not the writer, which exchanges red and blue.
        assert mean_square(perturbed("msrvtt_p/jpeg", severity, picture, variant="released_online"), theirs) < AT_45_DB


@each_severity
@each("key", ["msrvtt_p/jpeg", "mm_robustness/jpeg_compression"])
def test_jpeg_of_the_library(library: dict[str, np.ndarray], key: str, severity: int) -> None:
    ours = perturbed(key, severity, golden_frame(), variant="paper")
    assert mean_square(ours, library[f"jpeg_compression/{severity}"]) < AT_45_DB


@each_severity
def test_gaussian_noise(library: dict[str, np.ndarray], severity: int) -> None:
    """MLVP's kernel takes the numbers themselves; all three suites have the library's deviations."""
    unit = generator(severity).normal(size=golden_frame().shape)
    ours = perturbed("mlvp/gaussian_noise", severity, golden_frame(), unit)
    assert np.array_equal(ours, library[f"gaussian_noise/{severity}"])


@each_severity
def test_shot_noise(golden: Any, severity: int) -> None:
    """The levels of the recorded Poisson numbers; and our own numbers, of the quantiles that they have."""
    rate = suite_registry.get("msrvtt_p/shot_noise").parameters(severity)["strength"]
    counts = golden[f"msrvtt_p/shot_noise/{severity}/counts"]
    theirs = golden[f"msrvtt_p/shot_noise/{severity}"]
    assert_close(noise.shot_levels(counts, rate), theirs)
    # The rank in the middle of the quantiles whose Poisson number is the recorded one.
    mean = rate * golden["frames"][0] / 255
    middle = (stats.poisson.cdf(counts - 1, mean) + stats.poisson.cdf(counts, mean)) / 2
    ranks = np.clip(middle * 65536, 0, 65535).astype(np.uint16)
    ours = perturbed("msrvtt_p/shot_noise", severity, golden["frames"][0], ranks)
    assert np.mean(ours == theirs) >= MOST_EQUAL  # all but what is rarer than 1 in 16,384


@each_severity
def test_shot_noise_of_the_library(library: dict[str, np.ndarray], severity: int) -> None:
    rate = suite_registry.get("mm_robustness/shot_noise").parameters(severity)["rate"]
    counts = generator(severity).poisson(golden_frame() / 255.0 * rate)
    assert np.array_equal(noise.shot_levels(counts, rate), library[f"shot_noise/{severity}"])


def speckled(key: str, severity: int, picture: np.ndarray, unit: np.ndarray, theirs: np.ndarray) -> Iterator[bool]:
    """With the nearest rank of every number: 1/65,536 of the distribution is the noise's grain, coarse in its tails."""
    quantiles = noise.normal_quantiles()
    ranks = np.searchsorted((quantiles[1:] + quantiles[:-1]) / 2, unit).astype(np.uint16)
    ours = perturbed(key, severity, picture, ranks)
    yield bool(np.mean(ours == theirs) >= MOST_EQUAL)
    yield bool(np.abs(ours.astype(int) - theirs)[np.abs(unit) < 4].max() <= 1)


@each_severity
def test_speckle_noise(golden: Any, severity: int) -> None:
    scale = suite_registry.get("msrvtt_p/speckle_noise").parameters(severity)["scale"]
    unit = golden[f"msrvtt_p/speckle_noise/{severity}/noise"] / scale
    assert unit.std() == pytest.approx(1, abs=5 / (2 * unit.size) ** 0.5)
    theirs = golden[f"msrvtt_p/speckle_noise/{severity}"]
    assert all(speckled("msrvtt_p/speckle_noise", severity, golden["frames"][0], unit, theirs))


@each_severity
def test_speckle_noise_of_the_library(library: dict[str, np.ndarray], severity: int) -> None:
    unit = generator(severity).normal(size=golden_frame().shape)
    theirs = library[f"speckle_noise/{severity}"]
    assert all(speckled("mm_robustness/speckle_noise", severity, golden_frame(), unit, theirs))
