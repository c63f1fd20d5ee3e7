"""The commands that other tests run without importing again behave as started ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import preloaded
import pytest

REAL = {"perturb": [sys.executable, "-m", "perturbations"], "snakemake": [sys.executable, "-m", "snakemake"]}


def run(command: list[str], folder: Path, **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
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
    assert run([*preloaded.command("perturb"), *words], tmp_path) == run([*REAL["perturb"], *words], tmp_path)


def test_snakemake_runs_jobs_with_its_environment_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(
        "rule all:\n    output: 'o.txt'\n    shell: 'pwd > {output}; echo $MINE >> {output}; exit $STATUS'\n"
    )
    command = [*preloaded.command("snakemake"), "--cores", "1"]
    assert run(command, tmp_path, MINE="a b", STATUS="3")[0] == 1
    assert not (tmp_path / "o.txt").exists()
    assert run(command, tmp_path, MINE="a b", STATUS="0")[0] == 0
    assert (tmp_path / "o.txt").read_text() == f"{tmp_path}\na b\n"


def test_a_command_that_is_killed_has_failed(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(f"import os\nos.kill(os.getpid(), {int(signal.SIGKILL)})\n")
    assert run([*preloaded.command("snakemake"), "--cores", "1"], tmp_path)[0] == 137
