"""Results and ranks of every perturbation of the published suites, whose numbers mean nothing.

They are those of a model whose queries are harder the higher the severity, and of methods that change some ranks.
"""

from __future__ import annotations

import csv
import html.parser
import json
import urllib.parse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from perturbations.base import rng
from perturbations.base.records import canonical
from perturbations.evaluation.page import evaluation_page
from perturbations.evaluation.result_rows import RANKS, RESULTS, ResultRow
from perturbations.manifest import files, row_tables
from perturbations.manifest.columns import columns_of
from perturbations.retrieval import summary_of_ranks
from perturbations.suites import suite_registry

SUITES = ("mlvp", "mm_robustness", "msrvtt_p")
METHODS = ("none", "tent", "read", "sar", "eata", "tcr", "hatvtr", "dsl")
MODELS = ("clip4clip-vit-b-32-qs-0a0a0a0a", "clip4clip-vit-b-16-qs-0b0b0b0b", "xpool-vit-b-32-qgs_cross-0c0c0c0c")
GALLERY = 1000
KINDS = {"v2t": "video", "t2v": "text"}
PAPER_METHODS = ("none", "tcr", "hatvtr")
TITLES = ["no adaptation", "TCR", "HAT-VTR"]
V2T, T2V = "video-to-text (v2t), queries perturbed", "text-to-video (t2v), queries perturbed"
MLVP = f"R@1: demo, {V2T}, mlvp, severity 5"
B32, B16, XPOOL = "clip4clip-b32-qs-0a0a0a0a", "clip4clip-b16-qs-0b0b0b0b", "xpool-b32-qgs_cross-0c0c0c0c"
METRICS = ("R@1", "R@5", "R@10", "RSUM", "median rank", "Hubness (skewness of the k-occurrence)")

CLEAN = {"suite": "clean", "perturbation": "clean", "severity": 0, "category": "clean", "side": "none"}
MEASURED = [column.name for column in columns_of(ResultRow) if column.name.startswith("hub_") or "_ms_" in column.name]

Scenario = dict[str, Any]


def perturbed(entry: suite_registry.Perturbation, severity: int) -> Scenario:
    """The columns of queries under a perturbation."""
    about = {"suite": entry.suite, "perturbation": entry.name, "severity": severity, "category": entry.category}
    return {**about, "side": "query"}


def _scenarios(suites: Sequence[str]) -> Iterator[Scenario]:
    """Clean queries of both directions, and every perturbation at every severity."""
    for direction, kind in KINDS.items():
        yield {"direction": direction, **CLEAN}
        for suite in suites:
            for entry in suite_registry.perturbations(suite):
                for severity in entry.severities if entry.kind == kind else ():
                    yield {"direction": direction, **perturbed(entry, severity)}


def result_row(**columns: Any) -> ResultRow:
    """A row of results; what is not given is the same in all."""
    same: dict[str, Any] = {
        **{"model": "clip", "setting": "qs", "missing_queries": 0, "peak_memory_mib": 1000.0},
        **{"updates": 3, "empty": 0, "non_finite": 0, "queries_sha256": "q", "manifest_sha256": "m"},
        **{"checkpoint_sha256": "abc", "settings": "{}", "tools": "{}", "recipe_id": "0"},
    }
    return ResultRow(**{**same, **dict.fromkeys(MEASURED, 1.5), **columns})


def write(
    folder: Path,
    *,
    dataset: str = "msrvtt",
    queries: int = 1000,
    models: Sequence[str] = MODELS,
    methods: Sequence[str] = METHODS,
    seeds: Sequence[int] = (42,),
    suites: Sequence[str] = SUITES,
) -> dict[str, list[Path]]:
    """Write results and ranks, one of each per model; returns their paths, as `page.write` takes them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: dict[str, list[Path]] = {"results": [], "ranks": []}
    for place, model_key in enumerate(models):
        rows, ranks = [], []
        for scenario in _scenarios(suites):
            named = f"{scenario['suite']}/{scenario['perturbation']}"
            draw = rng.generator(place, dataset, f"{scenario['direction']} {scenario['severity']}", named)
            hardness = draw.exponential(1.6 + 0.4 * place + draw.uniform(0.3, 0.9) * scenario["severity"], queries)
            for at, method in enumerate(methods):
                for seed in seeds:
                    own = hardness * (1 - 0.02 * at) * np.exp(draw.normal(0, 0.25 * (at > 0), queries))
                    rank = np.minimum(1 + own.astype(np.int64), GALLERY)
                    about = {"dataset": dataset, "model": "clip", "model_key": model_key}
                    columns = {**about, **scenario, "method": method, "seed": seed}
                    rows.append(_result(columns, rank, draw))
                    ranks.append((columns, rank))
        paths["results"].append(folder / f"{model_key}.results.parquet")
        files.write(paths["results"][-1], RESULTS, rows, {"package_version": "0"})
        paths["ranks"].append(folder / f"{model_key}.ranks.parquet")
        _write_ranks(paths["ranks"][-1], ranks)
    return paths


def _write_ranks(path: Path, runs: Sequence[tuple[Scenario, np.ndarray]]) -> None:
    """Write the ranks of runs, whose queries are called q0, q1, ..., by columns: millions of rows."""
    schema = row_tables.schema_of(RANKS)
    lengths = [len(rank) for _, rank in runs]
    columns: dict[str, pa.Array] = {}
    for field in schema:
        if field.name == "query_id":
            columns[field.name] = pa.array([f"q{place}" for length in lengths for place in range(length)])
        elif field.name == "rank":
            columns[field.name] = pa.array(np.concatenate([rank for _, rank in runs]))
        else:
            values = pa.array([about.get(field.name) for about, _ in runs], field.type)
            columns[field.name] = values.take(pa.array(np.repeat(np.arange(len(runs)), lengths)))
    table = pa.table(columns, schema=schema)
    files.encode([table], RANKS, path)


def _result(columns: Scenario, rank: np.ndarray, draw: np.random.Generator) -> ResultRow:
    return result_row(
        **columns,
        **summary_of_ranks(rank),
        **{name: float(draw.uniform(0.1, 50)) for name in MEASURED},
        queries=len(rank),
        gallery=GALLERY,
        settings=json.dumps({"batch_size": 16, "num_frames": 12, "precision": "float32", "steps": 3}),
        backend=canonical({"retrieval": "pretrained"}),
        checkpoint_sha256=columns["model_key"],
        tools=json.dumps({"numpy": "2.3", "torch": "2.9"}),
    )


FOG = perturbed(suite_registry.get("mlvp/fog"), 5)


def result(method: str, recall_at_1: float, **more: Any) -> ResultRow:
    """A row of clean queries of the demo, or of what `more` says."""
    usual: dict[str, Any] = {
        **{"dataset": "demo", "model_key": B32, "seed": 42, "direction": "v2t", **CLEAN},
        **{f"recall_at_{k}": 100.0 for k in (5, 10, 50, 100)},
        **{"queries": 100, "gallery": 100, "median_rank": 1.0, "mean_rank": 2.0},
        "backend": canonical({"retrieval": "demo_encoder"}),
        "side": "query" if more.get("suite", "clean") != "clean" else "none",
    }
    columns = {**usual, **more, "method": method, "recall_at_1": recall_at_1}
    return result_row(**{"rsum": sum(columns[f"recall_at_{k}"] for k in (1, 5, 10)), **columns})


class Page(html.parser.HTMLParser):
    """A page: its text, of each table its caption and its rows of (text, mark); and the rows of the CSV by table.

    "|" is between the lines of a cell. `sentences` are the paragraphs and the notes of tables, without their guides.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.text = path, path.read_text(encoding="utf-8")
        self.tables: dict[str, list[list[tuple[str, str]]]] = {}
        self.cells: dict[str, list[dict[str, str]]] = {}
        self.headings: list[str] = []
        self.links: list[str] = []
        self.sentences: list[str] = []
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
        elif tag in ("caption", "th", "td", "h2") or (tag == "p" and not self._open):
            self._open, self._text, self._mark = tag, "", ""
        elif tag in ("strong", "u"):
            self._mark = tag
        elif tag == "p" and self._open:
            self._text += "|"
        elif tag == "a" and (address := dict(attributes)["href"] or "").endswith((".csv", ".md", ".tex", ".svg")):
            self.links.append(address)
            if address.endswith(".csv"):
                with open(self.path.parent / urllib.parse.unquote(address), newline="", encoding="utf-8") as file:
                    for row in csv.DictReader(file):
                        self.cells.setdefault(row["table"], []).append(row)

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
        elif tag == "span" and self._open == "p":  # how to read tables
            self._text = ""
        elif tag == "p" and self._open == "p":
            self.sentences += filter(None, [self._text.strip().removesuffix("Markdown · LaTeX").strip()])
            self._open = None

    def _end_cell(self) -> None:
        if self._open in ("th", "td"):
            text = self._text.strip()
            self._rows[-1].append((text.removeprefix("≈"), "≈" if text.startswith("≈") else self._mark))
        self._open = None


def page_of(folder: Path, rows: list[ResultRow] | None = None, **files: list[Path]) -> Page:
    """The page of rows of one file, or of files."""
    if rows is not None:
        files["results"] = [written(folder, rows)]
    evaluation_page.write(folder / "report.html", **files)
    return Page(folder / "report.html")


def written(folder: Path, results: list[ResultRow], name: str = "results.parquet") -> Path:
    files.write(folder / name, RESULTS, results, {})
    return folder / name


def of_model(key: str, r1: dict[str, float], **more: Any) -> list[ResultRow]:
    """The rows of one model: each method on clean queries and on fog."""
    return [
        result(method, value - lost, model_key=key, checkpoint_sha256=key, **about, **more)
        for method, value in r1.items()
        for lost, about in ((0.0, {}), (10.0, FOG))
    ]
