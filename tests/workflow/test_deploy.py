"""The package as others get it: a wheel, the workflow as a module, the package page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from copies import ROOT

import perturbations
from perturbations import read_manifest

TINY = {
    "datasets": {"demo": {"adapter": "demo", "clips": 2}},
    "suites": {"mlvp": {"perturbations": ["fog"], "severities": [3]}},
    "shard_size": 2,
}


def run(*command: object, folder: Path, check: bool = True) -> str:
    """What a command prints, without this checkout on Python's path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) == check, done.stdout + done.stderr
    return done.stdout + done.stderr


# --- an installed wheel ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the wheel of this checkout, and with the libraries of the Python that runs the tests."""
    root = tmp_path_factory.mktemp("fresh place")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", root / "dist", folder=ROOT)
    run(sys.executable, "-m", "venv", "--without-pip", root / "venv", folder=root)
    fresh = root / "venv" / "bin" / "python"
    packages = Path(run(fresh, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=root).strip())
    # Not the checkout itself: the lines of other .pth files are not read from here.
    libraries = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (packages / "libraries.pth").write_text("\n".join(libraries))
    (wheel,) = (root / "dist").glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", fresh, "install", "--quiet", "--no-index", "--no-deps")
    run(*pip, wheel, folder=root)
    assert (packages / "perturbations" / "project" / "workflow" / "Snakefile").is_file()
    return fresh


@pytest.fixture
def installed(python: Path) -> Iterator[Path]:
    """The installed package's folder, which nobody may write to, and which a test must leave as it is."""
    package = next((python.parents[1] / "lib").glob("python3*/site-packages/perturbations"))
    before = contents(package)
    folders = [package, *(path for path in package.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield package
    for folder in folders:
        folder.chmod(0o755)
    assert contents(package) == before


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Each file's time and size."""
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*") if path.is_file()}


def test_a_wheel_makes_a_corpus_in_a_folder_of_one_s_own(python: Path, installed: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "my corpus"
    assert "Snakefile" in run(python.parent / "perturb", "init", corpus.name, folder=tmp_path)
    (corpus / "config.yaml").write_text(yaml.safe_dump(TINY))
    printed = run(python, "-m", "snakemake", "--cores", "2", folder=corpus)
    assert "profiles/default" in printed
    assert "check: demo: 2 clips to generate" in printed
    videos = read_manifest(corpus / "manifests" / "demo" / "mlvp" / "videos.parquet")
    assert list(videos["status"]) == ["complete"] * 2
    assert all(Path(path).is_file() and Path(path).is_relative_to(corpus) for path in videos["path"])
    assert (corpus / "manifests" / "demo" / "mlvp" / "preview.png").is_file()
    assert sorted(path.name for path in corpus.iterdir() if not path.name.startswith(".")) == [
        *("Snakefile", "config.yaml", "corpora", "manifests", "profiles", "work"),
    ]
    assert "2 rows, 0 of them" in run(python.parent / "perturb", "verify", folder=corpus)
    assert re.search(r"mlvp videos +2 +2 +100 %", run(python.parent / "perturb", "status", folder=corpus))
    manifest = "manifests/demo/mlvp/videos.parquet"
    export = (python.parent / "perturb", "export", manifest, "--format", "hub", "--clean", "-o", "hub")
    assert "hub: 4 videos written, 0 failed" in run(*export, folder=corpus)
    assert len(list((corpus / "hub").rglob("*.mp4"))) == 4


# --- what others read of the package ---------------------------------------------------------------------------------


def test_the_files_that_describe_the_project_agree() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == perturbations.__version__
    assert citation["license"] == declared["license"]
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in declared["authors"]]
    assert citation["authors"][0]["name"] in (ROOT / "LICENSE").read_text()
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    versions = ci["jobs"]["checks"]["strategy"]["matrix"]["python"]
    offered = [name.rpartition(" ")[2] for name in declared["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert versions == offered
    assert "bash .ci/run" in [step.get("run") for step in ci["jobs"]["checks"]["steps"]]


def test_the_container_s_files_exist() -> None:
    text = (ROOT / "envs" / "Containerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE)
    assert copied == [".", "envs/constraints.txt"]
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"$BASE"}, "one digest pins both stages"
    assert all((ROOT / path).exists() for path in copied)
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()
    wanted = set(re.findall(r"EXTRAS=([a-z,]+)", text)) - {""}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra for choice in wanted for extra in choice.split(",")} <= set(extras)
