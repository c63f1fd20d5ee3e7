"""A new format is one new file of `exports/`: the command line knows it, and nothing else is edited."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import clips
import needs
import pytest
import shelves

import perturbations
from perturbations.base import wings
from perturbations.base.errors import ConfigError
from perturbations.exports import registry
from perturbations.exports.registry import Export
from perturbations.exports.writing.requests import Exported, Request
from perturbations.manifest import files
from perturbations.manifest.kinds import SOURCES, TEXTS
from perturbations.plan import caption_recipes
from perturbations.suites import registry as suites

PACKAGE = Path(perturbations.__file__).parent


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package that has one file more, and a corpus of two clips and a caption."""
    folder = tmp_path_factory.mktemp("house")
    shutil.copytree(PACKAGE, folder / "perturbations", ignore=shutil.ignore_patterns("*.pyc.*"))
    (folder / "perturbations/exports/file_list.py").write_text(shelves.example("add-an-export"), encoding="utf-8")
    rows = [clips.source_row(clips.make(folder / f"{name}.mp4", frames=2), name) for name in ("a", "b")]
    files.write(folder / "sources.parquet", SOURCES, rows, {"root": "."})
    recipe = caption_recipes.make(suites.get("mm_robustness/word_swap"), 3)
    caption = clips.text_row(recipe, caption_id="a#0", item_id="a", backend="rules", text="swapped", recipe_id="")
    files.write(folder / "captions.parquet", TEXTS, [caption])
    return folder


def perturb(house: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the copy's command line."""
    return subprocess.run(
        [sys.executable, "-m", "perturbations", *arguments],
        cwd=house,
        env={**os.environ, "PYTHONPATH": str(house), "COLUMNS": "500"},
        capture_output=True,
        text=True,
        check=False,
    )


@needs.wings("composed")
def test_help_lists_the_new_format(house: Path) -> None:
    result = perturb(house, "export", "--help")
    assert result.returncode == 0, result.stderr
    assert "{composed,croissant,file_list,hub,mteb,recipe,vtr_tta,webdataset}" in result.stdout
    assert "file_list: the rows' files, JSON; takes videos, refuses nothing at 100 %." in result.stdout


def test_the_new_format_is_written_of_what_it_takes(house: Path) -> None:
    result = perturb(house, "export", "sources.parquet", "--format", "file_list", "-o", "out")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "out: 2 videos written, 0 existed, 0 failed, 0 are quarantined\n"
    listed = json.loads((house / "out/files.json").read_text(encoding="utf-8"))
    assert {name: Path(path).name for name, path in listed.items()} == {"a": "a.mp4", "b": "b.mp4"}
    result = perturb(house, "export", "captions.parquet", "--format", "file_list", "-o", "texts")
    assert result.returncode == 1
    assert "file_list takes videos only, not captions" in result.stderr
    assert not (house / "texts").exists()


def test_formats_that_are_not_there_or_take_something_else_are_refused() -> None:
    with pytest.raises(ConfigError, match="no format 'csv'.*known: .*vtr_tta"):
        registry.get("csv")
    export = Export(name="texts", summary="", refuses="", captions=lambda request: 1)
    with pytest.raises(ConfigError, match="texts takes captions only, not videos"):
        export.write("videos", Request(manifest=Path("m"), output=Path("o")))
    both = Export(
        name="both", summary="", refuses="", captions=lambda request: 1, videos=lambda request: Exported(1, 0)
    )
    assert (export.takes, both.takes) == (("captions",), ("videos", "captions"))


@pytest.mark.parametrize("name", registry.exports())
def test_a_format_is_called_as_its_file_and_takes_something(name: str) -> None:
    assert (PACKAGE / "exports" / f"{name}.py").is_file() or name in wings.on_shelf("perturbations.exports")
    assert registry.get(name).takes
