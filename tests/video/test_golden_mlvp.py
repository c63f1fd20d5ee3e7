"""The kernels against what the papers' reference code computed from the same random numbers.

Of whole kernels, any recorded set of the same form will do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from copies import ROOT
from kernel_scenes import assert_close, each_severity, occlusion_places
from looping import each

from perturbations.media.clip import uniform_indices
from perturbations.models.analysis import motion_field
from perturbations.suites import suite_registry
from perturbations.video import digital, weather


class Golden:
    """The recorded arrays of one perturbation at one severity, and our parameters for it."""

    def __init__(self, arrays: Any, name: str, severity: int) -> None:
        self._arrays, self._prefix = arrays, f"{name}/{severity}"
        self.entry = suite_registry.get(f"mlvp/{name}")
        self.parameters = self.entry.parameters(severity)
        self.frames: np.ndarray = arrays["frames"]

    def __getitem__(self, key: str) -> np.ndarray:
        return self._arrays[f"{self._prefix}/{key}"]

    def shared(self, key: str) -> np.ndarray:
        """An array that all severities of the perturbation share."""
        array: np.ndarray = self._arrays[key]
        return array

    def perturbed(self, realization: Any, *guide: Any, **changed: float) -> np.ndarray:
        """What our kernel makes of all frames."""
        count, height, width, _ = self.frames.shape
        kernel = self.entry.kernel
        apply = kernel(realization, *guide, count, height, width, **{**self.parameters, **changed})
        return np.stack([apply(frame, index) for index, frame in enumerate(self.frames)])


@pytest.fixture(scope="module")
def golden(reference: Path) -> Callable[[str, int], Golden]:
    arrays = np.load(reference / "golden" / "mlvp_video.npz")
    return lambda name, severity: Golden(arrays, name, severity)


@each_severity
def test_gaussian_noise(golden: Callable[[str, int], Golden], severity: int) -> None:
    case = golden("gaussian_noise", severity)
    unit = case["noise"] / case.parameters["sigma"]
    assert unit.std() == pytest.approx(1, abs=5 / (2 * unit.size) ** 0.5)
    assert_close(case.perturbed(unit), case["out"])


@each_severity
def test_impulse_noise(golden: Callable[[str, int], Golden], severity: int) -> None:
    case = golden("impulse_noise", severity)
    assert_close(case.perturbed(case["u"]), case["out"])


@each_severity
def test_fog(golden: Callable[[str, int], Golden], severity: int) -> None:
    case = golden("fog", severity)
    height, width = case.frames.shape[1:3]
    side = weather.plasma_side(height, width)
    assert side == case["mapsize"]
    uniform = np.random.RandomState(int(case["randomstate_seed"])).uniform(-1, 1, side * side - 1)
    assert_close(case.perturbed(uniform), case["out"])


@each_severity
def test_snow(golden: Callable[[str, int], Golden], severity: int) -> None:
    case = golden("snow", severity)
    drawn = weather.Snow(case["canvas_normal"], float(case["angle"]))
    assert_close(case.perturbed(drawn, loc=0.0, scale=1.0), case["out"])
    # From unit noise, as it is drawn here.
    unit = (case["canvas_normal"] - case.parameters["loc"]) / case.parameters["scale"]
    assert unit.mean() == pytest.approx(0, abs=5 / unit.size**0.5)
    assert unit.std() == pytest.approx(1, abs=5 / (2 * unit.size) ** 0.5)
    assert_close(case.perturbed(weather.Snow(unit, drawn.angle)), case["out"])


@each_severity
def test_elastic_distortion(golden: Callable[[str, int], Golden], severity: int) -> None:
    case = golden("elastic_distortion", severity)
    unit = case["jitter"] / case.parameters["affine"]
    assert np.abs(unit).max() <= 1
    assert_close(case.perturbed(digital.Elastic(unit, case["ux"], case["uy"])), case["out"])


def test_the_optical_flow_is_the_references(golden: Callable[[str, int], Golden]) -> None:
    case = golden("motion_blur", 1)
    flow = case.shared("motion/flow")
    assert not flow[0].any()
    for before, frame, expected in zip(case.frames[:-1], case.frames[1:], flow[1:], strict=True):
        # To the bit on processors that fuse multiplication and addition; on others to rounding.
        assert np.abs(motion_field.optical_flow(before, frame) - expected).max() <= 1e-5


@each_severity
@each("name", ["motion_blur", "video_defocus"])
def test_blurs_that_follow_the_motion(golden: Callable[[str, int], Golden], name: str, severity: int) -> None:
    case = golden(name, severity)
    follower = motion_field.Follower()
    apply = case.entry.kernel(None, follower, *case.frames.shape[:3], **case.parameters)
    blurred = []
    for index, frame in enumerate(case.frames):
        follower.show(frame, index)
        blurred.append(apply(frame, index))
    # A magnitude at the very percentile may fall on either side of it, and a mean on either side of a half.
    assert_close(np.stack(blurred), case["out"])


@each_severity
def test_occlusion_is_exact(golden: Callable[[str, int], Golden], severity: int) -> None:
    case = golden("main_object_occlusion", severity)
    boxes = case.shared("main_object_occlusion/boxes").astype(float)
    boxes[case.shared("main_object_occlusion/no_detection")] = np.nan
    size = case.frames.shape[1:3]
    places, _ = occlusion_places(case["randint_draws"], boxes, *size, case.parameters["ratio"])
    assert np.array_equal(case.perturbed(places, boxes), case["out"])


# --- steps that need no frame: see golden/README.md -------------------------------------------------------------------


@pytest.fixture(scope="module")
def steps() -> dict[str, np.ndarray]:
    with np.load(ROOT / "tests" / "golden/mlvp.npz") as held:
        return {name: held[name] for name in held.files}


@each_severity
def test_fogs_plasma(steps: dict[str, np.ndarray], severity: int) -> None:
    """Four rows apart, of the map that the recorded generator's numbers give."""
    _, height, width = steps["size"].tolist()
    side = weather.plasma_side(height, width)
    assert side == steps[f"fog/{severity}/mapsize"]
    seed = int(steps[f"fog/{severity}/randomstate_seed"])
    uniform = np.random.RandomState(seed).uniform(-1, 1, side * side - 1)
    plasma = weather.plasma(uniform, side, suite_registry.get("mlvp/fog").parameters(severity)["decay"])
    expected = steps[f"fog/{severity}/plasma_every_4th_row"]
    np.testing.assert_allclose(plasma[:height:4, :width], expected, rtol=0, atol=1e-12)


@each_severity
def test_snows_curtain(steps: dict[str, np.ndarray], severity: int) -> None:
    canvas = steps[f"snow/{severity}/canvas_normal"]
    rows, columns = canvas.shape
    num_frames, height, _ = steps["size"].tolist()
    assert rows == weather.curtain_rows(num_frames, height)
    parameters = dict(suite_registry.get("mlvp/snow").parameters(severity))
    zoomed = weather.zoomed_canvas(canvas, rows, columns, parameters["zoom"], 0, rows)
    np.testing.assert_allclose(zoomed, steps[f"snow/{severity}/canvas_zoomed"], rtol=0, atol=2e-7)
    # The recorded canvas is scaled and shifted already.
    del parameters["blend"]
    drawn = weather.Snow(canvas, float(steps[f"snow/{severity}/angle"]))
    curtain = weather.snow_curtain(drawn, rows, columns, **{**parameters, "loc": 0.0, "scale": 1.0})
    assert np.array_equal(curtain, steps[f"snow/{severity}/curtain"])


@each_severity
def test_elastic_distortions_affine_part(steps: dict[str, np.ndarray], severity: int) -> None:
    matrix = digital.affine_matrix(steps[f"elastic_distortion/{severity}/jitter"], *steps["size"][1:].tolist())
    np.testing.assert_allclose(matrix, steps[f"elastic_distortion/{severity}/affine"], rtol=0, atol=1e-9)


def test_adain(steps: dict[str, np.ndarray]) -> None:
    torch = pytest.importorskip("torch")
    from perturbations.models import adain

    content, style = (torch.from_numpy(steps[f"adain/{name}"]) for name in ("content", "style"))
    stylized = adain.adaptive_instance_normalization(content, adain.statistics(style))
    np.testing.assert_allclose(stylized.numpy(), steps["adain/out"], atol=1e-5)


def test_uniform_indices(steps: dict[str, np.ndarray]) -> None:
    names = [name for name in steps if name.startswith("uniform_indices/")]
    assert len(names) == 5
    for name in names:
        num_frames, total = map(int, name.removeprefix("uniform_indices/").split("_of_"))
        assert uniform_indices(num_frames, total) == steps[name].tolist(), name
