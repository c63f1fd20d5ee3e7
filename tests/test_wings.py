"""What holds of wings: they are declared whole, and the spine stands without each of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import shelves
from test_workflow import tiny_clip

from perturbations.base import wings

PROJECT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", wings.wings())
def test_what_a_wing_declares_is_there(name: str) -> None:
    wing = wings.wings()[name]
    for code in (wing.section, wing.problems, wing.rows, wing.targets, *wing.jobs, *wing.offers.values()):
        assert not code or wings.load(name, code) is not None
    for module in (module for modules in wing.commands.values() for module in modules):
        assert callable(wings.load(name, module).add)
    for file in (*wing.files, *(f"workflow/rules/{rule}.smk" for rule in wing.rules)):
        assert (PROJECT / file).exists(), file


CONFIG = """
datasets: {mine: {adapter: folder, annotations: captions.csv, videos: videos}}
suites: {mlvp: {perturbations: [fog, gaussian_noise], severities: [1]}}
"""

IMPORT_ALL = """
import importlib, pkgutil, perturbations
for module in pkgutil.walk_packages(perturbations.__path__, "perturbations."):
    if not module.name.endswith(("mteb_tasks", "__main__")):
        importlib.import_module(module.name)
"""


def without(root: Path, names: list[str]) -> Path:
    """A copy of the repository without some wings and those that need them, beside a dataset of two clips."""
    copy = shelves.copy_with(root / "copy", {})
    cut = {name for name, wing in wings.wings().items() if name in names or {*wing.needs} & {*names}}
    for name in cut:
        wing = wings.wings()[name]
        shutil.rmtree(copy / "perturbations" / name)
        for file in (*wing.files, *(f"workflow/rules/{rule}.smk" for rule in wing.rules)):
            (copy / file).unlink(missing_ok=True)
    for name in ("a", "b"):
        tiny_clip(root / f"videos/{name}.mp4", seed=1, frames=3)
    (root / "captions.csv").write_text("item_id,caption\na,a dog runs\nb,a cat sleeps\n")
    (root / "config.yaml").write_text(CONFIG)
    return copy


def snakemake(root: Path, copy: Path, *words: str) -> str:
    start = ("-m", "snakemake", "--snakefile", str(copy / "Snakefile"), "--cores", "2", "--quiet", "all")
    return shelves.run(copy, *start, *words, folder=root)


@pytest.mark.parametrize("name", wings.wings())
def test_without_a_wing_a_run_is_planned(name: str, tmp_path: Path) -> None:
    copy = without(tmp_path, [name])
    snakemake(tmp_path, copy, "--dry-run", "--", "mlvp_mine")
    if wings.wings()[name].section:
        (tmp_path / "config.yaml").write_text(f"{CONFIG}\n{name}: {{}}\n")
        with pytest.raises(AssertionError, match=f"{name}: unknown key"):
            snakemake(tmp_path, copy, "--dry-run", "--", "mlvp_mine")


def test_the_spine_alone_makes_a_corpus_and_verifies_it(tmp_path: Path) -> None:
    copy = without(tmp_path, list(wings.wings()))
    shelves.run(copy, "-c", IMPORT_ALL)
    snakemake(tmp_path, copy, "--", "mlvp_mine")
    assert len(list(tmp_path.glob("corpora/mine/mlvp/*/1/*.mp4"))) == 4
    shelves.run(copy, "-m", "perturbations", "verify", folder=tmp_path)
    commands = shelves.run(copy, "-m", "perturbations", "--help")
    assert "verify" in commands
    assert "status" not in commands
