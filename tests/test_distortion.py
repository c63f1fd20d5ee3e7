"""What is declared to grow with severity grows on a drawn clip: encoded and cut clips.

Those that are made frame by frame are in test_kernels.py, and orders of frames in test_temporal_plans.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_kernels import scene

import perturbations
from perturbations.suites import registry
from perturbations.suites.registry import Perturbation

GROWING = [entry for entry in registry.perturbations(kind="video") if entry.monotonic]
ORDERS = {"msrvtt_p/jumble", "msrvtt_p/sampling"}
"""They move frames farther, which on a clip that repeats itself need not look worse."""
ENCODED = [entry for entry in GROWING if entry.method == "codec"]
CUT = [entry for entry in GROWING if entry.method == "temporal" and entry.key not in ORDERS]
# Grainy, so that no rate is enough.
GRAIN = np.random.default_rng(0).normal(0, 25, (30, 64, 96, 3))
FRAMES = np.clip(scene(30, 64, 96) + GRAIN, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("entry", [*ENCODED, *CUT], ids=lambda entry: entry.key)
def test_distortion_never_falls(entry: Perturbation) -> None:
    donors = [255 - FRAMES] if entry.guide is not None else []
    results = [
        perturbations.perturb(FRAMES, entry.key, severity, seed=0, item_id="it", fps=25, donors=donors)
        for severity in entry.severities
    ]
    errors = [np.square(result.astype(int) - FRAMES).mean() for result in results]
    assert errors == sorted(errors)
    assert 0 < errors[0] < errors[-1]
