"""Copies of the repository with one more file, for the tests of what is added."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy_with(root: Path, files: dict[str, str]) -> Path:
    """A copy of the package and the workflow below `root`, with these files added: path -> text.

    A file of that name gives way: who follows a page of docs/how-to has it.
    """
    for name in ("perturbations", "workflow", "envs"):
        # With its compiled modules, which fit as long as their sources have the same time; not those being written.
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copy(ROOT / "Snakefile", root)
    shutil.copy(ROOT / "config.yaml", root)
    for path, text in files.items():
        (root / path).write_text(text)
    return root


def example(thing: str) -> str:
    """The file that a page of docs/how-to shows: that of `add-a-suite` adds one."""
    page = (ROOT / f"docs/how-to/{thing}.md").read_text(encoding="utf-8")
    return page.partition("```python\n")[2].partition("```")[0]


def run(root: Path, *arguments: str, folder: Path | None = None) -> str:
    """What a Python program prints that finds the copy, and the tests' helpers. `folder` is where it runs."""
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{ROOT / 'tests/helpers'}"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder or root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


WITHOUT_TORCH = """
import sys
sys.modules |= dict.fromkeys(["torch", "transformers", "scipy", "safetensors"])  # which refuses to import them
from perturbations.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def without_torch(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *words], capture_output=True, text=True, check=False)
