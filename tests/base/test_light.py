"""What `pip install perturbations` brings alone: frames and captions, without the workflow's libraries."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from copies import ROOT
from packaging.requirements import Requirement

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {"ffmpeg-python": "ffmpeg", "pillow": "PIL", "pyyaml": "yaml"}
EXTRAS = ("workflow", "models", "text")
ABSENT = {
    MODULES.get(name, name.replace("-", "_"))
    for extra in EXTRAS
    for name in (Requirement(line).name for line in PROJECT["optional-dependencies"][extra])
}
PROGRAM = f"""
import contextlib, io, json, sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


def outcome(call):
    try:
        return f"gives {{call()}}"
    except (perturbations.base.errors.BackendError, ImportError) as error:
        return f"needs {{error}}"


sys.meta_path.insert(0, Absent())
import numpy as np
import perturbations
frames = np.random.default_rng(0).integers(0, 256, (12, 40, 56, 3), np.uint8)
perturbations.corrupt(frames, "mlvp/fog", 3)
loaded = sorted({{"av", "PIL", "yaml"}} & set(sys.modules))
videos = {{
    name: outcome(lambda: perturbations.corrupt(frames, name, 1, donors=[255 - frames]).dtype)
    for name in perturbations.names()
}}
captions = {{
    name: outcome(lambda: perturbations.perturb_text("a man is riding a horse in the park", name).text)
    for name in perturbations.names(kind="text")
}}
names = ("Corpus", "open_clip", "read_manifest", "read_captions")
readers = {{name: outcome(lambda: getattr(perturbations, name)) for name in names}}
from perturbations.cli import main
with contextlib.redirect_stderr(io.StringIO()) as errors, contextlib.redirect_stdout(io.StringIO()):
    statuses = [main.main(["list"]), main.main(["check"])]
print(json.dumps([loaded, videos, captions, readers, statuses, errors.getvalue()]))
"""
COMMAND = "is not installed; it comes with the workflow: sh envs/install.sh"


@pytest.fixture(scope="module")
def light() -> list[Any]:
    """What a light installation does: what it has loaded after a call, and what else gives or needs."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_the_light_installation_is_small_and_a_first_call_loads_no_reader_of_videos(light: list[Any]) -> None:
    names = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert names == {"av", "numpy", "opencv-python-headless", "pydantic"}
    assert {"snakemake", "pyarrow", "torch", "PIL", "yaml", "onnxruntime"} <= ABSENT
    assert light[0] == []


def test_every_kernel_of_frames_and_captions_by_rules_run_or_say_what_they_need(light: list[Any]) -> None:
    _, videos, captions, *_ = light
    lacking = {name: text for name, text in videos.items() if text != "gives uint8"}
    assert {name.partition("/")[0] for name in lacking} <= {"mlvp", "msrvtt_p", "transmission"}
    assert len(lacking) == 9
    assert all("imageio_ffmpeg is not installed; it comes with" in text for text in lacking.values())
    lacking = {name: text for name, text in captions.items() if not text.startswith("gives ")}
    assert len(captions) - len(lacking) > 12
    assert all("install the extra `perturbations[text]`" in text for text in lacking.values())


def test_what_reads_corpora_and_commands_name_the_command(light: list[Any]) -> None:
    *_, readers, statuses, errors = light
    for name, text in readers.items():
        assert text.startswith(f"needs perturbations.{name}: ")
        assert COMMAND in text
    assert statuses == [0, 1]
    assert COMMAND in errors
