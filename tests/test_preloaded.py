"""The commands that other tests run without importing again behave as started ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import preloaded
import pytest


def run(command: list[str], folder: Path) -> tuple[int, str, str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["list", "mlvp"],
        ["lisst"],
        ["rule", "check_captions", '{"allowed": 0}', "--quarantine", "no such file", "--output", "o"],
    ],
    ids=str,
)
def test_output_and_status_are_those_of_the_real_command(words: list[str], tmp_path: Path) -> None:
    assert run([*preloaded.command("perturb"), *words], tmp_path) == run(
        [sys.executable, "-m", "perturbations", *words], tmp_path
    )
