"""What holds of wings: they are declared whole, and the spine stands without each of them."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest
import shelves
from test_workflow import tiny_clip

from perturbations.base import wings

PROJECT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", wings.wings())
def test_what_a_wing_declares_is_there(name: str) -> None:
    wing = wings.wings()[name]
    commands = argparse.ArgumentParser().add_subparsers()
    wing.declare_jobs(commands)
    for declare in {declare for declared in wing.commands.values() for declare in declared.values()}:
        declare(commands)
    declared = {command for commands_of_section in wing.commands.values() for command in commands_of_section}
    assert declared <= {*commands.choices}
    for file in (*wing.files, *(f"workflow/rules/{rule}.smk" for rule in wing.rules)):
        assert (PROJECT / file).exists(), file


CONFIG = """# Two clips.

datasets: {mine: {adapter: folder, annotations: captions.csv, videos: videos}}
suites: {mlvp: {perturbations: [fog, gaussian_noise], severities: [1]}}
"""

DEMO = "# Two clips.\n\ndatasets: {demo: {adapter: demo, clips: 2}}\nsuites: {mlvp: {severities: [3]}}\n"

OF_ALL_WINGS = ("advice", "cli", "config", "config_mistakes", "kinds", "layout", "names", "plan", "registry", "rooms")
"""The files of tests that ask what all wings together declare: keys, commands, places, kinds, targets, imports."""

THINGS = (
    "suites/tampering",
    "guides/random_donor",  # which this suite alone asks for
    "datasets/didemo",
    "evaluation/backbones/videoprism",
    "tta/methods/eata",
    "exports/webdataset",
)
"""A thing of each shelf. A model's file is a role, which goes with the perturbations that ask for it."""

IMPORT_ALL = """
import importlib, pkgutil, perturbations
for module in pkgutil.walk_packages(perturbations.__path__, "perturbations."):
    if not module.name.endswith(("mteb_tasks", "__main__")):
        importlib.import_module(module.name)
"""


def without(root: Path, names: list[str]) -> Path:
    """A copy of the package and the workflow without some wings, beside a dataset of two clips."""
    copy = shelves.copy_with(root / "copy", {})
    cut(copy, names)
    add_clips(root)
    return copy


def add_clips(root: Path) -> None:
    """Put a dataset of two clips into a folder, with its configuration."""
    for name in ("a", "b"):
        tiny_clip(root / f"videos/{name}.mp4", seed=1, frames=3)
    (root / "captions.csv").write_text("item_id,caption\na,a dog runs\nb,a cat sleeps\n")
    (root / "config.yaml").write_text(CONFIG)


def cut(copy: Path, names: list[str]) -> None:
    """Take wings out of a copy, and those that need them."""
    for name, wing in wings.wings().items():
        if name in names or {*wing.needs} & {*names}:
            shutil.rmtree(copy / "perturbations" / name)
            for file in (*wing.files, *(f"workflow/rules/{rule}.smk" for rule in wing.rules)):
                (copy / file).unlink(missing_ok=True)


def snakemake(root: Path, copy: Path, *words: str) -> str:
    start = ("-m", "snakemake", "--snakefile", str(copy / "Snakefile"), "--cores", "2", "--quiet", "all")
    return shelves.run(copy, *start, *words, folder=root)


@pytest.mark.parametrize("name", wings.wings())
def test_without_a_wing_a_run_is_planned(name: str, tmp_path: Path) -> None:
    copy = without(tmp_path, [name])
    snakemake(tmp_path, copy, "--dry-run", "--", "mlvp_mine")
    if wings.wings()[name].section:
        program = "import sys, yaml; from perturbations.config import file; file.parse(yaml.safe_load(sys.argv[1]))"
        with pytest.raises(AssertionError, match=f"{name}: unknown key"):
            shelves.run(copy, "-c", program, f"{CONFIG}\n{name}: {{}}\n")


def test_the_spine_alone_makes_a_corpus_and_verifies_it(tmp_path: Path) -> None:
    copy = without(tmp_path, list(wings.wings()))
    shelves.run(copy, "-c", IMPORT_ALL)
    snakemake(tmp_path, copy, "--", "mlvp_mine")
    assert len(list(tmp_path.glob("corpora/mine/mlvp/*/1/*.mp4"))) == 4
    shelves.run(copy, "-m", "perturbations", "verify", "--render", folder=tmp_path)
    commands = shelves.run(copy, "-m", "perturbations", "--help")
    assert "verify" in commands
    assert "status" not in commands


# --- copies of the whole repository ----------------------------------------------------------------------------------
#
# The spine's tests run once, without any wing, and a wing's once, without the others. What a run of all tests without
# one wing would show beside that is how the others fit together, which the last test asks.


@pytest.fixture
def checkout(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of the repository, for `pytest --wings`."""
    if not request.config.getoption("wings"):
        pytest.skip("only with --wings, which takes about 20 minutes on two idle cores")
    copy = tmp_path / "checkout"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    for file in tracked.rstrip("\0").split("\0"):
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / file, copy / file, follow_symlinks=False)
    return copy


def leave_out(checkout: Path, names: list[str]) -> str:
    """Take wings out of a checkout, and their keys out of its `config.yaml`; a target that is left."""
    cut(checkout, names)
    if "demo" in names:
        add_clips(checkout)
        return "mlvp_mine"
    (checkout / "config.yaml").write_text(DEMO)
    return "mlvp_demo"


def run_tests(checkout: Path, *words: str) -> None:
    shelves.run(checkout, "-m", "pytest", "-n", "2", "-q", "--bare", "-p", "no:cacheprovider", *words)


def test_the_spine_alone_passes_its_tests(checkout: Path) -> None:
    leave_out(checkout, list(wings.wings()))
    run_tests(checkout, "-m", "not wings", "tests")


@pytest.mark.parametrize("name", wings.wings())
def test_a_wing_alone_on_the_spine_passes_its_tests(name: str, checkout: Path) -> None:
    """Less those that are another's too, which it does not need."""
    leave_out(checkout, [*wings.wings().keys() - {name, *wings.wings()[name].needs}])
    run_tests(checkout, "-m", f"wings({name}=True)", "tests")


@pytest.mark.parametrize("name", wings.wings())
def test_without_a_wing_the_others_fit_together(
    name: str, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = leave_out(checkout, [name])
    types = ("mypy", "perturbations", "--cache-dir", str(tmp_path_factory.getbasetemp() / "mypy"))
    for linter in (("ruff", "check", "perturbations"), types, ("snakemake", "--lint")):
        shelves.run(checkout, "-m", *linter)
    snakemake(checkout, checkout, "--", target)
    run_tests(checkout, *(f"tests/test_{file}.py" for file in OF_ALL_WINGS))


def test_a_thing_of_each_shelf_can_be_taken_out(checkout: Path) -> None:
    for thing in THINGS:
        (checkout / f"perturbations/{thing}.py").unlink()
    shelves.run(checkout, "-c", IMPORT_ALL)
    shelves.run(checkout, "-m", "ruff", "check", "perturbations")
    listed = shelves.run(checkout, "-m", "perturbations", "list")
    assert "mlvp/fog" in listed
    assert "tampering" not in listed
    shelves.run(checkout, "docs/generate.py")
    schema = (checkout / "workflow/schemas/config.schema.json").read_text()
    assert "didemo" not in schema
    assert not (checkout / "docs/catalogue/tampering.md").exists()
