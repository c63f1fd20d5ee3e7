"""Seven methods, two models, two directions, against what the reference implementation recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from copies import ROOT
from tta_models import BATCH, METHODS, SHIPPED, Golden, golden_data, golden_inputs, relative

from perturbations import tta
from perturbations.tta import losses, towers
from perturbations.tta.methods.method_registry import method as method_of

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def golden() -> Golden:
    return golden_data(None)


@pytest.fixture(scope="module", params=["shipped", "reference"])
def record(request: pytest.FixtureRequest) -> Golden:
    """The repository's record, and, where it is, that of the reference data too."""
    return golden_data(None if request.param == "shipped" else request.getfixturevalue("reference"))


def adapted(golden: Golden, pooling: str, direction: str, method: str, dtype: Any) -> np.ndarray:
    model = golden.model(pooling, dtype)
    batches = golden.batches(direction)
    results = list(tta.adapt(model, method, batches, golden.gallery(direction), direction=direction))
    assert {result.dtype for result in results} == {dtype}
    return torch.cat(results).numpy()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("direction", ["v2t", "t2v"])
@pytest.mark.parametrize("pooling", ["clip4clip", "xpool"])
def test_as_the_reference(record: Golden, pooling: str, direction: str, method: str, dtype: Any) -> None:
    actual = adapted(record, pooling, direction, method, dtype)
    far = relative(actual, record.similarities(pooling, direction, method))
    assert far <= record.bound(pooling, direction, method, dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pooling", ["clip4clip", "xpool"])
def test_our_own_passes_are_as_the_reference_too(
    golden: Golden, pooling: str, method: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small towers go through transformers' passes; here they must go through those for large ones.

    Their sums have another order, which on some processors doubles what single precision loses.
    """
    calls = []
    ours = towers.clip_image_features
    monkeypatch.setattr(towers, "SMALLEST_WIDTH", 0)
    monkeypatch.setattr(towers, "clip_image_features", lambda *given: calls.append(1) or ours(*given))
    actual = adapted(golden, pooling, "v2t", method, dtype)
    assert calls
    far = relative(actual, golden.similarities(pooling, "v2t", method))
    assert far <= (2 if dtype == torch.float32 else 1) * golden.bound(pooling, "v2t", method, dtype)


def test_the_inputs_are_the_recorded_ones() -> None:
    """Older processors' instructions round otherwise."""
    with np.load(SHIPPED / "tta.npz") as held:
        for name, array in golden_inputs().items():
            np.testing.assert_allclose(array[..., :1, :2], held[f"corner/{name}"], rtol=0, atol=1e-5)


def test_older_processors_agree() -> None:
    """The pair whose rounding grows most, with torch held to their instructions."""
    script = (
        "import torch; import test_tta_golden as here; import tta_models; golden = tta_models.golden_data(None);"
        "expected = golden.similarities('xpool', 'v2t', 'tcr');"
        "print(tta_models.relative(here.adapted(golden, 'xpool', 'v2t', 'tcr', torch.float64), expected), golden.exact)"
    )
    environment = {
        **os.environ,
        "ATEN_CPU_CAPABILITY": "avx2",
        "PYTHONPATH": os.pathsep.join(str(ROOT / "tests" / name) for name in ("helpers", "tta")),
    }
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    far, exact = map(float, done.stdout.split()[-2:])
    assert far <= exact


# --- entropies that are equal to the threshold -----------------------------------------------------------------------


def test_entropies_have_the_last_bits_of_the_reference_s_form() -> None:
    """Of k queries that share a hub all entropies are log k, and the last bit decides which pass the threshold."""
    logits = torch.randn(500, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 0.02
    expected = -(logits.softmax(1) * logits.log_softmax(1)).sum(1)
    assert torch.equal(losses.entropy(logits), expected)
    other = -(logits.log_softmax(1).exp() * logits.log_softmax(1)).sum(1)
    assert not torch.equal(other, expected)


def test_an_entropy_equal_to_the_threshold_is_kept() -> None:
    entropies = torch.tensor([0.5, 1.0, 1.0, 1.5], dtype=torch.float64)
    weights = 1 - entropies / (1 + 1e-3)
    assert losses.robust_entropy(entropies, 1.0) == (entropies * weights)[:3].mean()


def test_learning_rates_are_the_reference_s() -> None:
    recorded = json.loads((SHIPPED / "tta.json").read_text())
    assert BATCH * recorded["clip4clip/v2t/tcr"]["batches"] == 64
    for key, setting in recorded.items():
        _, direction, method = key.split("/")
        if method != "mock":
            rates = method_of(method).rates
            assert rates is not None, key
            assert rates[direction] == setting["lr"], key
            assert setting["steps"] == 3
