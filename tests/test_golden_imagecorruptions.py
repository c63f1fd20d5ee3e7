"""The kernels of the suites after ImageNet-C against imagecorruptions 1.1.2 on a drawn frame: see golden/README.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from golden_frame import frame
from looping import each
from test_golden_suites import AT_45_DB, SHARES, mean_square, perturbed
from test_kernels import assert_close, each_severity

from perturbations.suites import registry
from perturbations.video import noise


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(Path(__file__).parent / "golden/imagecorruptions.npz") as held:
        return {name: held[name] for name in held.files}


# Flat parts have means that are whole numbers: the library's floats end a hair below or above, and are truncated.
FLAT = 0.85


def generator(severity: int) -> np.random.RandomState:
    """The generator as it stood before the recorded call."""
    return np.random.RandomState(100 + severity)


@each_severity
@each("suite", ["msrvtt_p", "mm_robustness"])
@each("name", SHARES)
def test_blur(golden: dict[str, np.ndarray], name: str, suite: str, severity: int) -> None:
    # The library's last range ends at 1.31, as MSRVTT-P's, and not at MM-Robustness's 1.33.
    changed = {"stop": 1.31} if (name, severity) == ("zoom_blur", 5) else {}
    ours = perturbed(f"{suite}/{name}", severity, frame(), **changed)
    assert_close(ours, golden[f"{name}/{severity}"], FLAT)


@each_severity
@each("suite", ["msrvtt_p", "mm_robustness"])
def test_motion_blur(golden: dict[str, np.ndarray], suite: str, severity: int) -> None:
    angle = generator(severity).uniform(-45, 45)
    assert_close(perturbed(f"{suite}/motion_blur", severity, frame(), angle), golden[f"motion_blur/{severity}"], FLAT)


@each_severity
@each("key", ["msrvtt_p/jpeg", "mm_robustness/jpeg_compression"])
def test_jpeg(golden: dict[str, np.ndarray], key: str, severity: int) -> None:
    assert (
        mean_square(perturbed(key, severity, frame(), variant="paper"), golden[f"jpeg_compression/{severity}"])
        < AT_45_DB
    )


@each_severity
@each("name", ["contrast", "pixelate"])
def test_exact(golden: dict[str, np.ndarray], name: str, severity: int) -> None:
    assert np.array_equal(perturbed(f"mm_robustness/{name}", severity, frame()), golden[f"{name}/{severity}"])


@each_severity
def test_brightness(golden: dict[str, np.ndarray], severity: int) -> None:
    assert_close(perturbed("mm_robustness/brightness", severity, frame()), golden[f"brightness/{severity}"], 0.9)


@each_severity
def test_gaussian_noise(golden: dict[str, np.ndarray], severity: int) -> None:
    """MLVP's kernel takes the numbers themselves; all three suites have the library's deviations."""
    unit = generator(severity).normal(size=frame().shape)
    assert np.array_equal(
        perturbed("mlvp/gaussian_noise", severity, frame(), unit), golden[f"gaussian_noise/{severity}"]
    )


@each_severity
def test_speckle_noise(golden: dict[str, np.ndarray], severity: int) -> None:
    """With the nearest rank of every number: 1/65,536 of the distribution is the noise's grain."""
    unit = generator(severity).normal(size=frame().shape)
    quantiles = noise.normal_quantiles()
    ranks = np.searchsorted((quantiles[1:] + quantiles[:-1]) / 2, unit).astype(np.uint16)
    ours = perturbed("mm_robustness/speckle_noise", severity, frame(), ranks)
    theirs = golden[f"speckle_noise/{severity}"]
    assert np.mean(ours == theirs) > 0.98
    assert np.abs(ours.astype(int) - theirs)[np.abs(unit) < 4].max() <= 1


@each_severity
def test_shot_noise(golden: dict[str, np.ndarray], severity: int) -> None:
    """The levels of the library's Poisson numbers."""
    rate = registry.get("mm_robustness/shot_noise").parameters(severity)["rate"]
    counts = generator(severity).poisson(frame() / 255.0 * rate)
    assert np.array_equal(noise.shot_levels(counts, rate), golden[f"shot_noise/{severity}"])
