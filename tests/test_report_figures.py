"""Files beside the page of results: its numbers, tables for papers, and curves."""

from __future__ import annotations

import json
import urllib.parse
import xml.etree.ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_results import B16, B32, FOG, MLVP, of_model, page_of, result

from perturbations.base.errors import ManifestError
from perturbations.evaluation.page import page_tables, parts


def test_csv_names_are_no_formulas() -> None:
    table = page_tables.PageTable("t", parts.named([(("", "r1"), {"value": ["-1.5"]})], ["=1+1"], "method"))
    head, cell = page_tables.as_csv([table]).splitlines()
    assert head == "table,row,column_group,column,value,std,change,low,high,mark"
    assert cell == "t,'=1+1,,r1,-1.5,,,,,"


def test_tables_of_papers_are_there_as_markdown_and_latex() -> None:
    columns = [
        (
            ("a|b", "x_1"),
            {"value": [1.04], "std": [0.2], "change": [0.5], "low": [0.1], "high": [0.9], "mark": ["best"]},
        ),
        (("a|b", "50 %"), {"value": ["2"], "mark": ["second"]}),
    ]
    table = page_tables.PageTable("50 % of {R@1}", parts.named(columns, ["m&m TCR"], "method"), ".1f", "N 100.")
    assert page_tables.as_markdown(table) == (
        "50 % of {R@1}\n\n|method|a\\|b x\\_1|a\\|b 50 %|\n|---|---:|---:|\n|m\\&m TCR|**1.0 ± 0.2**|*2*|\n\nN 100.\n"
    )
    assert page_tables.as_latex(table).splitlines() == [
        r"\resizebox{\linewidth}{!}{%",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"method & a|b x\_1 & a|b 50 \% \\",
        r"\midrule",
        r"m\&m TCR & \textbf{1.0 ± 0.2} & \underline{2} \\",
        r"\bottomrule",
        r"\end{tabular}}",
        r"\par\footnotesize N 100.",
    ]


def test_settings_of_a_method_are_rows_of_their_own(tmp_path: Path) -> None:
    settings = [
        (method, label, json.dumps({"alpha": alpha, "m": 1}), r1)
        for method, label, alpha, r1 in (
            ("none", "none", 0, 40.0),
            ("hatvtr", "HAT-VTR", 30, 44.0),
            ("hatvtr", "alpha 10", 10, 42.0),
            ("hatvtr", "alpha: 5", 5, 41.0),
        )
    ]
    rows = [
        result(method, r1 - lost, label=label, parameters=parameters, **about)
        for method, label, parameters, r1 in settings
        for lost, about in ((0.0, {}), (10.0, FOG))
    ]
    content = page_of(tmp_path, rows)
    assert [[text for text, _ in line] for line in content.tables[MLVP][2:]] == [
        ["none", "40.0", "30.0"],
        ["HAT-VTR", "44.0|+4.0", "34.0"],
        ["alpha 10", "42.0|+2.0", "32.0"],
        ["alpha: 5", "41.0|+1.0", "31.0"],
    ]
    same = [replace(row, label="HAT-VTR") if row.method == "hatvtr" else row for row in rows]
    with pytest.raises(ManifestError, match="two settings of a method with one label"):
        page_of(tmp_path, same)


def test_curves_are_files_of_every_model(tmp_path: Path) -> None:
    rows = [row for key in (B32, B16) for row in of_model(key, {"none": 40.0})]
    fog = [result("none", 35.0, model_key=key, checkpoint_sha256=key, **FOG | {"severity": 1}) for key in (B32, B16)]
    content = page_of(tmp_path, [*rows, *fog])
    (svg,) = (tmp_path / "report.tables").glob("*.svg")
    xml.etree.ElementTree.fromstring(svg.read_text())
    assert all(f"clip4clip-{name}-qs, none" in svg.read_text() for name in ("b16", "b32"))
    assert f"report.tables/{urllib.parse.quote(svg.name)}" in map(
        urllib.parse.quote, map(urllib.parse.unquote, content.links)
    )
