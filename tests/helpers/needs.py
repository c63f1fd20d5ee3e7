"""What some tests need that `sh envs/install.sh dev` does not bring, and what brings it: every such skip is made here.

A reason begins with "needs": by that, `pytest --skipped` knows the tests to run once more (see conftest.py).
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NoReturn

import pytest

REASON = "needs "
WORDNET = "WordNet 3.0: apt-get install wordnet-base (CONTRIBUTING.md says how without root)"
APERTIUM = "Apertium and its English-Spanish pair: apt-get install apertium apertium-eng-spa"
BROWSER = "Chromium: apt-get install chromium"
LATEX = "pdflatex, booktabs and rotating: apt-get install texlive-latex-base texlive-latex-recommended"
REFERENCE = "the reference data, which hold datasets' clips: not published; PERTURB_REFERENCE names their folder"
ROOT = "root, to mount a disk: run pytest as root"
NO_ROOT = "a user whom permissions bind: run pytest as another user than root"
DECORD = "decord, which has no wheel for this machine: pip install 'decord>=0.6,<0.7'"
DECODER = (
    "torchcodec and FFmpeg's libraries: apt-get install ffmpeg && .venv/bin/pip install --no-deps torchcodec==0.13.0"
)
LMMS_EVAL = (
    "lmms-eval 0.7.3 in an environment of its own, whose Python LMMS_EVAL_PYTHON names: "
    "pip install lmms-eval==0.7.3 'filelock<3.20'"
)
READERS = "sh envs/install.sh dev,exports"
LIBRARIES = {"torchvision": "pip install torchvision", "ultralytics": "pip install --no-deps ultralytics"}

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_HIDDEN = ("apertium", "pdflatex", *BROWSERS)


def skip(what: str) -> NoReturn:
    """Skip the test that runs for want of something."""
    pytest.skip(REASON + what)


def library(name: str) -> ModuleType:
    """An optional library, imported; skips where it is not installed or does not load."""
    reason = f"{REASON}{name}, of a version that fits torch: .venv/bin/{LIBRARIES[name]}"
    module: ModuleType = pytest.importorskip(name, reason=reason, exc_type=Exception)
    return module


def ultralytics(patch: pytest.MonkeyPatch) -> ModuleType:
    """The library of YOLO-World, imported; skips where it is not installed.

    Of torchvision it takes one function here. No CPU build of torchvision is on the index for every torch: without one
    that loads, ultralytics' own form of the function stands in for it.
    """
    try:
        importlib.import_module("torchvision")
    except Exception:  # of another torch, it raises a RuntimeError
        version = importlib.metadata.version
        named = {"torchvision": "0.28.0"}
        patch.setattr(importlib.metadata, "version", lambda name: named.get(name) or version(name))
        module = library("ultralytics")
        from ultralytics.utils.nms import TorchNMS

        torchvision = ModuleType("torchvision")
        torchvision.ops = SimpleNamespace(nms=TorchNMS.nms)  # type: ignore[attr-defined]
        patch.setitem(sys.modules, "torchvision", torchvision)
        return module
    return library("ultralytics")


def decoder(name: str = "torchcodec") -> ModuleType:
    """decord or torchcodec, with which programs decode videos; skips where it is not installed or does not load."""
    reason = REASON + {"decord": DECORD, "torchcodec": DECODER}[name]
    module: ModuleType = pytest.importorskip(name, reason=reason, exc_type=Exception)
    return module


def statistics() -> ModuleType:
    """statsmodels' tests of contingency tables; skips without it."""
    name = "statsmodels.stats.contingency_tables"
    module: ModuleType = pytest.importorskip(name, reason=f"{REASON}statsmodels: sh envs/install.sh dev")
    return module


def lmms_eval() -> str:
    """The Python of an environment that has lmms-eval; skips without one."""
    return os.environ.get("LMMS_EVAL_PYTHON") or skip(LMMS_EVAL)


def reader(name: str) -> ModuleType:
    """A library that reads what `perturb export` writes, imported; skips where it is not installed."""
    module: ModuleType = pytest.importorskip(name, reason=f"{REASON}{name}: {READERS}", exc_type=Exception)
    return module


def browser() -> str:
    """The path of a Chromium; skips where there is none."""
    paths = [path for path in map(shutil.which, BROWSERS) if path]
    return paths[0] if paths else skip(BROWSER)


def pdflatex() -> None:
    """Skips where no LaTeX is installed."""
    if shutil.which("pdflatex") is None:
        skip(LATEX)


def hide(folder: Path) -> None:
    """Show this process and its children a machine with Python and pip only; `folder` is empty, and stays as long."""
    os.environ["PERTURB_WORDNET"] = os.environ["PERTURB_REFERENCE"] = str(folder / "nothing")
    places = dict.fromkeys(os.environ.get("PATH", os.defpath).split(os.pathsep))
    os.environ["PATH"] = os.pathsep.join(_without(Path(place), folder / str(at)) for at, place in enumerate(places))


def _without(place: Path, copy: Path) -> str:
    """A folder of programs, or links to all in it but the hidden."""
    if not any((place / name).exists() for name in _HIDDEN):
        return str(place)
    copy.mkdir()
    for program in place.iterdir():
        if not program.name.startswith(_HIDDEN):
            (copy / program.name).symlink_to(program)
    return str(copy)
