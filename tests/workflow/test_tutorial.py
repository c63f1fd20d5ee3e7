"""The tutorial works as it is printed: every command of docs/tutorial.md, in order, on three clips."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import clips
import preloaded
import pytest
from copies import ROOT

PAGE = ROOT / "docs" / "tutorial.md"


def blocks() -> list[tuple[str, str]]:
    """The language and the text of each block of the page."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """The blocks that a reader types; blocks without a language show what is installed, and what is printed."""
    return [text for language, text in blocks() if language == "sh"]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command of the page prints, by the command."""
    project = tmp_path_factory.mktemp("project")
    for name in ("Snakefile", "profiles", "workflow"):
        (project / name).symlink_to(ROOT / name)
    installed = project / "installed"
    installed.mkdir()
    for name in ("perturb", "snakemake"):
        (installed / name).symlink_to(*preloaded.command(name))
    (installed / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (installed / "python").chmod(0o755)
    environment = os.environ | {"PATH": f"{installed}{os.pathsep}{os.environ['PATH']}"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
    outputs = {}
    for command in commands():
        done = subprocess.run(
            ["sh", "-euc", command], cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        outputs[command] = done.stdout + done.stderr
        if "mkdir" in command:  # "Copy three short videos"
            for name in ("one", "two", "three"):
                size = (640, 272) if name == "one" else (clips.WIDTH, clips.HEIGHT)
                clips.make(project / "tutorial" / "clips" / f"{name}.mp4", size=size)
    return outputs


def output_of(printed: dict[str, str], part: str) -> str:
    """What the last command that contains `part` prints."""
    return [output for command, output in printed.items() if part in command][-1]


def test_the_tutorial_prints_its_table_no_problem_and_the_jobs_of_a_new_severity(printed: dict[str, str]) -> None:
    lines = output_of(printed, "python tutorial/table.py").splitlines()
    numbers = [line.split()[-3:] for line in lines if re.search(r"\d \s+-?\d+\.\d+ ", line)]
    assert len(numbers) == 2 * 3
    psnr = [float(row[0]) for row in numbers]
    assert psnr[0] > psnr[1] > psnr[2], "fog"
    assert psnr[3] > psnr[4] > psnr[5], "noise"
    assert f"({clips.FRAMES}, {clips.HEIGHT}, {clips.WIDTH}, 3)" in lines
    assert "0 problems" in output_of(printed, "perturb verify")
    assert "R@1" in output_of(printed, "perturb score")
    plan = output_of(printed, "sed -i")
    assert re.search(r"^\d+ jobs: .*\bvideos 2\b", plan, re.MULTILINE), plan
    assert not re.search(r"\b(sources|texts) \d", plan), plan


def test_only_the_installation_and_the_output_are_not_run() -> None:
    installation, output = (text for language, text in blocks() if language != "sh")
    assert installation.splitlines() == ["sh envs/install.sh", ". .venv/bin/activate"]
    assert output.lstrip().startswith("psnr_db")
