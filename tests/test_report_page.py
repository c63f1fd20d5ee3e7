"""The report: what the page says, that it stands alone, and how it looks in a browser."""

from __future__ import annotations

import csv
import html.parser
import json
import re
import subprocess
import urllib.parse
import xml.etree.ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import clips
import needs
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import synthetic_results as synthetic

from perturbations.base import templates
from perturbations.base.errors import AnnotationError, ManifestError
from perturbations.evaluation import pictures, stored_features
from perturbations.evaluation.page import figure_files, lost_queries, page, page_tables, parts
from perturbations.evaluation.pictures import Picture
from perturbations.evaluation.rows import RANKS, RESULTS, RankRow, ResultRow
from perturbations.manifest import dataframes, sets, skipped
from perturbations.manifest import files as manifests
from perturbations.manifest.columns import columns_of
from perturbations.manifest.kinds import QUARANTINE, SOURCES, TEXT_STATISTICS, QuarantineRow
from perturbations.manifest.skipped import Skipped
from perturbations.retrieval import gamma_a, gamma_r, mmi
from perturbations.retrieval.bootstrap import share_interval
from perturbations.suites import registry
from perturbations.suites.published import SPLITS

METHODS = ("none", "tcr", "hatvtr")
TITLES = ["none", "TCR", "HAT-VTR"]
V2T, T2V = "video-to-text (v2t), queries perturbed", "text-to-video (t2v), queries perturbed"
MLVP = f"R@1: demo, {V2T}, mlvp at severity 5"
B32, B16, XPOOL = "clip4clip-b32-qs-0a", "clip4clip-b16-qs-0b", "xpool-b32-qgs_cross-0c"
FOG = synthetic.perturbed(registry.get("mlvp/fog"), 5)
SNOW = synthetic.perturbed(registry.get("mlvp/snow"), 5)
TIMES = [f"{part}_ms_p50" for part in ("encode", "adapt", "rerank", "total")]
NASTY = '<script>alert(1)</script>\n"quoted" видео 影片'


def result(method: str, recall_at_1: float, **more: Any) -> ResultRow:
    """A row of clean queries of the demo, or of what `more` says."""
    usual: dict[str, Any] = {
        **{"dataset": "demo", "model_key": B32, "seed": 42, "direction": "v2t", **synthetic.CLEAN},
        **{f"recall_at_{k}": 100.0 for k in (5, 10, 50, 100)},
        **{"rsum": 300.0, "queries": 100, "gallery": 100, "median_rank": 1.0, "mean_rank": 2.0},
        "backend": json.dumps({"retrieval": "demo_encoder"}),
        "side": "query" if more.get("suite", "clean") != "clean" else "none",
    }
    return synthetic.result_row(**{**usual, **more}, method=method, recall_at_1=recall_at_1)


def drawn(method: str, **more: Any) -> Picture:
    return synthetic.picture(result(method, 0.0, **more), np.random.default_rng(len(method)))


def rows() -> list[ResultRow]:
    """Two directions, two suites, severities 1 and 5; hatvtr is best, and tied with tcr on clean queries."""
    results = []
    for direction, kind, suite in (("v2t", "video", "mlvp"), ("t2v", "text", "mm_robustness")):
        for place, method in enumerate(METHODS):
            results.append(result(method, 80.0 + min(place, 1), direction=direction))
            for entry in registry.perturbations(suite, kind):  # type: ignore[arg-type]
                for severity in {1, min(5, len(entry.severities))}:
                    about = synthetic.perturbed(entry, severity)
                    results.append(result(method, 60.0 - 5 * severity + 2 * place, direction=direction, **about))
    return results


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    folder = tmp_path_factory.mktemp("files") / "manifests" / "demo" / "mlvp"
    folder.mkdir(parents=True)
    paths = {name: folder / f"{name}.parquet" for name in ("results", "quarantine", "statistics")}
    paths["pictures"] = folder / "adapted.pictures.json"
    results = [replace(row, tools=json.dumps({"name": NASTY})) for row in rows()]
    manifests.write(paths["results"], RESULTS, results, {"package_version": "1.2.3"})
    bad = QuarantineRow(dataset="demo", item_id="a", status="quarantined", stage="source", error="damaged")
    listed = sets.Listed(listed=1000, listed_sha256="0", complete=3, quarantined=1, missing=996, scenarios=60)
    manifests.write(paths["quarantine"], QUARANTINE, [bad], {"set": listed.columns()})
    left_out = {"skipped": skipped.columns([Skipped("ocr", (1,), "no font")])}
    manifests.write(paths["statistics"], TEXT_STATISTICS, [], {"set": left_out})
    # The scenario of the least R@1 is drawn: the first perturbation by name at severity 5.
    worst = min(registry.perturbations("mlvp", "video"), key=lambda entry: entry.name)
    pictures.write(paths["pictures"], [drawn(method, **synthetic.perturbed(worst, 5)) for method in METHODS])
    return {name: [path] for name, path in paths.items()}


class Page(html.parser.HTMLParser):
    """A page: its text, and of each table its caption, its rows of (text, mark), its CSV file.

    "|" is between the lines of a cell.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.text = path, path.read_text(encoding="utf-8")
        self.tables: dict[str, list[list[tuple[str, str]]]] = {}
        self.files: dict[str, list[list[str]]] = {}
        self.headings: list[str] = []
        self.links: list[str] = []
        self._rows: list[list[tuple[str, str]]] = []
        self._open: str | None = None
        self._text, self._mark = "", ""
        self.feed(self.text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in ("th", "td", "tr", "tbody"):  # they end the cell before
            self._end_cell()
        if tag == "table":
            self._rows = []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("caption", "th", "td", "h2"):
            self._open, self._text, self._mark = tag, "", ""
        elif tag in ("strong", "u"):
            self._mark = tag
        elif tag == "p" and self._open:
            self._text += "|"
        elif tag == "a" and (address := dict(attributes)["href"] or "").endswith((".csv", ".md", ".tex")):
            self.links.append(address)
            if address.endswith(".csv"):
                with open(self.path.parent / urllib.parse.unquote(address), newline="", encoding="utf-8") as file:
                    self.files[list(self.tables)[-1]] = list(csv.reader(file))

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "caption":
            self.tables.pop(self._text, None)  # the tables of several datasets may have one caption
            self.tables[self._text] = self._rows
            self._open = None
        elif tag == "h2":
            self.headings.append(self._text)
            self._open = None
        elif tag == "table":
            self._end_cell()

    def _end_cell(self) -> None:
        if self._open in ("th", "td"):
            text = self._text.strip()
            self._rows[-1].append((text.removeprefix("≈"), "≈" if text.startswith("≈") else self._mark))
        self._open = None


def page_of(folder: Path, rows: list[ResultRow] | None = None, **files: list[Path]) -> Page:
    """The page of rows of one file, or of files."""
    if rows is not None:
        files["results"] = [written(folder, rows)]
    page.write(folder / "report.html", **files)
    return Page(folder / "report.html")


def written(folder: Path, results: list[ResultRow], name: str = "results.parquet") -> Path:
    manifests.write(folder / name, RESULTS, results, {})
    return folder / name


@pytest.fixture(scope="module")
def report(files: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory) -> Page:
    return page_of(tmp_path_factory.mktemp("report"), **files)


def of_model(key: str, r1: dict[str, float], **more: Any) -> list[ResultRow]:
    """The rows of one model: each method on clean queries and on fog."""
    return [
        result(method, value - lost, model_key=key, checkpoint_sha256=key, **about, **more)
        for method, value in r1.items()
        for lost, about in ((0.0, {}), (10.0, FOG))
    ]


def test_two_models_never_mix(tmp_path: Path) -> None:
    """Each model keeps its own numbers and marks, whether its rows lie in one file with others or alone."""
    models = {B32: {"none": 40.0, "tcr": 42.0}, B16: {"none": 60.0, "tcr": 58.0}, XPOOL: {"none": 70.0}}
    paths = [written(tmp_path, of_model(key, r1), f"{key}.parquet") for key, r1 in models.items()]
    histograms = [
        replace(drawn("none", model_key=key, **FOG), occurrence=(float(place),)) for place, key in enumerate(models)
    ]
    pictures.write(tmp_path / "pictures.json", histograms)
    content = page_of(tmp_path, results=paths, pictures=[tmp_path / "pictures.json"])
    table = content.tables[MLVP]
    assert [[cell for cell, _ in line] for line in table[2:]] == [
        ["clip4clip-b16-qs"],
        ["none", "60.0", "50.0"],
        ["TCR", "58.0", "48.0"],
        ["clip4clip-b32-qs"],
        ["none", "40.0", "30.0"],
        ["TCR", "42.0", "32.0"],
        ["xpool-b32-qgs_cross"],
        ["none", "70.0", "60.0"],
    ]
    assert [text for line in table for text, mark in line if mark == "strong"] == ["60.0", "50.0", "42.0", "32.0"]
    for place, name in enumerate(("clip4clip-b32-qs", "clip4clip-b16-qs", "xpool-b32-qgs_cross")):
        for what in ("milliseconds per query", "hubness of the k-occurrence"):
            assert [title for title in content.tables if f"{name}, " in title and what in title]
        assert f"{name}, mlvp, {V2T}: R@1 by perturbation." in content.text
        never = "100%" if place == 0 else "0%"
        assert f"never retrieved: none {never}" in content.text
        assert f"{name}, {V2T}, mlvp/fog at severity 5: number of gallery items" in content.text
    # Nobody evaluated with their ranks.
    assert "No intervals for clip4clip-b16-qs, clip4clip-b32-qs, xpool-b32-qgs_cross: no ranks.parquet" in content.text
    assert "≈: best" not in content.text
    together = [row for key, r1 in models.items() for row in of_model(key, r1)]
    assert page_of(tmp_path, together, pictures=[tmp_path / "pictures.json"]).tables == content.tables


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({}, "hold the run demo, clip4clip-b32-qs-0a, v2t none clean/clean 0, none, seed 42 twice"),
        ({"seed": 7, "checkpoint_sha256": "other"}, "have different weights"),
        ({"seed": 7, "settings": '{"steps":1}'}, "have different settings"),
    ],
)
def test_results_whose_means_would_mix_are_refused(tmp_path: Path, second: dict[str, Any], message: str) -> None:
    paths = [
        written(tmp_path, [result("none", 50.0)], "a.parquet"),
        written(tmp_path, [result("none", 90.0, **second)], "b.parquet"),
    ]
    with pytest.raises(ManifestError, match=message):
        page_of(tmp_path, results=paths)
    assert not (tmp_path / "report.html").exists()


def test_models_that_only_their_hash_tells_apart_keep_it() -> None:
    assert parts.model_names(["a-qs-01", "a-qs-02"]) == {"a-qs-01": "a-qs-01", "a-qs-02": "a-qs-02"}


def test_tables_are_the_papers(report: Page) -> None:
    table = report.tables[MLVP]
    assert [text for text, _ in table[0]] == ["", "", "low", "mid", "high", "all"]
    names = [text for text, _ in table[1] if text != "average"]
    assert names == ["method", "clean", *(entry.name for entry in registry.perturbations("mlvp", "video"))]
    by_name = {line[0][0]: line[1:] for line in table[2:]}
    assert list(by_name) == TITLES
    assert by_name["none"][0] == ("80.0", "u")
    # Ties are all best.
    assert by_name["TCR"][0] == by_name["HAT-VTR"][0] == ("81.0", "strong")
    assert by_name["HAT-VTR"][1] == ("39.0", "strong")
    assert by_name["TCR"][1] == ("37.0", "u")
    assert by_name["none"][1] == ("35.0", "")
    assert by_name["HAT-VTR"][-1] == ("39.0", "strong")
    assert f"R@1: demo, {T2V}, mm_robustness at severity 1" in report.tables


def test_averages_are_of_categories_and_of_all(tmp_path: Path) -> None:
    results = [result("none", 90.0)]
    levels: dict[str, list[int]] = {}
    for place, entry in enumerate(registry.perturbations("mlvp", "video")):
        results.append(result("none", float(place), **synthetic.perturbed(entry, 5)))
        levels.setdefault(entry.category, []).append(place)
    names, line = page_of(tmp_path, results).tables[MLVP][1:]
    values = list(zip([text for text, _ in names][::-1], [text for text, _ in line][::-1], strict=False))[::-1]
    averages = [text for name, text in values if name == "average"]
    assert averages == [f"{np.mean(places):.1f}" for places in [*levels.values(), range(12)]]
    assert dict(values)["gaussian_noise"] == "0.0"


@pytest.mark.parametrize(
    ("backend", "says"),
    [
        ({"retrieval": "pretrained", "captions": "bert-base-uncased + wordnet-3.0", "style": "pretrained"}, None),
        ({"retrieval": "demo_encoder"}, "Retrieval: a small encoder that the workflow trained on synthetic scenes"),
        ({"retrieval": "pretrained", "main_object": "offline"}, "Main object: the offline backend."),
        ({"retrieval": "pretrained", "captions": "lexical-fields"}, "Captions were perturbed by lexical-fields."),
        ({"retrieval": "pretrained", "severities": "calibrated"}, "Severities are not the published ones: calibrated."),
    ],
)
def test_what_cannot_be_compared_is_said_first(backend: dict[str, str], says: str | None, tmp_path: Path) -> None:
    text = page_of(tmp_path, [result("none", 1.0, backend=json.dumps(backend))]).text
    assert ("Not comparable with published numbers" in text) == (says is not None)
    if says is not None:
        assert text.index(says) < text.index("<table")


def test_every_section_is_there(report: Page) -> None:
    wanted = ["Results", "R@1 in figures", "Robustness scores", "Hubness", "Cost", "Corpora", "How it was made"]
    assert report.headings == wanted
    text = report.text
    assert "mlvp on demo: 3 of 1,000 listed clips complete; 1 quarantined; 996 missing." in text
    assert "mlvp on demo: skipped: 1 perturbation, ocr (no font)." in html.unescape(text)
    assert text.count("<img ") == 2 + 1  # of two directions, and histograms
    drawn = [urllib.parse.unquote(source) for source in re.findall(r'src="data:image/svg([^"]*)"', text)]
    plots = [set(re.findall(r">([^<>]*[a-zA-Z][^<>]*)</text>", svg)) for svg in drawn]
    for (suite, kind), shown in zip((("mm_robustness", "text"), ("mlvp", "video")), plots, strict=False):
        categories = {entry.category for entry in registry.perturbations(suite, kind)}  # type: ignore[arg-type]
        assert shown == {*categories, "all", *TITLES, "severity", "R@1, %"}
    assert plots[2:] == [{*TITLES, "times among the top 15", "gallery items"}]
    assert "a small encoder that the workflow trained on synthetic scenes" in text


def test_what_was_found_is_said_first_in_words(few: Page, large: Page, tmp_path: Path) -> None:
    def found(content: Page) -> list[str]:
        results = html.unescape(content.text.partition("<h2>Results</h2>")[2].partition("<table")[0])
        return re.findall("<p>(.*?)</p>", results)

    one = [
        *of_model(B32, {"none": 40.0, "tcr": 43.5, "hatvtr": 40.0}),
        result("none", 39.0, checkpoint_sha256=B32, **SNOW),
    ]
    assert found(page_of(tmp_path, one)) == [
        f"On demo, {V2T}: clip4clip-b32-qs as it is finds the right item first for 40.0 % of clean queries, and for "
        "34.5 % under mlvp (severity 5): 5.5 points less. fog costs most (-10.0), snow least (-1.0). "
        "N = 100 queries, gallery of 100."
    ]
    text = found(few)[0]
    assert re.search(
        r"as it is .* points \[[0-9.]+, [0-9.]+\] less\. .* costs most .*N = 60 queries, gallery of 1,000", text
    )
    assert re.search(r"(Significantly better than none|No significant difference): .*HAT-VTR [+-]", text)
    brief = found(large)[0]
    assert brief.count(" methods are significantly better, the best is ") == len(synthetic.MODELS)


def test_a_method_that_moves_nothing_is_said_with_its_rate(tmp_path: Path) -> None:
    rows = of_model(B32, {"none": 40.0, "tcr": 43.5, "sar": 40.0}, parameters='{"lr": 3e-05}')
    text = page_of(tmp_path, rows).text
    assert "The best of 2 methods is TCR: +3.5 points." in text
    assert "No R@k changes at all by SAR (learning rate 3e-05)" in text


def test_sections_that_do_not_apply_are_absent(tmp_path: Path) -> None:
    rows = [result("none", 40.0, **dict.fromkeys(TIMES)), result("none", 30.0, **FOG, **dict.fromkeys(TIMES))]
    assert page_of(tmp_path, rows).headings == ["Results", "R@1 in figures", "Hubness", "How it was made"]
    assert page_of(tmp_path).headings == []


def test_robustness_is_against_the_methods_own_clean_result_in_the_same_gallery(tmp_path: Path) -> None:
    """Only of suites whose paper defines it: none of MLVP."""
    jumble = synthetic.perturbed(registry.get("msrvtt_p/jumble"), 1) | {"side": "gallery", "direction": "t2v"}
    rows = [
        result(method, 50.0, recall_at_5=clean - lost, **{"direction": "t2v", **about})
        for method, clean in (("none", 80.0), ("hatvtr", 90.0))
        for lost, about in ((0, {}), (20, jumble), (50, jumble | {"severity": 5}))
    ]
    content = page_of(tmp_path, [*rows, result("none", 40.0), result("none", 30.0, **FOG)])
    where = "demo, msrvtt_p, text-to-video (t2v), gallery perturbed"
    for name, scored in (("absolute robustness", gamma_a), ("relative robustness", gamma_r)):
        for line, clean in zip(content.tables[f"{where}: {name} of R@5"][2:], (80, 90), strict=True):
            cells = [scored(clean, clean - lost) for lost in (20, 50)]
            assert line[1][0] == f"{np.mean(cells):.2f} ± {np.std(cells, ddof=1):.2f}"
    assert not [caption for caption in content.tables if "robustness" in caption and "mlvp" in caption]
    smaller = [replace(row, gallery=99) if row.severity == 5 else row for row in rows]
    table = page_of(tmp_path, smaller).tables[f"{where}: relative robustness of R@5"]
    assert [line[1][0] for line in table[2:]] == ["", ""]


def test_robustness_is_of_the_papers_metric_and_of_the_same_queries(tmp_path: Path) -> None:
    """R@5 and gamma for MSRVTT-P, RSUM of both directions and MMI for Qiu et al.; NaN where the queries are others."""
    jumble = synthetic.perturbed(registry.get("msrvtt_p/jumble"), 1) | {"side": "gallery", "direction": "t2v"}
    noise = synthetic.perturbed(registry.get("mm_robustness/gaussian_noise"), 1)
    rows = [
        *(result("none", 50.0, direction=direction) for direction in ("v2t", "t2v")),
        result("none", 30.0, **jumble, recall_at_5=40.0, clean_recall_at_5=80.0, queries=90),
        result("none", 10.0, **noise, rsum=150.0),
        result("none", 10.0, **noise | {"direction": "t2v", "side": "gallery"}, rsum=90.0),
        result("none", 10.0, **noise | {"perturbation": "shot_noise"}, queries=90),
    ]
    content = page_of(tmp_path, rows)
    tables = content.tables
    gamma = tables["demo, msrvtt_p, text-to-video (t2v), gallery perturbed: relative robustness of R@5"]
    assert gamma[2][1][0] == "0.50"
    both = "demo, mm_robustness, both directions, videos perturbed: MMI of RSUM of both directions"
    assert both in tables
    # Clean R@1, 5 and 10 are 50, 100, 100 in each direction.
    assert tables[both][2][1][0] == f"{mmi(500, 240):.2f}"
    assert not any("absolute" in caption and "mm_robustness" in caption for caption in tables)
    assert "As MSRVTT-P, Sec. 4.3 defines it." in content.text
    assert "N 90, missing 0, gallery 100." in content.text


def test_names_are_text_and_nothing_is_loaded(report: Page) -> None:
    text = report.text
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "видео 影片" in text
    around = re.sub(r'src="data:[^"]*"', "", text)
    assert not re.search(r'src=|href=(?!"#|"report\.tables/[0-9A-Za-z@_]+\.(csv|md|tex)")', around)
    assert "http" not in around


def test_the_same_manifests_give_the_same_page(files: dict[str, list[Path]], report: Page, tmp_path: Path) -> None:
    assert page_of(tmp_path, **files).text == report.text


def test_nothing_was_evaluated(tmp_path: Path) -> None:
    content = page_of(tmp_path)
    assert not content.tables
    assert "Nothing was evaluated yet" in content.text


def test_what_was_not_measured_is_left_empty(tmp_path: Path) -> None:
    unmeasured = {column.name: None for column in columns_of(ResultRow) if column.name.startswith(("hub_", "total_ms"))}
    results = [result(method, 50.0 + place, **unmeasured) for place, method in enumerate(METHODS)]
    assert not [name for name in page_of(tmp_path, results).tables if "hubness" in name or "milliseconds" in name]
    tables = page_of(tmp_path, [result(METHODS[0], 50.0), *results[1:]]).tables
    (hubness,) = (table for name, table in tables.items() if "hubness" in name)
    assert [line[0][0] for line in hubness[1:]] == TITLES
    assert {text for line in hubness[2:] for text, _ in line[1:]} == {""}
    assert "" not in {text for text, _ in hubness[1][1:]}


def test_files_that_are_something_else(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.png"
    wrong.write_text("no picture")
    for name in ("pictures", "results"):
        with pytest.raises(ManifestError, match=r"wrong\.png"):
            page_of(tmp_path, **{name: [wrong]})
    assert not (tmp_path / "report.html").exists()


# --- the first table, intervals, CSV ----------------------------------------------------------------------------------

METRICS = ("R@1", "R@5", "R@10", "RSUM", "median rank", "Hubness (skewness of the k-occurrence)")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page of two datasets, one model, three methods, two suites, with ranks of 60 queries."""
    folder = tmp_path_factory.mktemp("few")
    paths: dict[str, list[Path]] = {}
    for dataset, suites in (("a<b>", ("mlvp", "mm_robustness")), ("второй", ("mlvp",))):
        own = synthetic.write(
            folder / str(len(paths)),
            dataset=dataset,
            queries=60,
            models=synthetic.MODELS[:1],
            methods=METHODS,
            seeds=(1, 2),
            suites=suites,
        )
        paths = {name: [*paths.get(name, []), *own[name]] for name in own}
    return page_of(folder, **paths)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page of 354 scenarios, 8 methods and 3 models."""
    folder = tmp_path_factory.mktemp("large")
    paths = synthetic.write(folder, queries=40)
    return page_of(folder, **paths)


def test_the_first_table_is_of_categories_with_changes_and_intervals(few: Page) -> None:
    where = f"{V2T}, mlvp, mean over severities 1 to 5"
    captions = list(few.tables)
    assert captions[0] == "a<b>, none (the model as it is): R@k by direction and perturbed side"
    assert captions[1 : 1 + len(METRICS)] == [
        f"{metric}: a<b>, {T2V}, mm_robustness, severities: character 1 to 7, word 1 to 7, sentence 1"
        for metric in METRICS
    ]
    table = few.tables[f"R@1: a<b>, {where}"]
    assert [text for text, _ in table[0]] == ["method", "clean", "low", "mid", "high", "all"]
    assert [line[0][0] for line in table[1:]] == TITLES
    for place in range(1, 6):
        baseline, *others = (line[place][0].split("|") for line in table[1:])
        value, change, interval = baseline
        low, high = map(float, interval.split(", "))
        assert change == ""
        assert low < float(value) < high
        for value, change, interval in others:
            low, high = map(float, interval.split(", "))
            assert low <= float(change) <= high
            assert float(change) == pytest.approx(float(value) - float(baseline[0]), abs=0.11)
    for metric in METRICS[4:]:
        assert all(len(text.split("|")) == 2 for text, _ in few.tables[f"{metric}: a<b>, {where}"][2][1:])
    assert "a&lt;b&gt;" in few.text
    assert "No intervals" not in few.text


def test_bold_is_the_best_only_where_it_is_separable(few: Page) -> None:
    """A method whose interval of the change holds zero is never told apart from none."""
    seen = set()
    for caption, table in few.tables.items():
        if caption.startswith("R@") and len(table[1][1][0].split("|")) == 3:
            for place in range(1, len(table[0])):
                marks = [line[place][1] for line in table[1:]]
                if "≈" in marks:
                    assert marks.count("≈") > 1
                    assert not {"strong", "u"} & set(marks)
                elif any(marks):
                    assert marks.count("strong") == 1
                    best = table[1:][marks.index("strong")][place][0].split("|")
                    if best[1]:  # not none itself
                        assert float(best[2].split(", ")[0]) >= 0
                seen |= set(marks)
    assert {"≈", "strong"} <= seen


def rebuilt(file: list[list[str]]) -> list[list[str]]:
    """The rows of a CSV file with the page's cells: value, spread, change and interval in one."""
    head, *lines = file
    cells = []
    for line in lines:
        row = [line[0]]
        for place, (name, value) in enumerate(zip(head[1:], line[1:], strict=True), 1):
            if any(name == f"{other} {word}" for other in head[:place] for word in ("std", "change", "from", "to")):
                continue
            after = dict(zip(head[place + 1 : place + 5], line[place + 1 : place + 5], strict=True))
            std, change, low, high = (after.get(f"{name} {word}", "") for word in ("std", "change", "from", "to"))
            text = f"{value} ± {std}" if std else value
            row.append("|".join([text, *([change] if change or low else []), *([f"{low}, {high}"] if low else [])]))
        cells.append(row)
    return cells


def test_every_tables_csv_holds_the_table(few: Page, large: Page, report: Page) -> None:
    for content in (few, large, report):
        assert content.tables.keys() == content.files.keys()
        for caption, table in content.tables.items():
            first = next(place for place, line in enumerate(table) if line[0][0])  # the headings of columns
            shown = [[text for text, _ in line] for line in table[first + 1 :] if len(line) > 1]
            lines = rebuilt(content.files[caption])
            head = content.files[caption][0]
            if head[0] == "model":  # models side by side: a row for each
                width = len(lines[0]) - 2
                shown = [[line[0], *line[1 + at * width :][:width]] for at in range(3) for line in shown]
                assert list(dict.fromkeys(line[0] for line in lines)) == [text for text, _ in table[0][1:]]
            lines = [line[head[0] in ("model", "group") :] for line in lines]
            assert lines == shown, caption
            heads = {text for line in table[: first + 1] for text, _ in line}
            assert all(any(own in name for own in heads) for name in head[2:])


def test_methods_have_their_papers_names_on_the_page_and_in_csv_files(few: Page) -> None:
    files = [rows for rows in few.files.values() if rows[0][0] == "method"]
    assert files
    assert all([row[0] for row in rows[1:]] == TITLES for rows in files)
    assert not re.search(r"\b(hatvtr|tcr)\b", re.sub(r"data:[^\"]*", "", few.text))


def test_csv_names_are_no_formulas() -> None:
    table = page_tables.PageTable("t", parts.named([(("", "r1"), {"value": ["-1.5"]})], ["=1+1"], "method"))
    assert page_tables.as_csv(table) == "method,r1\n'=1+1,-1.5\n"


def test_results_and_ranks_of_an_earlier_version_open(tmp_path: Path) -> None:
    """They have R@k as r1, no side and no clean counterpart; changed cells are still noticed."""
    rows = of_model(B32, {"none": 40.0})
    about = {name: getattr(rows[0], name) for name in RankRow.__dataclass_fields__ if hasattr(rows[0], name)}
    places = [RankRow(**about, query_id=f"q{place}", rank=1 if place < 40 else 200) for place in range(100)]
    rows = [replace(rows[0], recall_at_5=40.0, recall_at_10=40.0)]
    new = ["side", "protocol", "text_perturbation", "text_severity", *(f"clean_recall_at_{k}" for k in (1, 5, 10))]
    for kind, known in ((RESULTS, rows), (RANKS, places)):
        table = manifests.table_of(kind, known)
        table = table.drop_columns([name for name in new if name in table.column_names])
        earlier = {today: name for name, today in kind.renamed.items()}
        table = table.rename_columns([earlier.get(name, name) for name in table.column_names])
        then = replace(kind, key=tuple(name for name in kind.key if name not in new))
        manifests._write_tables(tmp_path / f"{kind.name}.parquet", then, [table], {})
    assert manifests.read_rows(tmp_path / "results.parquet", RESULTS) == rows
    frame = dataframes.read_manifest(tmp_path / "results.parquet")
    assert frame[["side", "recall_at_1"]].values.tolist() == [["none", 40.0]]
    content = page_of(tmp_path, results=[tmp_path / "results.parquet"], ranks=[tmp_path / "ranks.parquet"])
    assert "No intervals" not in content.text
    stored = pq.read_table(tmp_path / "results.parquet")
    changed = stored.set_column(stored.column_names.index("r1"), "r1", pa.array([41.0]))
    pq.write_table(changed, tmp_path / "results.parquet", write_page_checksum=True)
    with pytest.raises(ManifestError, match="was changed after it was written"):
        manifests.read_rows(tmp_path / "results.parquet", RESULTS)


def test_published_values_stand_beside_ours_and_say_why_they_do_not_compare(tmp_path: Path) -> None:
    """Of Table 1 of HAT-VTR: CLIP4Clip without adaptation on fog at severity 5 has 26.7."""
    about = {"protocol": "hat_vtr_table_1", "backend": json.dumps({"retrieval": "pretrained"}), "queries": 1000}
    about |= {"pooling": "clip4clip", "pretrained": "openai/clip-vit-base-patch32", "parameters": "{}"}
    about |= {
        "continual": False,
        "num_frames": 12,
        "listed_sha256": SPLITS["msrvtt"][1_000].listed,
        "dataset": "my own name",
    }
    where = f"{B32.rpartition('-')[0]}, v2t, beside Table 1: msrvtt, CLIP4Clip, qs, queries perturbed"
    comparable = "Comparable with the published values, if the weights are the paper's."
    cases: list[tuple[dict[str, Any], list[str], str]] = [
        ({}, [], comparable),
        ({}, ["evaluation.methods"], "because the configuration has other values for evaluation.methods."),
        ({"listed_sha256": "0"}, [], "because the 1,000 listed items are not those of the published split of msrvtt."),
        ({"precision": "bfloat16"}, [], "because the precision is bfloat16, and the papers' models are float32."),
        ({"adapter": "folder"}, [], "because the dataset's adapter is folder, and the tables are of msrvtt."),
    ]
    for changed, replaced, says in cases:
        columns = {"adapter": "msrvtt", "setting": "qs", **about, **changed}
        rows = [result("none", r1, **columns, **scenario) for r1, scenario in ((50.0, {}), (30.0, FOG))]
        protocol = {"name": "hat_vtr_table_1", "replaced": replaced}
        manifests.write(tmp_path / "r.parquet", RESULTS, rows, {"protocol": protocol})
        content = page_of(tmp_path, results=[tmp_path / "r.parquet"])
        assert html.unescape(content.text).count(says) == 1
        assert (where in content.tables) == (changed.get("adapter") is None)
        if where in content.tables:
            table = content.tables[where]
            assert [text for row in table[:-3] for text, _ in row][-1] == "fog"
            assert [line[0][0] for line in table[-3:]] == ["none, published", "none, ours", "none, difference"]
            assert [line[-1][0] for line in table[-3:]] == ["26.7", "30.0", "+3.3"]
    assert "Published values" not in page_of(tmp_path, [result("none", 1.0)]).headings


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


def test_no_two_files_of_a_page_have_one_name(few: Page, report: Page) -> None:
    for content in (few, report):
        assert len(content.links) == len(set(content.links)) > 10
        assert {content.path.with_name(name.rpartition("/")[2]).name for name in content.links} == {
            path.name for path in content.path.with_name("report.tables").iterdir()
        }


def test_latex_and_markdown_have_intervals_and_numbers_of_queries(few: Page) -> None:
    folder = few.path.with_name("report.tables")
    for form, percent in (("tex", r"\%"), ("md", "%")):
        texts = [path.read_text() for path in folder.glob(f"R@1_a_b*.{form}")]
        assert len(texts) >= 3
        for text in texts:
            assert re.search(r"[0-9]\.[0-9]+ \\?\[-?[0-9.]+, -?[0-9.]+\\?\]", text)
            assert f"5 {percent}" in text
            assert "N 60, missing 0, gallery 1,000." in text


def test_methods_that_need_all_queries_do_not_compete_with_the_others(tmp_path: Path) -> None:
    table = page_of(tmp_path, of_model(B32, {"none": 40.0, "tcr": 42.0, "dsl": 90.0})).tables[MLVP]
    assert [(line[0][0], line[1]) for line in table[2:]] == [
        ("none", ("40.0", "u")),
        ("TCR", ("42.0", "strong")),
        ("DSL †", ("90.0", "")),
    ]


def test_a_skewness_nearest_to_zero_is_the_best_and_no_hit_has_an_interval(tmp_path: Path) -> None:
    content = page_of(tmp_path, [result("none", 1.0, hub_skewness=-0.086), result("tcr", 1.0, hub_skewness=0.02)])
    (table,) = (table for caption, table in content.tables.items() if caption.startswith(METRICS[-1]))
    assert [line[1] for line in table[1:]] == [("-0.09", "u"), ("0.02|+0.11", "strong")]
    low, high = share_interval(0, 50)
    assert (low, high) == (0, pytest.approx(1 - 0.025 ** (1 / 50)))
    assert share_interval(1, 50) == pytest.approx((1 - high, 1))


def test_a_gallery_that_is_too_small_is_said_and_numbers_of_queries_that_differ_are_rows(tmp_path: Path) -> None:
    fog = result("none", 40.0, **FOG, gallery=4, queries=90, missing_queries=10)
    content = page_of(tmp_path, [result("none", 50.0, gallery=4), fog])
    assert "In a gallery of 4, R@k is 100 for every model from k = 4 on." in content.text
    lines = {line[0][0]: [text for text, _ in line[1:]] for line in content.tables[MLVP][2:]}
    assert (lines["queries (N)"], lines["missing queries"]) == (["100", "90"], ["0", "10"])
    assert "gallery" not in lines


def test_models_stand_side_by_side(large: Page) -> None:
    table = large.tables[f"R@1: msrvtt, {V2T}, mlvp, mean over severities 1 to 5"]
    names = ["clip4clip-vit-b-16-qs", "clip4clip-vit-b-32-qs", "xpool-vit-b-32-qgs_cross"]
    assert [text for text, _ in table[0]] == ["", *names]
    assert [text for text, _ in table[1]] == ["method", *["clean", "low", "mid", "high", "all"] * 3]


def test_a_page_of_everything_can_be_sent_by_mail(large: Page) -> None:
    assert large.path.stat().st_size <= 2_000_000


def test_models_that_were_asked_other_scenarios_are_not_compared(tmp_path: Path) -> None:
    other = result("none", 45.0, model_key=B16, checkpoint_sha256=B16, **FOG | {"severity": 1})
    content = page_of(tmp_path, [*of_model(B32, {"none": 40.0}), *of_model(B16, {"none": 50.0}), other])
    note = "The models were not run in the same scenarios of mlvp (clip4clip-b16-qs: 2; clip4clip-b32-qs: 1)"
    assert note in content.text


def test_every_choice_shows_something(tmp_path: Path) -> None:
    """A dataset without a suite shows its unperturbed queries, one without a direction says so."""
    rows = [
        *of_model(B32, {"none": 40.0}, dataset="whole"),
        result("none", 30.0, dataset="plain"),
        result("none", 20.0, dataset="captions", direction="t2v"),
    ]
    content = page_of(tmp_path, rows)
    assert f"R@1: plain, {V2T}, mlvp, unperturbed queries" in content.tables
    assert "R@1: captions, text-to-video (t2v), unperturbed queries" in content.tables
    assert content.text.count("This dataset was not evaluated in this direction.") == 1
    shown = set(re.findall(r"\b(d\dq\d)\b", content.text.partition("<section")[2]))
    assert shown == {f"d{dataset}q{queries}" for dataset in range(3) for queries in range(2)}


def test_what_the_results_depend_on_is_a_table_of_names_and_values(large: Page) -> None:
    table = large.tables["what the results depend on"]
    values = {line[0][0]: [text for text, _ in line[1:]] for line in table}
    assert values["settings: batch_size"] == ["16"] * 3
    assert values["tools: numpy"] == ["2.3"] * 3
    assert values["model"] == sorted(synthetic.MODELS, key=lambda key: key.rpartition("-")[0])


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


# --- in a browser ----------------------------------------------------------------------------------------------------

QUIET = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def browsed(folder: Path, wrapper: str, budget_ms: int) -> Any:
    """What a page tells in its title after some time in a browser."""
    (folder / "wrapper.html").write_text(wrapper)
    command = [needs.browser(), "--headless", "--no-sandbox", "--disable-gpu", *QUIET]
    command += [f"--user-data-dir={folder / 'profile'}", "--allow-file-access-from-files"]
    command += [f"--virtual-time-budget={budget_ms}", "--dump-dom", (folder / "wrapper.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stderr[-2000:]
    return json.loads(html.unescape(title.group(1)))


# The same pages on a phone and on a desk, in frames as wide as the screen in question: a headless window is never as
# narrow as a phone. What is shown first is looked at; then every choice is made, and every folded part opened.
CHOICES = """<!doctype html><body style="margin:0">{frames}<script>
var seen = [];
function top_table(d) {{
  var boxes = Array.from(d.querySelectorAll("#results .scroll")).filter(
    b => b.offsetParent && !b.closest("details"));
  return {{shown: boxes.length, caption: boxes[1].querySelector("caption").textContent,
    summary: boxes[0].getBoundingClientRect().bottom, bottom: boxes[1].getBoundingClientRect().bottom,
    top: boxes[1].getBoundingClientRect().top, cut: boxes[1].scrollWidth > boxes[1].clientWidth}};
}}
function look(f) {{
  var d = f.contentDocument, w = f.contentWindow, result = {{name: f.id, view: w.innerWidth, tall: w.innerHeight}};
  result.first = top_table(d);
  result.first.wide = d.documentElement.scrollWidth;
  result.headings = d.querySelectorAll("h2").length;
  result.broken = Array.from(d.images).filter(function (i) {{ return !i.complete || !i.naturalWidth; }}).length;
  result.cut = Array.from(d.querySelectorAll(".scroll")).filter(b => b.scrollWidth > b.clientWidth).length;
  result.wide = [];
  result.captions = [];
  d.querySelectorAll("input").forEach(function (input) {{
    input.click();
    result.wide.push(d.documentElement.scrollWidth);
    result.captions.push(top_table(d).caption);
    result.shown = Math.max(result.shown || 0, top_table(d).shown);
  }});
  d.querySelectorAll("details").forEach(function (details) {{ details.open = true; }});
  result.open = d.documentElement.scrollWidth;
  result.height = d.documentElement.scrollHeight;
  return result;
}}
window.onload = function () {{
  document.title = JSON.stringify(Array.from(document.querySelectorAll("iframe")).map(look));
}};</script></body>"""


def test_it_fits_desktop_and_phone_and_choices_work_without_a_script(
    few: Page, large: Page, report: Page, tmp_path: Path
) -> None:
    frame = '<iframe id="{}" style="border:0;width:{}px;height:{}px" src="{}"></iframe>'
    frames = [
        frame.format(f"{content.path.parent.name} {width}", width, height, content.path.as_uri())
        for content in (few, large, report)
        for width, height in ((390, 844), (1280, 900))
    ]
    seen_pages = browsed(tmp_path, CHOICES.format(frames="".join(frames)), 20_000)
    few_narrow, few_wide, large_narrow, large_wide, report_narrow, report_wide = seen_pages
    for seen in seen_pages:
        assert seen["view"] == (390 if seen["name"].endswith(" 390") else 1280)
        assert max([seen["first"]["wide"], *seen["wide"], seen["open"]]) <= seen["view"], f"{seen['name']}: wider"
    for seen in (report_narrow, report_wide):
        assert (seen["headings"], seen["broken"]) == (7, 0)
    assert report_narrow["cut"] > 0, "wide tables scroll in their own boxes"
    for seen in (few_narrow, few_wide, large_narrow, large_wide):
        assert seen["first"]["summary"] <= seen["tall"], f"{seen['name']}: the summary ends below the first screen"
        # The summary, and of a choice's six tables of metrics one; closed details have no tables.
        assert seen["first"]["shown"] == seen["shown"] == 2
    for seen in (few_narrow, few_wide, large_wide):
        assert not seen["first"]["cut"], f"{seen['name']}: the overall average is cut off"
        assert seen["first"]["top"] <= seen["tall"], f"{seen['name']}: the chosen table begins below the first screen"
    # Inputs in their order: two datasets, three kinds of queries, six metrics.
    captions = few_wide["captions"]
    assert few_wide["first"]["caption"].startswith(f"R@1: a<b>, {V2T}, mlvp")
    assert ["a<b>" in caption for caption in captions[:2]] == [True, False]
    assert [f"{V2T}, mlvp" in captions[2], f"{V2T}, mm_" in captions[3], f"{T2V}, mm_" in captions[4]] == [True] * 3
    assert [caption.split(":")[0] for caption in captions[5:]] == list(METRICS)


# --- lost queries ----------------------------------------------------------------------------------------------------


def test_lost_queries_show_the_clips_that_they_retrieved(tmp_path: Path) -> None:
    """Pictures are of the clips that are there; a dataset's name leads nowhere else."""
    row = clips.source_row(clips.make(tmp_path / "a.mp4", *clips.X264), "a")
    sources = [row, clips.made_up_source("b")]
    manifests.write(tmp_path / "manifests/demo/sources.parquet", SOURCES, sources, {"root": "../.."})
    names = [name for name in RankRow.__dataclass_fields__ if name not in ("query_id", "rank", "retrieved")]
    ranks = []
    for dataset in ("demo", "../demo"):
        for about, rank, first in (({}, 1, "ab"), (FOG, 2, "ba")):
            row = result("none", 1.0, dataset=dataset, direction="t2v", **about)
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
