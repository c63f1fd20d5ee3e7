"""What `pip install perturbations` brings alone: frames and captions, without the workflow's libraries."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
MODULES = {"ffmpeg-python": "ffmpeg", "pillow": "PIL", "pyyaml": "yaml"}
EXTRAS = ("workflow", "models", "text")
ABSENT = {
    MODULES.get(name, name.replace("-", "_"))
    for extra in EXTRAS
    for name in (Requirement(line).name for line in PROJECT["optional-dependencies"][extra])
}
WITHOUT = f"""
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Absent())
import numpy as np
import perturbations
frames = np.random.default_rng(0).integers(0, 256, (12, 40, 56, 3), np.uint8)
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_light_installation_is_small() -> None:
    names = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert names == {"av", "numpy", "opencv-python-headless", "pydantic"}
    assert {"snakemake", "pyarrow", "torch", "PIL", "yaml", "onnxruntime"} <= ABSENT


def test_a_first_call_loads_no_reader_of_videos() -> None:
    printed = run('perturbations.corrupt(frames, "mlvp/fog", 3); print({"av", "PIL", "yaml"} & set(sys.modules))')
    assert printed == "set()\n"


def test_every_kernel_of_frames_runs_or_says_what_it_needs() -> None:
    printed = run(
        """
for name in perturbations.names():
    try:
        assert perturbations.corrupt(frames, name, 2, donors=[255 - frames]).dtype == np.uint8
    except perturbations.base.errors.BackendError as error:
        print(name, error)
"""
    )
    lines = printed.splitlines()
    assert {line.partition(" ")[0].partition("/")[0] for line in lines} <= {"mlvp", "msrvtt_p", "transmission"}
    assert len(lines) == len([name for name in lines if "imageio_ffmpeg is not installed; it comes with" in name]) == 9


def test_captions_by_rules_run_and_others_say_what_they_need() -> None:
    printed = run(
        """
for name in perturbations.names(kind="text"):
    try:
        print(name, "gives", perturbations.perturb_text("a man is riding a horse in the park", name).text)
    except perturbations.base.errors.BackendError as error:
        print(name, "needs", error)
"""
    )
    given = [line for line in printed.splitlines() if " gives " in line]
    assert len(given) > 12
    assert all("install the extra `perturbations[text]`" in line for line in printed.splitlines() if line not in given)


@pytest.mark.parametrize("name", ["Corpus", "open_clip", "read_manifest", "read_captions"])
def test_what_reads_corpora_names_the_command(name: str) -> None:
    printed = run(
        f"""
try:
    perturbations.{name}
except ImportError as error:
    print(error)
"""
    )
    assert printed.startswith(f"perturbations.{name}: ")
    assert "is not installed; it comes with the workflow: sh envs/install.sh" in printed


def test_commands_name_the_command() -> None:
    code = """
from perturbations.cli import main
print(main.main(["list"]), main.main(["check"]))
"""
    done = subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.stdout.splitlines()[-1] == "0 1"
    assert "is not installed; it comes with the workflow: sh envs/install.sh" in done.stderr
