"""README's lines run as they stand, and its table holds the numbers that its command prints."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml
from copies import ROOT
from PIL import Image

import perturbations
from perturbations.cli.main import main

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_lines_run_as_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (lines,) = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
    names: dict[str, object] = {}
    exec(lines, names)
    clean = np.asarray(Image.open("docs/mlvp.webp").convert("RGB"))
    foggy = np.asarray(names["foggy"])
    assert (foggy.shape, foggy.dtype) == (clean.shape, clean.dtype)
    assert (foggy != clean).mean() > 0.5


def test_the_table_is_what_its_command_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (command,) = re.findall(r"`perturb (report --results [^`]+)`", README)
    words = [str(tmp_path / word) if word == "report.html" else word for word in shlex.split(command)]
    assert not main(words)
    text = (tmp_path / "report.tables" / "tables.csv").read_text(encoding="utf-8")
    cells_of = {
        (row["row"], row["column"]): (row["value"], row["low"], row["high"])
        for row in csv.DictReader(text.splitlines())
        if row["table"].startswith("R@1: ")
    }
    (columns,) = re.findall(r"^\| R@1, %[^|]+\| (.+) \|$", README, re.M)
    for name, row in (("no adaptation", "no adaptation"), ("HAT-VTR (interval: difference)", "HAT-VTR")):
        (cells,) = re.findall(rf"^\| {re.escape(name)} \| (.+) \|$", README, re.M)
        for column, cell in zip(columns.split(" | "), cells.split(" | "), strict=True):
            value, low, high = cells_of[row, column.replace(" ", "_")]
            assert cell == (f"{value} ({low} to {high})" if low else f"{value} (equal)")


def test_the_two_commands_that_set_up_are_on_the_page_and_in_the_ci() -> None:
    assert "sh envs/install.sh && . .venv/bin/activate" in README
    line = "sh envs/install.sh dev && .venv/bin/pytest -n 2"
    assert line in README.splitlines()
    assert f"grep -qxF '{line}' README.md" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_versions_and_dates_agree() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    version, date = perturbations.__version__, citation["date-released"]
    assert f"version = {{{version}}}" in README
    assert f"date = {{{date}}}" in README
    assert f"\n## {version} ({date})\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_workflow_catalog_s_file_names_pages_that_exist() -> None:
    text = (ROOT / ".snakemake-workflow-catalog.yml").read_text(encoding="utf-8")
    usage = yaml.safe_load(text)["usage"]
    pages = re.findall(r"[\w/.-]+\.md", usage["mandatory-flags"]["desc"])
    assert pages
    assert [page for page in pages if not (ROOT / page).is_file()] == []


def test_each_page_ends_with_where_to_go_next() -> None:
    """The last paragraph leads to other pages."""
    missing = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        last = page.read_text(encoding="utf-8").strip().rpartition("\n\n")[2]
        if not last.startswith("**Next:** ["):
            missing.append(str(page.relative_to(ROOT)))
    assert missing == []
