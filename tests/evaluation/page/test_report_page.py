"""Whole pages of results: what they say, that they stand alone, and how they look in a browser."""

from __future__ import annotations

import html
import json
import re
import subprocess
import urllib.parse
import xml.etree.ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import pandas as pd
import pytest
import synthetic_results as synthetic
from copies import ROOT
from page_rows import browsed
from synthetic_results import (
    METRICS,
    MLVP,
    PAPER_METHODS,
    TITLES,
    V2T,
    Page,
    page_of,
    result,
)

from perturbations.evaluation.page import evaluation_page, page_tables
from perturbations.evaluation.result_rows import RESULTS, ResultRow
from perturbations.manifest import files as manifests
from perturbations.manifest import sets
from perturbations.manifest.rows import QUARANTINE, TEXT_STATISTICS, QuarantineRow
from perturbations.suites import suite_registry

SNOW = synthetic.perturbed(suite_registry.get("mlvp/snow"), 5)
NASTY = '<script>alert(1)</script>\n"quoted" видео 影片'


def rows() -> list[ResultRow]:
    """Two directions, two suites, severities 1 and 5; hatvtr is best, and tied with tcr on clean queries."""
    results = []
    for direction, kind, suite in (("v2t", "video", "mlvp"), ("t2v", "text", "mm_robustness")):
        for place, method in enumerate(PAPER_METHODS):
            results.append(result(method, 80.0 + min(place, 1), direction=direction))
            for entry in suite_registry.perturbations(suite, kind):  # type: ignore[arg-type]
                for severity in {1, min(5, len(entry.severities))}:
                    about = synthetic.perturbed(entry, severity)
                    results.append(result(method, 60.0 - 5 * severity + 2 * place, direction=direction, **about))
    return results


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    folder = tmp_path_factory.mktemp("files") / "manifests" / "demo" / "mlvp"
    folder.mkdir(parents=True)
    paths = {name: folder / f"{name}.parquet" for name in ("results", "quarantine", "statistics")}
    results = [replace(row, tools=json.dumps({"name": NASTY})) for row in rows()]
    manifests.write(paths["results"], RESULTS, results, {"package_version": "1.2.3"})
    bad = QuarantineRow(dataset="demo", item_id="a", status="quarantined", stage="source", error="damaged")
    listed = sets.Listed(listed=1000, listed_sha256="0", complete=3, quarantined=1, missing=996, scenarios=60)
    manifests.write(paths["quarantine"], QUARANTINE, [bad], {sets.SET: listed.columns()})
    left_out = {"skipped": [{"perturbation": "ocr", "severities": [1], "reason": "no font"}]}
    manifests.write(paths["statistics"], TEXT_STATISTICS, [], {sets.SET: left_out})
    return {name: [path] for name, path in paths.items()}


@pytest.fixture(scope="module")
def report(files: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory) -> Page:
    return page_of(tmp_path_factory.mktemp("report"), **files)


def test_every_number_of_a_small_run_is_as_it_was(tmp_path: Path) -> None:
    """Of the example of the documentation, with ranks: each value, change, interval and mark, and each sentence."""
    folder, golden = ROOT / "docs" / "examples", ROOT / "tests" / "golden"
    content = page_of(tmp_path, results=[folder / "results.parquet"], ranks=[folder / "ranks.parquet"])
    written = (tmp_path / "report.tables" / evaluation_page.CSV_NAME).read_text()
    assert written == (golden / "page.csv").read_text()
    assert "".join(f"{text}\n" for text in content.sentences) == (golden / "page.txt").read_text("utf-8")


def test_every_section_is_there(report: Page) -> None:
    wanted = [
        "Results",
        "Loss per perturbation",
        "R@1 against severity",
        "Hubness",
        "Cost",
        "Corpora",
        "How it was made",
    ]
    assert report.headings == wanted
    text = html.unescape(report.text)
    assert "mlvp on demo: 3 of 1,000 listed clips complete; 1 quarantined; 996 missing." in text
    assert "mlvp on demo: skipped: 1 perturbation, ocr (no font)." in text
    assert "a small encoder that the workflow trained on synthetic scenes" in text
    drawn = list(report.path.with_name("report.tables").glob("*.svg"))
    assert text.count("<img ") == text.count("<source ") == len(drawn) == 4, "bars and curves of two directions"
    for path in (path for path in drawn if "against" in path.name):
        xml.etree.ElementTree.fromstring(path.read_text())
        suite, kind = ("mlvp", "video") if "v2t" in path.name else ("mm_robustness", "text")
        shown = set(re.findall(r">([^<>]*[a-zA-Z][^<>]*)</text>", path.read_text()))
        categories = {entry.category for entry in suite_registry.perturbations(suite, kind)}  # type: ignore[arg-type]
        assert shown == {*categories, "all", *TITLES, "severity", "R@1, %"}


def table_of(caption: str) -> page_tables.PageTable:
    """A table of one cell that has files."""
    frame = pd.DataFrame({("", "r1"): [page_tables.cell_of(".1f", value=-1.5)]}, pd.Index(["=1+1"]))
    return page_tables.PageTable(caption, "method", frame, has_files=True)


def test_no_two_files_of_a_page_have_one_name(few: Page, report: Page) -> None:
    """Also where two have one caption, or captions that are one name where no case or sign counts."""
    captions = ["R@1, fog", "R@1, fog", "R@1 fog", "r@1 FOG", "R@1, fog 2", "模型一", "模型二", "b", "b+", "b" * 99]
    known = [table_of(caption) for caption in captions]
    page_tables.name_files(known)
    assert len({table.file.casefold() for table in known}) == len(known)
    assert max(len(table.file) for table in known) == 80
    for content in (few, report):
        assert len(content.links) == len(set(content.links)) > 4
        assert {urllib.parse.unquote(name).rpartition("/")[2] for name in content.links} == {
            path.name for path in content.path.with_name("report.tables").iterdir()
        }


def test_csv_names_are_no_formulas() -> None:
    head, cell = page_tables.as_csv([table_of("t")]).splitlines()
    assert head == "table,row,column_group,column,value,std,change,low,high,mark"
    assert cell == "t,'=1+1,,r1,-1.5,,,,,"


def wide_table(columns: int = 32, rows: int = 90) -> page_tables.PageTable:
    """With what Markdown and LaTeX read as marks, and more columns and rows than a page has room for."""
    best, second = (
        page_tables.cell_of(".1f", "best", value=1.04, std=0.2, change=0.5),
        page_tables.Cell("2", mark="second"),
    )
    marked = {("a|b", "x_1"): [best, page_tables.Cell()], ("a|b", "50 %"): [second, page_tables.Cell("3", mark="tie")]}
    cells = {("", f"c{place}"): [page_tables.Cell("80.0"), page_tables.Cell("90.0")] for place in range(columns - 2)}
    frame = pd.DataFrame({**marked, **cells}, pd.Index(["m&m TCR", "a ^ \\"]))
    names = ['[b] <c> | "d" $e$ ~%#{é}', "*f", *range(rows - 4)][: rows - 2]
    plain = pd.DataFrame({name: [page_tables.Cell("1.0")] * (rows - 2) for name in frame}, names)
    return page_tables.PageTable(
        "50 % of {R@1}", "method", pd.concat([frame, plain]), "N 100 ± 1.", "Small: a.\nBold: b.\n†: c.\n≈: d."
    )


def test_tables_of_papers_are_there_as_markdown() -> None:
    """Without how to read signs that they do not have."""
    assert page_tables.as_markdown(wide_table(2, 2)) == (
        "50 % of {R@1}\n\n|method|a\\|b x\\_1|a\\|b 50 %|\n|---|---:|---:|\n|m\\&m TCR|**1.0 ± 0.2**|*2*|\n"
        "|a ^ \\\\||≈3|\n\nBold: b. ≈: d. N 100 ± 1.\n"
    )


def test_tables_in_latex_hold_every_cell_and_their_marks() -> None:
    text = page_tables.as_latex(wide_table())
    panels = re.findall(r"\\begin{tabular}{l(r+)}\n\\toprule\n(.*?)\\bottomrule", text, re.DOTALL)
    bodies = [[line for line in body.splitlines() if line != r"\midrule"][1:] for _, body in panels]
    assert sum(len(columns) * len(body) for (columns, _), body in zip(panels, bodies, strict=True)) == 32 * 90
    assert {
        line.count(" & ") - len(columns) for (columns, _), body in zip(panels, bodies, strict=True) for line in body
    } == {0}
    assert max(map(len, bodies)) <= 45, "lines of a page in footnotesize, below upright names of columns"
    assert bodies[0][0].startswith(r"m\&m TCR & \textbf{1.0 $\pm$ 0.2} & \underline{2} & 80.0")
    assert bodies[0][1].startswith(r"a \textasciicircum{} \textbackslash{} &  & $\approx$3 & 90.0")


def test_tables_in_latex_compile_and_fit_a_page(few: Page, tmp_path: Path) -> None:
    needs.pdflatex()
    written = [path.read_text() for path in few.path.with_name("report.tables").glob("R@1_a_b*.tex")]
    packages = r"\usepackage[T1]{fontenc}\usepackage[margin=1in]{geometry}\usepackage{booktabs,rotating}"
    body = "\n\n".join([page_tables.as_latex(wide_table()), *written])
    document = rf"\documentclass{{article}}{packages}\begin{{document}}{body}\end{{document}}"
    (tmp_path / "page.tex").write_text(document)
    done = subprocess.run(["pdflatex", "-halt-on-error", "page.tex"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert len(written) > 1
    assert "Overfull" not in done.stdout


def test_a_report_of_one_model_has_its_name(tmp_path: Path) -> None:
    """Hubness of a gallery that every query retrieves as a whole says nothing, nor do facts that are not known."""
    about: dict[str, Any] = {"checkpoint_sha256": "", "settings": json.dumps({"numbers": 8, "limit": None})}
    for gallery in (15, 16):
        known = [result("none", own, gallery=gallery, **about, **scenario) for own, scenario in ((40, {}), (30, SNOW))]
        content = page_of(tmp_path, known)
        (row,) = content.tables[MLVP][2:]
        assert (content.tables[MLVP][1][0][0], row[0][0]) == ("model", "clip4clip-b32-qs")
        assert ("Hubness" in content.headings) == any("Hubness" in name for name in content.tables) == (gallery == 16)
        facts = [line[0][0] for line in content.tables["what the results depend on"]]
        assert "settings: dimensions of a feature" in facts
        assert not {"settings: limit", "checkpoint (sha256)"} & {*facts}


def test_losses_are_bars_the_worst_first(few: Page, tmp_path: Path) -> None:
    known = [result("none", 40.0)]
    for name, r1 in (("fog", 38.0), ("snow", 10.0), ("motion_blur", 42.0)):
        about = synthetic.perturbed(suite_registry.get(f"mlvp/{name}"), 5) | {"clean_recall_at_1": 40.0}
        known.append(result("none", r1, **about))
    content = page_of(tmp_path, known)
    (path,) = content.path.with_name("report.tables").glob("*lost*.svg")
    texts = re.findall(r">([^<>]+)</text>", path.read_text())
    assert [text for text in reversed(texts) if text in ("fog", "snow", "motion_blur")] == [
        "snow",
        "fog",
        "motion_blur",
    ]
    assert {"30.0", "2.0", "-2.0"} <= {text.replace("\u2212", "-") for text in texts}
    assert "lines: 95 % intervals" in few.text
    assert "lines: 95 % intervals" not in content.text
    assert "Loss per perturbation" not in page_of(tmp_path, known[:2]).headings


def test_names_are_text_and_nothing_is_loaded(report: Page) -> None:
    text = report.text
    assert text.count("<script") == text.count("</script") == 1, "its own"
    assert "&lt;script&gt;" in text
    assert "видео 影片" in text
    around = re.sub(r'src(set)?="data:[^"]*"', "", text)
    assert not re.search(r'src=|href=(?!"#|"report\.tables/[0-9A-Za-z@_-]+\.(csv|md|tex|svg)")', around)
    assert "http" not in around


def test_the_same_manifests_give_the_same_page(files: dict[str, list[Path]], report: Page, tmp_path: Path) -> None:
    assert page_of(tmp_path, **files).text == report.text


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
            methods=PAPER_METHODS,
            seeds=(1, 2),
            suites=suites,
        )
        paths = {name: [*paths.get(name, []), *own[name]] for name in own}
    return page_of(folder, **paths)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page of 2 methods and 3 models under one suite."""
    folder = tmp_path_factory.mktemp("several")
    paths = synthetic.write(folder, queries=40, methods=("none", "hatvtr"), suites=("mlvp",))
    return page_of(folder, **paths)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page of 354 scenarios, 2 methods and 3 models; ten seconds, for a browser to look at."""
    needs.browser()
    folder = tmp_path_factory.mktemp("large")
    paths = synthetic.write(folder, queries=40, methods=("none", "hatvtr"))
    return page_of(folder, **paths)


def test_the_first_table_is_a_leaderboard_with_changes_and_intervals_of_its_means(few: Page) -> None:
    where = f"{V2T}, mlvp, mean over severities 1 to 5"
    assert [caption for caption in few.tables if "a<b>" in caption][: len(METRICS)] == [
        f"{metric}: a<b>, {where}" for metric in METRICS
    ]
    groups, heads, baseline, *others = few.tables[f"R@1: a<b>, {where}"]
    names = [entry.name for entry in suite_registry.perturbations("mlvp", "video")]
    assert [text for text, _ in groups] == ["", "", "low", "mid", "high"]
    assert [text for text, _ in heads] == ["method", "clean", "mean", "loss", *names]
    assert [line[0][0] for line in (baseline, *others)] == TITLES
    assert all("|" not in text for line in (baseline, *others) for text, _ in line[4:])
    for place in (1, 2):
        assert re.fullmatch(r"[\d.]+( ± [\d.]+)?\|\|[\d.]+, [\d.]+", baseline[place][0]), "no change, an interval"
        for line in others:
            assert re.fullmatch(r"[\d.]+( ± [\d.]+)?\|[-+]?[\d.]+\|-?[\d.]+, -?[\d.]+", line[place][0])
    hubness = few.tables[f"{METRICS[-1]}: a<b>, {where}"]
    assert all(len(text.split("|")) == 2 for text, _ in hubness[3][1:3]), "a change, and no interval"
    assert "a&lt;b&gt;" in few.text
    assert few.text.count("<span class=lines>Small: change against no adaptation") == 1 < len(few.tables)


def test_the_csv_holds_every_cell_of_every_table(few: Page, several: Page, report: Page) -> None:
    for content in (few, several, report):
        assert_the_csv_holds_every_cell(content)


def assert_the_csv_holds_every_cell(content: Page) -> None:
    assert {name for name in content.cells if "each scenario" not in name} == set(content.tables)
    for caption, table in content.tables.items():
        first = next(place for place, line in enumerate(table) if line[0][0])  # the headings of columns
        shown = [text for line in table[first + 1 :] for text, _ in line[1:]]
        parts_of = [
            (f"{cell['value']} ± {cell['std']}" if cell["std"] else cell["value"], cell["change"], cell["low"])
            for cell in content.cells[caption]
        ][-len(shown) :]  # the tables of several datasets may have one caption: the last is kept
        assert [text.partition("|")[0].partition(" ±")[0] for text in shown] == [
            value.partition(" ±")[0] for value, *_ in parts_of
        ], caption
        for text, (_, change, low) in zip(shown, parts_of, strict=True):
            assert text.count("|") in (0, bool(change) + bool(low), 2 * bool(low)), (caption, text)


def test_what_the_results_depend_on_is_a_table_of_names_and_values(several: Page) -> None:
    table = several.tables["what the results depend on"]
    values = {line[0][0]: [text for text, _ in line[1:]] for line in table}
    assert values["settings: batch_size"] == ["16"] * 3
    assert values["tools: numpy"] == ["2.3"] * 3
    assert values["model"] == sorted(synthetic.MODELS, key=lambda key: key.rpartition("-")[0])


# The same pages on a phone and on a desk, in frames as wide as the screen in question: a headless window is never as
# narrow as a phone. What is shown first is looked at, a column is sorted twice, and every folded part opened.
LOOK = """<!doctype html><body style="margin:0">{frames}<script>
function look(f) {{
  var d = f.contentDocument, w = f.contentWindow, result = {{view: w.innerWidth, errors: []}};
  w.addEventListener("error", e => result.errors.push(e.message));
  var boxes = Array.from(d.querySelectorAll("#results .scroll")).filter(b => b.offsetParent && !b.closest("details"));
  result.shown = boxes.length;
  result.top = boxes[0].getBoundingClientRect().top;
  result.wide = d.documentElement.scrollWidth;
  result.headings = d.querySelectorAll("h2").length;
  result.broken = Array.from(d.images).filter(function (i) {{ return !i.complete || !i.naturalWidth; }}).length;
  // The size of an SVG's letters on the screen: it is drawn for 96 pixels per inch, 8 points a letter.
  result.letters = Math.min(...Array.from(d.querySelectorAll("figure img")).map(
    i => 8 * 96 / 72 * i.width / i.naturalWidth));
  result.cut = Array.from(d.querySelectorAll(".scroll")).filter(b => b.scrollWidth > b.clientWidth).length;
  var heads = boxes[0].querySelectorAll("thead tr:last-child th");
  result.sorted = Array.from([1, 1]).map(function () {{
    heads[1].click();
    return Array.from(boxes[0].querySelectorAll("tbody tr")).map(row => parseFloat(
      row.cells[1].firstChild.textContent.replace("\u2248", "")));
  }});
  d.querySelectorAll("details").forEach(function (details) {{ details.open = true; }});
  result.open = d.documentElement.scrollWidth;
  return result;
}}
window.onload = function () {{
  document.title = JSON.stringify(Array.from(document.querySelectorAll("iframe")).map(look));
}};</script></body>"""


def test_it_fits_desktop_and_phone_and_a_heading_sorts(few: Page, large: Page, report: Page, tmp_path: Path) -> None:
    assert large.path.stat().st_size <= 2_000_000, "it can be sent by mail"
    assert_the_csv_holds_every_cell(large)
    sizes = {390: 844, 1280: 900, 1920: 1080}
    looked = [(content, width) for content in (few, report) for width in sizes] + [(large, 390)]
    frame = '<iframe id="{0}" style="border:0;width:{0}px;height:{1}px" src="{2}"></iframe>'
    frames = [frame.format(width, sizes[width], content.path.as_uri()) for content, width in looked]
    seen_pages = browsed(tmp_path, LOOK.format(frames="".join(frames)), 20_000)
    for seen, (content, width) in zip(seen_pages, looked, strict=True):
        where = f"{content.path.parent.name} {width}"
        assert seen["view"] == width
        assert max(seen["wide"], seen["open"]) <= width, f"{where}: wider"
        assert (seen["shown"], seen["broken"], seen["errors"]) == (2 if content is report else 5, 0, []), where
        assert seen["top"] <= sizes[width] / 2, f"{where}: the leaderboard begins on the lower half of the first screen"
        assert seen["headings"] == len(content.headings)
        assert seen["letters"] >= 10, f"{where}: letters of figures are {seen['letters']} pixels high"
        assert seen["cut"] == 0, f"{where}: a column is cut"
        down, up = seen["sorted"]
        assert down == sorted(down, reverse=True)
        assert up == sorted(up)
