"""Frames do not depend on the processor's vector instructions, but for declared ones: rendered again without them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from typing import Any

import cv2
import numpy as np
import pytest
from copies import ROOT
from kernel_scenes import digest_clip

from perturbations.api import array_clips as api
from perturbations.manifest import provenance
from perturbations.models.analysis import descriptor, motion_field
from perturbations.suites import suite_registry

KEYS = [entry.key for entry in suite_registry.perturbations(kind="video")]
WITHOUT_AVX2 = {
    "mlvp/elastic_distortion",
    "mlvp/main_object_occlusion",
    "mlvp/motion_blur",
    "mlvp/style_transfer",
    "mlvp/video_defocus",
    "mm_robustness/defocus_blur",
    "mm_robustness/elastic_transform",
    "mm_robustness/frost",
    "mm_robustness/glass_blur",
    "mm_robustness/motion_blur",
    "mm_robustness/stylize",
    "mm_robustness/zoom_blur",
    "msrvtt_p/defocus_blur",
    "msrvtt_p/motion_blur",
    "msrvtt_p/rotate",
    "msrvtt_p/static_rotate",
    "msrvtt_p/zoom_blur",
    "transmission/resolution",
}
"""Perturbations of which some values are rounded to the next grey level where OpenCV or its IPP has no AVX2."""


def results() -> dict[str, Any]:
    """Hashes of all perturbed clips, and of what analyses find."""
    frames = digest_clip()
    donors = [frames[::-1].copy()]
    hashes = {key: digest(api.perturb(frames, key, 4, seed=3, item_id="clip", fps=25.0, donors=donors)) for key in KEYS}
    hashes["descriptor"] = digest(descriptor.describe(list(frames)))
    hashes["features"] = provenance.cpu_features()
    # Along an angle where NumPy's own arctangent of singles and the C library's differ.
    field = np.random.default_rng(2).normal(size=(16, 9, 2)).astype(np.float32)
    hashes["angles"] = digest(
        np.array([motion_field.frame_motion(field * np.float32([1, k])).angle for k in range(1, 60)])
    )
    return hashes


def digest(values: np.ndarray) -> str:
    return hashlib.sha256(values.tobytes()).hexdigest()


def results_without(**switches: str) -> dict[str, Any]:
    """The `results` of a process with these environment variables."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests/helpers'}", **switches}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=True)
    computed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return computed


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    if platform.machine() != "x86_64" or "AVX2" not in provenance.cpu_features().partition("; opencv")[2].split():
        pytest.skip("only an x86-64 processor with AVX2 can be made to work without it")
    return results()


def differing(computed: dict[str, Any], expected: dict[str, Any]) -> set[str]:
    assert computed.keys() == expected.keys()
    assert computed["features"] != expected["features"]  # the switches work
    return {name for name, value in expected.items() if name != "features" and computed[name] != value}


def test_nothing_depends_on_numpys_instructions(expected: dict[str, Any]) -> None:
    extensions = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    if not extensions:
        pytest.skip("NumPy uses no more than its baseline")
    computed = results_without(NPY_DISABLE_CPU_FEATURES=" ".join(extensions), OPENBLAS_CORETYPE="Nehalem")
    assert differing(computed, expected) == set()


def test_only_what_is_declared_depends_on_opencvs_instructions(expected: dict[str, Any]) -> None:
    names = [name[1:] for name in cv2.getCPUFeaturesLine().split() if name.startswith("*") and not name.endswith("?")]
    computed = results_without(OPENCV_CPU_DISABLE=",".join(names), OPENCV_IPP="disabled")
    assert differing(computed, expected) <= WITHOUT_AVX2


def test_declared_perturbations_exist() -> None:
    assert set(KEYS) >= WITHOUT_AVX2


X86 = "x86_64; numpy X86_V2{}; opencv SSE SSE2 SSE3{}; ipp {}"


@pytest.mark.parametrize(
    ("recorded", "here", "differs"),
    [
        ("", X86.format("", "", "none"), False),
        (X86.format("", "", "y8"), X86.format("", "", "y8"), False),
        (X86.format(" X86_V3", " AVX2", "l9"), X86.format(" X86_V4", " AVX2 AVX512-SKX", "k0"), False),
        (X86.format("", " AVX2", "l9"), X86.format("", "", "l9"), True),
        (X86.format("", "", "l9"), X86.format("", "", "y8"), True),
        ("aarch64; numpy NEON; opencv NEON; ipp none", X86.format("", "", "none"), True),
        ("nonsense", X86.format("", "", "none"), True),
    ],
)
def test_the_note_says_where_frames_may_differ(
    recorded: str, here: str, differs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "cpu_features", lambda: here)
    note = f"made on {recorded}; this machine has {here}: frames may differ, most of them by one grey level"
    assert provenance.note(recorded) == (note if differs else "")


if __name__ == "__main__":
    print(json.dumps(results()))
