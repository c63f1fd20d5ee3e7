"""Files beside the page of results: tables, figures with their data, and the clips of lost queries."""

from __future__ import annotations

import json
import xml.etree.ElementTree
from dataclasses import replace
from itertools import product
from pathlib import Path

import clips
import numpy as np
import pandas as pd
import pytest
import synthetic_results as synthetic
from synthetic_results import FOG, MLVP, Page, page_of, result, written

from perturbations.base import templates
from perturbations.base.errors import AnnotationError, ManifestError
from perturbations.evaluation import pictures, stored_features
from perturbations.evaluation.page import figure_files, lost_queries, page, page_tables, parts
from perturbations.evaluation.rows import RANKS, RankRow
from perturbations.manifest import files as manifests
from perturbations.manifest.kinds import SOURCES
from perturbations.suites import registry


def test_csv_names_are_no_formulas() -> None:
    table = page_tables.PageTable("t", parts.named([(("", "r1"), {"value": ["-1.5"]})], ["=1+1"], "method"))
    assert page_tables.as_csv(table) == "method,r1\n'=1+1,-1.5\n"


def test_tables_of_papers_are_there_as_markdown_and_latex() -> None:
    columns = [
        (
            ("a|b", "x_1"),
            {"value": [1.04], "std": [0.2], "change": [0.5], "low": [0.1], "high": [0.9], "mark": ["best"]},
        ),
        (("a|b", "50 %"), {"value": ["2"], "mark": ["second"]}),
    ]
    data = pd.concat({"m&m": parts.named(columns, ["TCR"], "method")}, names=[""]).droplevel(1)
    table = page_tables.PageTable("50 % of {R@1}", data, ".1f", "N 100.")
    assert page_tables.as_markdown(table) == (
        "50 % of {R@1}\n\n|group|method|a\\|b x\\_1|a\\|b 50 %|\n|---|---|---:|---:|\n"
        "|m\\&m|TCR|**1.0 ± 0.2** (+0.5 \\[0.1, 0.9\\])|*2*|\n\nN 100.\n"
    )
    assert page_tables.as_latex(table).splitlines() == [
        r"\begin{tabular}{llrr}",
        r"\toprule",
        r"group & method & a|b x\_1 & a|b 50 \% \\",
        r"\midrule",
        r"m\&m & TCR & \textbf{1.0 ± 0.2} (+0.5 [0.1, 0.9]) & \underline{2} \\",
        r"\bottomrule",
        r"\multicolumn{4}{p{\linewidth}}{\footnotesize N 100.} \\",
        r"\end{tabular}",
    ]


# --- figures as files -------------------------------------------------------------------------------------------------


def test_the_papers_figures_are_files_with_their_data(tmp_path: Path) -> None:
    about = {"suite": "msrvtt_p", "category": "multimodal", "direction": "t2v", "severity": 3, "text_severity": 1}
    combined = [
        result("none", 1.0, **about, side="both", perturbation=name, text_perturbation=text, recall_at_5=r5)
        for name, text, r5 in (("jpeg", "keyboard", 80.0), ("jpeg", "ocr", 60.0), ("rotate", "keyboard", 40.0))
    ]
    jpeg = synthetic.perturbed(registry.get("msrvtt_p/jpeg"), 1) | {"direction": "t2v", "side": "gallery"}
    curve = [result("none", 30.0, **jpeg | {"severity": at}, recall_at_5=90.0 - 10 * at) for at in (1, 5)]
    clean = result("none", 50.0, direction="t2v")
    square = synthetic.picture(combined[0], np.random.default_rng(0))
    losses = [replace(square, severity=at, method="tcr", losses=(3.0, 2.0 / at)) for at in (1, 4)]
    pictures.write(tmp_path / "p.json", [square, *losses])
    results = written(tmp_path, [clean, *combined, *curve])
    page.write(tmp_path / "r.html", results=[results], pictures=[tmp_path / "p.json"], figures=tmp_path / "figures")
    drawn = {path.stem: path.read_text() for path in (tmp_path / "figures").glob("*.svg")}
    data = {name: pd.read_csv(tmp_path / "figures" / f"{name}.csv") for name in drawn}
    for svg in drawn.values():
        xml.etree.ElementTree.fromstring(svg)
    grid = data["relative_robustness_of_combinations_demo_t2v_both_msrvtt_p_none"].set_index("perturbation")
    assert grid.loc["jpeg"].tolist() == [0.8, 0.6]
    assert grid.loc["rotate", "keyboard"] == 0.4
    curves = data["R@5_over_severity_demo_t2v_gallery_msrvtt_p"]
    assert curves[["plot", "line", "x", "value"]].values.tolist() == [
        ["jpeg", "none", 0, 100.0],
        ["jpeg", "none", 1, 80.0],
        ["jpeg", "none", 5, 40.0],
    ]
    scored = data["relative_robustness_over_severity_demo_t2v_gallery_msrvtt_p"]
    assert scored["value"].tolist() == [0.8, 0.4]
    (squares,) = (own for name, own in data.items() if name.startswith("similarities"))
    assert squares.groupby("method").size().to_dict() == {"none": 32 * 32}
    (loss,) = (own for name, own in data.items() if name.startswith("loss"))
    assert loss.values.tolist() == [["jpeg, keyboard", "TCR", 1, 3.0], ["jpeg, keyboard", "TCR", 2, 0.5]]


def test_features_of_one_model_are_drawn_in_one_plane(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for name, centre, width in (("clean", 0, 8), ("fog", 9, 8), ("other", 0, 4)):
        stored_features.write(
            tmp_path / f"{name}.npz", [f"{name} {at}" for at in range(12)], centre + draw.random((12, width))
        )
    paths = [tmp_path / f"{name}.npz" for name in ("clean", "fog", "other")]
    figure_files.of_features(tmp_path, paths[:2])
    (data,) = map(pd.read_csv, tmp_path.glob("*.csv"))
    assert data["id"].tolist() == [f"{name} {at}" for name in ("clean", "fog") for at in range(12)]
    spread = data.groupby("line")[["x", "y"]].std().to_numpy().max()
    assert np.ptp(data.groupby("line")[["x", "y"]].mean().to_numpy(), axis=0).max() > spread
    with pytest.raises(AnnotationError, match=r"other\.npz has 4 numbers each, .*clean\.npz 8"):
        figure_files.of_features(tmp_path, paths)


def test_settings_of_a_method_are_rows_of_their_own_and_a_curve(tmp_path: Path) -> None:
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
    page.write(tmp_path / "r.html", results=[written(tmp_path, rows)], figures=tmp_path / "figures")
    content = Page(tmp_path / "r.html")
    assert [[text for text, _ in line] for line in content.tables[MLVP][2:]] == [
        ["none", "40.0", "30.0"],
        ["HAT-VTR", "44.0", "34.0"],
        ["alpha 10", "42.0", "32.0"],
        ["alpha: 5", "41.0", "31.0"],
    ]
    data = pd.read_csv(tmp_path / "figures" / "R@1_by_alpha_demo_v2t_query_mlvp.csv")
    assert data[["plot", "line", "x", "value"]].values.tolist() == [
        ["HAT-VTR", line, x, value - lost]
        for x, value in ((5, 41), (10, 42), (30, 44))
        for line, lost in (("clean", 0), ("mlvp", 10))
    ]
    same = [replace(row, label="HAT-VTR") if row.method == "hatvtr" else row for row in rows]
    with pytest.raises(ManifestError, match="two settings of a method with one label"):
        page_of(tmp_path, same)


# --- lost queries ----------------------------------------------------------------------------------------------------


def test_lost_queries_show_the_clips_that_they_retrieved(tmp_path: Path) -> None:
    """Pictures are of the clips that are there; a dataset's name leads nowhere else. Seeds list no query twice."""
    row = clips.source_row(clips.make(tmp_path / "a.mp4", *clips.X264), "a")
    sources = [row, clips.made_up_source("b")]
    manifests.write(tmp_path / "manifests/demo/sources.parquet", SOURCES, sources, {"root": "../.."})
    names = [name for name in RankRow.__dataclass_fields__ if name not in ("query_id", "rank", "retrieved")]
    ranks = []
    for dataset, seed in product(("demo", "../demo"), (42, 0)):
        for about, rank, first in (({}, 1, "ab"), (FOG, 2, "ba")):
            row = result("none", 1.0, dataset=dataset, direction="t2v", seed=seed, **about)
            retrieved = json.dumps([[name, 1.0] for name in first])
            columns = {name: getattr(row, name) for name in names}
            ranks.append(RankRow(**columns, query_id="a#0", rank=rank, retrieved=retrieved))
    manifests.write(tmp_path / "ranks.parquet", RANKS, ranks)
    (section,) = lost_queries.sections([tmp_path / "ranks.parquet"], tmp_path / "manifests/report.html")
    (shown,) = [part for part in section.parts if isinstance(part, parts.RankedList)]
    assert (shown.title, shown.query, [*shown.sides]) == ("a#0, t2v query mlvp/fog 5", "", ["clean", "perturbed"])
    assert [name for name, _ in shown.sides["perturbed"]] == ["b", "a"]
    assert [picture[:16] for _, picture in shown.sides["clean"]] == ["data:image/webp;", ""]
    text = templates.rendered(
        "perturbations.evaluation.page",
        "page.html.j2",
        **{
            "title": "t",
            "summary": "",
            "banner": [],
            "views": parts.views_of(page._read([])),
            "metrics": {},
            "folder": "",
        },
        sections=[section],
    )
    assert text.count('<img src="data:image/webp;') == 2
