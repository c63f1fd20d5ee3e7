"""The kernels of MSRVTT-P and MM-Robustness against what the reference code made of the same frames and draws.

Any recorded set of the same form will do: other clips, other sizes, other numbers of frames.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from looping import each
from test_kernels import MOST_EQUAL, assert_close, each_severity

from perturbations.suites import registry
from perturbations.video import noise


@pytest.fixture(scope="module")
def golden(reference: Path) -> Any:
    return np.load(reference / "golden" / "image.npz")


def perturbed(
    key: str, severity: int, frame: np.ndarray, realization: Any = None, variant: str | None = None, **changed: Any
) -> np.ndarray:
    entry = registry.get(key, variant)
    parameters = {**entry.parameters(severity), **changed}
    apply = entry.kernel(realization, 1, *frame.shape[:2], **parameters)
    result: np.ndarray = apply(frame, 0)
    return result


AT_45_DB = 255**2 / 10**4.5


def mean_square(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.mean((first.astype(float) - second) ** 2))


# The reference computes in floats: sums that are whole numbers end a hair below or above one, and are truncated.
SHARES = {"defocus_blur": MOST_EQUAL, "zoom_blur": 0.9}


@each_severity
@each("name", SHARES)
def test_blur(golden: Any, name: str, severity: int) -> None:
    for frame, theirs in zip(golden["frames"], golden[f"msrvtt_p/{name}/{severity}"], strict=True):
        assert_close(perturbed(f"msrvtt_p/{name}", severity, frame), theirs, SHARES[name])


@each_severity
@each("suite", ["msrvtt_p", "mm_robustness"])
def test_motion_blur(golden: Any, suite: str, severity: int) -> None:
    theirs = golden[f"msrvtt_p/motion_blur/{severity}"]
    angles = golden[f"msrvtt_p/motion_blur/{severity}/angle"]
    for frame, angle, blurred in zip(golden["frames"], angles, theirs, strict=True):
        assert_close(perturbed(f"{suite}/motion_blur", severity, frame, float(angle)), blurred)


@each_severity
def test_static_rotate(golden: Any, severity: int) -> None:
    theirs = golden[f"msrvtt_p/static_rotate/{severity}"]
    for frame, turned in zip(golden["frames"], theirs, strict=True):
        assert_close(perturbed("msrvtt_p/static_rotate", severity, frame), turned)


@each_severity
def test_jpeg(golden: Any, severity: int) -> None:
    for frame, theirs in zip(golden["frames"], golden[f"msrvtt_p/jpeg/{severity}"], strict=True):
        # Recorded with RGB frames: the feature extractors' program, not the writer, which exchanges red and blue.
        assert mean_square(perturbed("msrvtt_p/jpeg", severity, frame, variant="released_online"), theirs) < AT_45_DB


@each_severity
def test_shot_noise(golden: Any, severity: int) -> None:
    """The levels of the recorded Poisson numbers; and our own numbers, of the quantiles that they have."""
    rate = registry.get("msrvtt_p/shot_noise").parameters(severity)["strength"]
    counts = golden[f"msrvtt_p/shot_noise/{severity}/counts"]
    theirs = golden[f"msrvtt_p/shot_noise/{severity}"]
    assert_close(noise.shot_levels(counts, rate), theirs)
    ranks = ranks_of_counts(counts, golden["frames"][0], rate)
    ours = perturbed("msrvtt_p/shot_noise", severity, golden["frames"][0], ranks)
    assert np.mean(ours == theirs) >= MOST_EQUAL  # all but what is rarer than 1 in 16,384


def ranks_of_counts(counts: np.ndarray, frame: np.ndarray, rate: float) -> np.ndarray:
    """The rank in the middle of the quantiles whose Poisson number is the given one."""
    from scipy import stats

    mean = rate * frame / 255
    middle = (stats.poisson.cdf(counts - 1, mean) + stats.poisson.cdf(counts, mean)) / 2
    return np.clip(middle * 65536, 0, 65535).astype(np.uint16)


@each_severity
def test_speckle_noise(golden: Any, severity: int) -> None:
    """With the nearest rank of every recorded number: 1/65,536 of the distribution is the noise's grain."""
    recorded = golden[f"msrvtt_p/speckle_noise/{severity}/noise"]
    scale = registry.get("msrvtt_p/speckle_noise").parameters(severity)["scale"]
    assert (recorded / scale).std() == pytest.approx(1, abs=5 / (2 * recorded.size) ** 0.5)
    quantiles = noise.normal_quantiles()
    ranks = np.searchsorted((quantiles[1:] + quantiles[:-1]) / 2, recorded / scale).astype(np.uint16)
    ours = perturbed("msrvtt_p/speckle_noise", severity, golden["frames"][0], ranks)
    theirs = golden[f"msrvtt_p/speckle_noise/{severity}"]
    assert np.mean(ours == theirs) >= MOST_EQUAL
    common = np.abs(recorded / scale) < 4  # the grain of the tails is coarse
    assert np.abs(ours.astype(int) - theirs)[common].max() <= 1
