"""MM-Robustness as released, against arrays that the authors' own functions made of the same frames and draws.

Any recorded set of the same form will do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_golden_suites import AT_45_DB, mean_square
from test_kernels import assert_close

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
    kernel = registry.get(f"mm_robustness/{name}", "released").kernel
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


def recorded(golden: Golden, name: str) -> list[tuple[str, np.ndarray, int]]:
    """Each recorded result of a perturbation: its path, the frame that it was made of, and its severity."""
    paths = [path.removesuffix("/out") for path in golden if f"/{name}/" in path and path.endswith("/out")]
    assert paths, name
    return [(path, golden[f"{path.split('/')[0]}/frame"], int(path.split("/")[2])) for path in paths]


# Of glass, what does not move is blurred twice.
GLASS = 0.985


def test_glass_blur(golden: Golden) -> None:
    for path, frame, severity in recorded(golden, "glass_blur"):
        steps = steps_of(golden[f"{path}/dxdy"], *frame.shape[:2], parameters_of("glass_blur", severity)["delta"])
        assert_close(perturbed("glass_blur", severity, frame, steps), golden[f"{path}/out"], GLASS)


def test_glass_blur_of_a_frame_beyond_224_pixels(golden: Golden) -> None:
    """Its lowest rows are recorded, and of the result those that the blur does not bring from elsewhere."""
    width, height = golden["large/glass_blur/4/size_wh"].tolist()
    band, expected = golden["large/glass_blur/4/in_band"], golden["large/glass_blur/4/out_band"]
    frame = np.zeros((height, width, 3), np.uint8)
    frame[height - len(band) :] = band
    steps = steps_of(golden["large/glass_blur/4/dxdy"], height, width, parameters_of("glass_blur", 4)["delta"])
    ours = perturbed("glass_blur", 4, frame, steps)
    first = height - len(band) + (len(band) - len(expected)) // 2
    assert_close(ours[first : first + len(expected)], expected, GLASS)


@pytest.mark.parametrize("name", ["pixelate", "contrast", "brightness"])
def test_without_draws(golden: Golden, name: str) -> None:
    for path, frame, severity in recorded(golden, name):
        assert_close(perturbed(name, severity, frame), golden[f"{path}/out"])


def test_weather_and_jpeg(golden: Golden) -> None:
    for path, frame, severity in recorded(golden, "frost"):
        photograph = golden["frost/photographs"][int(golden[f"{path}/which"])]
        assert_close(perturbed("frost", severity, frame, None, photograph), golden[f"{path}/out"])
    for path, frame, severity in recorded(golden, "fog"):
        side, seed = (int(golden[f"{path}/{name}"]) for name in ("mapsize", "randomstate_seed"))
        uniform = np.random.RandomState(seed).uniform(-1, 1, side**2 - 1)
        assert_close(perturbed("fog", severity, frame, uniform), golden[f"{path}/out"])
        assert golden["mm/plasma_side_of_script"][0, 1] == parameters_of("fog", severity)["side"] == side
    for path, frame, severity in recorded(golden, "snow"):
        parameters = parameters_of("snow", severity)
        flakes = (golden[f"{path}/normal"] - parameters["loc"]) / parameters["scale"]
        drawn = weather.Snow(flakes, float(golden[f"{path}/angle"]))
        assert_close(perturbed("snow", severity, frame, drawn), golden[f"{path}/out"])
    for path, frame, severity in recorded(golden, "jpeg_compression"):
        assert mean_square(perturbed("jpeg_compression", severity, frame), golden[f"{path}/out"]) < AT_45_DB
