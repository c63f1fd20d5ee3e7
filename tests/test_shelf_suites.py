"""A suite is one file: with it, and nothing else edited, everything that lists suites knows it."""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path
from typing import Any

import needs
import pytest
import yaml
from shelves import ROOT, copy_with, example, run
from test_workflow import tiny_clip

from perturbations.base.errors import ShelfError
from perturbations.suites import registry


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with one more suite, and three clips to perturb."""
    root = copy_with(tmp_path_factory.mktemp("copy"), {"perturbations/suites/novel.py": example("add-a-suite")})
    config: dict[str, Any] = {
        "datasets": {"tiny": {"adapter": "folder", "annotations": "captions.json", "videos": "videos"}},
        "suites": {"novel": {"severities": [2]}},
        "storage": {"tier": "frames", "num_frames": 4},
        "shard_size": 10,
    }
    for index in range(3):
        tiny_clip(root / f"videos/clip{index}.mp4", seed=index)
    rows = [{"item_id": f"clip{index}", "caption": f"a man is clip number {index}"} for index in range(3)]
    (root / "captions.json").write_text(json.dumps(rows))
    (root / "config.yaml").write_text(yaml.safe_dump(config))
    return root


def test_menus_and_the_schema_know_it(copy: Path) -> None:
    assert "novel/sweep" in run(copy, "-m", "perturbations", "list")
    assert "thin mist" in run(copy, "-m", "perturbations", "list", "novel/mist")
    menu = run(copy, "-m", "snakemake", "--list-target-rules")
    assert "4 perturbations of novel" in menu
    assert "text_novel_tiny" in menu
    schema = json.loads(run(copy, "-m", "perturbations", "--schema"))
    assert "novel" in schema["properties"]["suites"]["propertyNames"]["enum"]


def test_the_workflow_makes_it_and_verify_checks_it(copy: Path) -> None:
    """A pixel kernel, one of the suite's own, a temporal one, one that follows motion."""
    run(copy, "-m", "snakemake", "--cores", "2", "--no-hooks", "novel_tiny", "text_novel_tiny")
    program = (
        "import perturbations, collections, sys;"
        "rows = perturbations.read_manifest('manifests/tiny/novel/videos.parquet');"
        "frames = [perturbations.open_clip(row) for _, row in rows.iterrows()];"
        "print(len(rows), set(rows.status), {clip.shape[0] for clip in frames});"
        "texts = perturbations.read_manifest('manifests/tiny/novel/captions.parquet');"
        "print(len(texts), texts.changed.sum() > 0)"
    )
    assert run(copy, "-c", program).splitlines() == ["12 {'complete'} {4}", "3 True"]
    run(copy, "-m", "perturbations", "verify", "--render", "manifests")


@needs.wings("evaluation")
def test_evaluation_and_the_page_know_it(copy: Path) -> None:
    program = (
        "import yaml; from perturbations.config import file as config;"
        "from perturbations.evaluation import planning as evaluation;"
        "parsed = config.parse({**yaml.safe_load(open('config.yaml')), 'suites': {'novel': {}}});"
        "asked = evaluation.scenarios(parsed, 'tiny');"
        "print(sorted({(entry.suite, entry.perturbation, entry.severity, entry.level) for entry in asked}))"
    )
    printed = ast.literal_eval(run(copy, "-c", program))
    assert ("novel", "dusk", 3, "weather") in printed
    assert ("novel", "sweep", 2, "motion") in printed  # the highest severity that it has
    assert ("novel", "slip", 1, "letters") in printed


@pytest.fixture(scope="module")
def checkout(copy: Path) -> Path:
    """The copy with the tests and the documentation."""
    shutil.copytree(ROOT / "docs", copy / "docs")
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=shutil.ignore_patterns("golden", "__pycache__"))
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml"):
        shutil.copy(ROOT / name, copy / name)
    return copy


@needs.wings(*needs.WINGS)
def test_the_documentation_lists_it(checkout: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, 'docs'); import generate;"
        "pages = [page.name for page, text in generate.files() if 'novel' in text.lower()];"
        "print('novel' in generate.of_suites(), 'README.md' in pages, 'config.schema.json' in pages)"
    )
    assert run(checkout, "-c", program).split() == ["True", "True", "True"]


def test_it_passes_the_tests_that_the_page_names(checkout: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "add-a-suite.md").read_text()
    files = ["tests/test_registry.py", "tests/test_kernels.py"]
    assert f"pytest {' '.join(files)} " in page
    printed = run(checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "novel", *files)
    assert re.search(r"^\d+ passed", printed.splitlines()[-1]), printed


def test_a_file_that_declares_no_suite_is_named(tmp_path: Path) -> None:
    root = copy_with(tmp_path, {"perturbations/suites/empty.py": "SUIT = 1\n"})
    program = (
        "from perturbations.suites import registry;"
        "from perturbations.base.errors import ShelfError\n"
        "try: registry.suites()\n"
        "except ShelfError as error: print(error)"
    )
    assert "suites/empty.py is on the shelf perturbations.suites, and must define SUITE" in run(root, "-c", program)


def test_two_suites_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_ = registry.suites().values()
    monkeypatch.setattr(registry.shelf, "things", lambda *_: {"one": first, "other": first})
    with pytest.raises(ShelfError, match=f"two suites are called '{first.name}'"):
        registry.suites.__wrapped__()
