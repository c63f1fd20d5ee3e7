"""MM-Robustness as released, against arrays that the authors' own functions made of the same frames and draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_golden_suites import AT_45_DB, assert_close, each_severity, mean_square

from perturbations.suites import registry
from perturbations.video import weather

Golden = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def golden(reference: Path) -> Golden:
    with np.load(reference / "golden" / "released" / "golden.npz") as held:
        return {name: held[name] for name in held.files if name.startswith(("size_", "large", "frost", "mm/"))}


def parameters_of(name: str, severity: int) -> dict[str, Any]:
    return dict(registry.get(f"mm_robustness/{name}", "released").parameters(severity))


def perturbed(name: str, severity: int, frame: np.ndarray, *drawn: Any, **changed: Any) -> np.ndarray:
    """`drawn` is the realization, None by default, and the guide, if there is one."""
    kernel = registry.resolve(registry.get(f"mm_robustness/{name}", "released").kernel)
    parameters = parameters_of(name, severity) | changed
    result: np.ndarray = kernel(*(drawn or (None,)), 1, *frame.shape[:2], **parameters)(frame, 0)
    return result


def steps_of(dxdy: np.ndarray, height: int, width: int, delta: int) -> np.ndarray:
    """The drawn steps, which belong to the pixels of one row from the right to the left; zeros elsewhere."""
    steps = np.zeros((3, 2, height, width), np.uint16)
    row, last = min(height, 224) - delta, min(width, 224) - delta
    for column, pair in zip(range(last, last - len(dxdy), -1), dxdy.tolist(), strict=True):
        steps[0, :, row, column] = [int((step + delta + 0.5) * 65536 / (2 * delta)) for step in reversed(pair)]
    return steps


@each_severity
@pytest.mark.parametrize("size", ["size_a", "size_b"])
def test_glass_blur(golden: Golden, size: str, severity: int) -> None:
    frame, path = golden[f"{size}/frame"], f"{size}/glass_blur/{severity}"
    if f"{path}/out" not in golden:
        pytest.skip("not recorded")
    steps = steps_of(golden[f"{path}/dxdy"], *frame.shape[:2], parameters_of("glass_blur", severity)["delta"])
    assert_close(perturbed("glass_blur", severity, frame, steps), golden[f"{path}/out"], 0.999)


def test_glass_blur_of_a_frame_beyond_224_pixels(golden: Golden) -> None:
    width, height = golden["large/glass_blur/4/size_wh"].tolist()
    frame = np.zeros((height, width, 3), np.uint8)
    frame[200:241] = golden["large/glass_blur/4/in_band"]
    steps = steps_of(golden["large/glass_blur/4/dxdy"], height, width, parameters_of("glass_blur", 4)["delta"])
    ours = perturbed("glass_blur", 4, frame, steps)
    assert_close(ours[208:233], golden["large/glass_blur/4/out_band"], 0.999)


@each_severity
@pytest.mark.parametrize("size", ["size_a", "size_b"])
def test_pixelate_is_exact(golden: Golden, size: str, severity: int) -> None:
    ours = perturbed("pixelate", severity, golden[f"{size}/frame"])
    assert np.array_equal(ours, golden[f"{size}/pixelate/{severity}/out"])


@each_severity
def test_frost(golden: Golden, severity: int) -> None:
    path = f"size_a/frost/{severity}"
    photograph = golden["frost/photographs"][int(golden[f"{path}/which"])]
    assert_close(perturbed("frost", severity, golden["size_a/frame"], None, photograph), golden[f"{path}/out"], 0.99)


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_fog_is_exact(golden: Golden, severity: int) -> None:
    path = f"size_a/fog/{severity}"
    side, seed = (int(golden[f"{path}/{name}"]) for name in ("mapsize", "randomstate_seed"))
    uniform = np.random.RandomState(seed).uniform(-1, 1, side**2 - 1)
    assert np.array_equal(perturbed("fog", severity, golden["size_a/frame"], uniform), golden[f"{path}/out"])
    assert golden["mm/plasma_side_of_script"][0, 1] == parameters_of("fog", severity)["side"] == side


@pytest.mark.parametrize("severity", [1, 4])
def test_snow(golden: Golden, severity: int) -> None:
    path, parameters = f"size_a/snow/{severity}", parameters_of("snow", severity)
    flakes = (golden[f"{path}/normal"] - parameters["loc"]) / parameters["scale"]
    drawn = weather.Snow(flakes, float(golden[f"{path}/angle"]))
    assert_close(perturbed("snow", severity, golden["size_a/frame"], drawn), golden[f"{path}/out"], 0.97)


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_contrast_is_exact(golden: Golden, severity: int) -> None:
    assert np.array_equal(
        perturbed("contrast", severity, golden["size_a/frame"]), golden[f"size_a/contrast/{severity}/out"]
    )


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_brightness(golden: Golden, severity: int) -> None:
    """The code's floats decide to which side a half is rounded."""
    ours = perturbed("brightness", severity, golden["size_a/frame"])
    assert_close(ours, golden[f"size_a/brightness/{severity}/out"], 0.99)


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_jpeg(golden: Golden, severity: int) -> None:
    ours = perturbed("jpeg_compression", severity, golden["size_a/frame"])
    assert mean_square(ours, golden[f"size_a/jpeg_compression/{severity}/out"]) < AT_45_DB
