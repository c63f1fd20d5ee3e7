"""Seven methods, two models, two directions, against what the reference implementation recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tta_models import BATCH, METHODS, SHIPPED, Golden, golden_data, golden_inputs

from perturbations import tta
from perturbations.tta import towers
from perturbations.tta.methods.registry import method as method_of

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", params=["shipped", "reference"])
def folder(request: pytest.FixtureRequest) -> Path | None:
    """Whose record: the repository's, or, where it is, that of the reference data too."""
    return None if request.param == "shipped" else request.getfixturevalue("reference")


@pytest.fixture(scope="module")
def golden(folder: Path | None) -> Golden:
    return golden_data(folder)


def adapted(golden: Golden, pooling: str, direction: str, method: str) -> np.ndarray:
    model = golden.model(pooling)
    batches = golden.batches(direction)
    return torch.cat(list(tta.adapt(model, method, batches, golden.gallery(direction), direction=direction))).numpy()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("direction", ["v2t", "t2v"])
@pytest.mark.parametrize("pooling", ["clip4clip", "xpool"])
def test_as_the_reference(golden: Golden, pooling: str, direction: str, method: str) -> None:
    expected = golden.similarities(pooling, direction, method)
    actual = adapted(golden, pooling, direction, method)
    assert np.abs(actual - expected).max() <= golden.tolerance[method] * np.abs(expected).max()


def test_the_inputs_are_the_recorded_ones() -> None:
    """Older processors' instructions round otherwise."""
    with np.load(SHIPPED / "tta.npz") as held:
        for name, array in golden_inputs().items():
            np.testing.assert_allclose(array[..., :1, :2], held[f"corner/{name}"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("instructions", ["default", "avx2"])
def test_other_processors_agree(instructions: str, folder: Path | None, golden: Golden) -> None:
    """The pair whose rounding grows most, with torch held to older processors' instructions."""
    script = (
        "import numpy as np; from pathlib import Path; import test_tta_golden as here; import tta_models;"
        f"golden = tta_models.golden_data({'None' if folder is None else f'Path({str(folder)!r})'});"
        "expected = golden.similarities('xpool', 'v2t', 'tcr');"
        "print(np.abs(here.adapted(golden, 'xpool', 'v2t', 'tcr') - expected).max() / np.abs(expected).max())"
    )
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": instructions, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout.split()[-1]) <= golden.tolerance["tcr"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pooling", ["clip4clip", "xpool"])
def test_our_own_passes_are_as_the_reference_too(
    golden: Golden, pooling: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small towers go through transformers' passes; here they must go through those for large ones."""
    calls = []
    ours = towers.clip_image_features
    monkeypatch.setattr(towers, "SMALLEST_WIDTH", 0)
    monkeypatch.setattr(towers, "clip_image_features", lambda *given: calls.append(1) or ours(*given))
    expected = golden.similarities(pooling, "v2t", method)
    actual = adapted(golden, pooling, "v2t", method)
    assert calls
    # Rounding grows from step to step: AdamW's first steps are as long for a tiny gradient as for a large one.
    assert np.abs(actual - expected).max() <= 3e-5 * np.abs(expected).max()


def test_learning_rates_are_the_reference_s() -> None:
    recorded = json.loads((SHIPPED / "tta.json").read_text())
    assert BATCH * recorded["clip4clip/v2t/tcr"]["batches"] == 64
    for key, setting in recorded.items():
        _, direction, method = key.split("/")
        if method != "mock":
            rates = method_of(method).rates
            assert rates is not None, key
            assert rates[tta.DIRECTIONS.index(direction)] == setting["lr"], key
            assert setting["steps"] == 3
