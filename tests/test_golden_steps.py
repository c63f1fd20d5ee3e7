"""Steps of kernels that need no frame against what the reference implementations computed: see golden/README.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_kernels import each_severity

from perturbations.media.clip import uniform_indices
from perturbations.suites import registry
from perturbations.video import digital, weather


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(Path(__file__).parent / "golden/mlvp.npz") as held:
        return {name: held[name] for name in held.files}


@each_severity
def test_fogs_plasma(golden: dict[str, np.ndarray], severity: int) -> None:
    """Four rows apart, of the map that the recorded generator's numbers give."""
    _, height, width = golden["size"].tolist()
    side = weather.plasma_side(height, width)
    assert side == golden[f"fog/{severity}/mapsize"]
    seed = int(golden[f"fog/{severity}/randomstate_seed"])
    uniform = np.random.RandomState(seed).uniform(-1, 1, side * side - 1)
    plasma = weather.plasma(uniform, side, registry.get("mlvp/fog").parameters(severity)["decay"])
    expected = golden[f"fog/{severity}/plasma_every_4th_row"]
    np.testing.assert_allclose(plasma[:height:4, :width], expected, rtol=0, atol=1e-12)


@each_severity
def test_snows_curtain(golden: dict[str, np.ndarray], severity: int) -> None:
    canvas = golden[f"snow/{severity}/canvas_normal"]
    rows, columns = canvas.shape
    num_frames, height, _ = golden["size"].tolist()
    assert rows == weather.curtain_rows(num_frames, height)
    parameters = dict(registry.get("mlvp/snow").parameters(severity))
    zoomed = weather.zoomed_canvas(canvas, rows, columns, parameters["zoom"], 0, rows)
    np.testing.assert_allclose(zoomed, golden[f"snow/{severity}/canvas_zoomed"], rtol=0, atol=2e-7)
    # The recorded canvas is scaled and shifted already.
    del parameters["blend"]
    drawn = weather.Snow(canvas, float(golden[f"snow/{severity}/angle"]))
    curtain = weather.snow_curtain(drawn, rows, columns, **{**parameters, "loc": 0.0, "scale": 1.0})
    assert np.array_equal(curtain, golden[f"snow/{severity}/curtain"])


@each_severity
def test_elastic_distortions_affine_part(golden: dict[str, np.ndarray], severity: int) -> None:
    matrix = digital.affine_matrix(golden[f"elastic_distortion/{severity}/jitter"], *golden["size"][1:].tolist())
    np.testing.assert_allclose(matrix, golden[f"elastic_distortion/{severity}/affine"], rtol=0, atol=1e-9)


def test_adain(golden: dict[str, np.ndarray]) -> None:
    torch = pytest.importorskip("torch")
    from perturbations.models import adain

    content, style = (torch.from_numpy(golden[f"adain/{name}"]) for name in ("content", "style"))
    stylized = adain.adaptive_instance_normalization(content, adain.statistics(style))
    np.testing.assert_allclose(stylized.numpy(), golden["adain/out"], atol=1e-5)


def test_uniform_indices(golden: dict[str, np.ndarray]) -> None:
    names = [name for name in golden if name.startswith("uniform_indices/")]
    assert len(names) == 5
    for name in names:
        num_frames, total = map(int, name.removeprefix("uniform_indices/").split("_of_"))
        assert uniform_indices(num_frames, total) == golden[name].tolist(), name
