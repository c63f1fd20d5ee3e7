"""What `benchmarks/gpu.py` prints on a machine with a GPU, here of a tiny model on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks import gpu


@pytest.mark.parametrize("method", ["none", "tent", "qbnorm"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_method_is_as_far_from_float64_as_its_precision(method: str, precision: str) -> None:
    assert 0 < gpu.difference(method, precision, "tiny", "cpu") <= gpu.BOUNDS[precision]


def test_time_memory_and_the_share_of_computing_are_measured(tmp_path: Path) -> None:
    ms, memory = gpu.figures("tent", "float32", "tiny", "cpu", 1)
    assert ms > 0
    assert memory > 0
    assert 0 < gpu.busy("none", "float32", "tiny", "cpu", 1, tmp_path) <= 1


def test_what_does_not_fit_into_the_minutes_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--device", "cpu", "--size", "tiny", "--batch-sizes", "1", "--minutes", "0"]
    monkeypatch.setattr(sys, "argv", ["gpu.py", *words])
    gpu.main()
    printed = capsys.readouterr().out
    assert "| method | float32: difference; ms; GiB | bfloat16: difference; ms; GiB |" in printed
    assert "left out for want of time: none, tent, " in printed
