"""What the page makes of single rows of results: models, comparisons, robustness, earlier versions."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic_results as synthetic
from copies import ROOT
from synthetic_results import (
    B16,
    B32,
    FOG,
    METRICS,
    PAPER_METHODS,
    V2T,
    XPOOL,
    Page,
    of_model,
    page_of,
    result,
    written,
)

from perturbations.base.errors import ManifestError
from perturbations.base.records import canonical
from perturbations.composed.split import COMPOSED_QUERIES, POOL, ComposedQuery, PoolClip
from perturbations.evaluation.page import curves, evaluation_page, scores
from perturbations.evaluation.page import displayed_names as names_of
from perturbations.evaluation.result_rows import RANKS, RankRow, ResultRow
from perturbations.manifest import files
from perturbations.retrieval.bootstrap import share_interval
from perturbations.suites import suite_registry
from perturbations.suites.published_cells import HASHES
from perturbations.tta.methods import method_registry as methods

TIMES = [f"{part}_ms_p50" for part in ("encode", "adapt", "rerank", "total")]


def settings() -> list[ResultRow]:
    """One method with three labels."""
    known = (
        *(("none", "none", 0, 40.0), ("hatvtr", "HAT-VTR", 30, 44.0)),
        *(("hatvtr", "alpha 10", 10, 42.0), ("hatvtr", "alpha: 5", 5, 41.0)),
    )
    return [
        result(method, r1 - lost, label=label, parameters=json.dumps({"alpha": alpha, "m": 1}), **about)
        for method, label, alpha, r1 in known
        for lost, about in ((0.0, {}), (10.0, FOG))
    ]


MODELS = {B32: {"none": 40.0, "tcr": 42.0}, B16: {"none": 60.0, "tcr": 58.0}, XPOOL: {"none": 70.0}}
MIXED = FOG | {"mix": "mixed_types", "severity": None, "perturbation": "mixed"}
SNOW = synthetic.perturbed(suite_registry.get("mlvp/snow"), 5)
LATE = [result("tcr", 41.0, **FOG)]
SINGLE = [
    *of_model(B32, {"none": 40.0, "tcr": 43.5, "hatvtr": 40.0}),
    result("none", 39.0, checkpoint_sha256=B32, **SNOW),
]
CLEAN, KNOWN_SNOW = result("none", 40.0), result("none", 39.0, clean_recall_at_1=40.0, **SNOW)
LACKING = {**FOG, "queries": 90, "missing_queries": 10}
PUBLISHED = {
    **{"protocol": "hat_vtr_table_1", "backend": canonical({"retrieval": "pretrained"}), "dataset": "my own name"},
    **{"queries": 1000, "gallery": 1000, "adapter": "msrvtt", "setting": "qs", "pooling": "clip4clip"},
    **{"architecture": "clip ViT-B/32", "parameters": "{}", "num_frames": 12, "gallery_name": "dataset"},
    **{"listed_sha256": HASHES["msrvtt", 1_000][1], "precision": "float32"},
}
"""Of Table 1 of HAT-VTR: CLIP4Clip without adaptation on fog at severity 5 has 26.7."""
UNMEASURED = dict.fromkeys(synthetic.MEASURED)
UNUSUAL = {
    "models": [row for key, r1 in MODELS.items() for row in of_model(key, r1)],
    "settings": settings(),
    "transductive": of_model(B32, {"none": 40.0, "tcr": 42.0, "dsl": 90.0}),
    "skewness": [result("none", 1.0, hub_skewness=-0.086), result("tcr", 1.0, hub_skewness=0.02)],
    "mixed": [result("none", 40.0), *(result("none", 30 - 20 * own, share=own, **MIXED) for own in (0.25, 0.5))],
    "some unmeasured": [result("none", 50.0), *(result(own, 51.0, **UNMEASURED) for own in PAPER_METHODS[1:])],
    "severities": [
        result(method, 40.0 + more - 5 * about.get("severity", 0), **about)
        for method, more in (("none", 0.0), ("tcr", 2.0))
        for about in ({}, *(FOG | {"severity": severity} for severity in (1, 5)))
    ],
    "no clean": [result("none", 30.0, **FOG), result("tcr", 33.0, **FOG)],
    "empty mean": [result("none", 50.0), *(result("none", 40.0, **FOG | {"severity": own}) for own in (1, 5)), *LATE],
    "no effect": of_model(B32, {"none": 40.0, "tcr": 43.5, "sar": 40.0}),
    "no loss": [result("none", 40.0), result("none", 40.0, clean_recall_at_1=40.0, **FOG)],
    "no better method": [row for key in (B32, B16) for row in of_model(key, {"none": 40.0, "tcr": 40.0})],
    "gaps": [*SINGLE, *(result("none", 39.0, checkpoint_sha256=B32, **{**SNOW, "severity": own}) for own in (1, 3))],
    "methods": SINGLE,
    "small gallery": [
        result("none", 50.0, gallery=4),
        result("none", 40.0, **FOG, gallery=4, queries=90, missing_queries=10),
    ],
    "other scenarios": [
        *(row for key, r1 in ((B32, 40.0), (B16, 50.0)) for row in of_model(key, {"none": r1})),
        result("none", 45.0, model_key=B16, checkpoint_sha256=B16, **FOG | {"severity": 1}),
    ],
    "no suite": [
        *of_model(B32, {"none": 40.0}, dataset="whole"),
        result("none", 20.0, dataset="plain", direction="t2v"),
    ],
    "read as clean": [result("none", 40.0), result("none", 39.0, clean_input_queries=16, **SNOW)],
    # Fog lacks the queries that are hard even when clean, so that 45 % of its own are found clean, and not 40 %.
    "fewer queries": [CLEAN, result("none", 45.0, **LACKING, clean_recall_at_1=45.0), KNOWN_SNOW],
    "clean unknown": [CLEAN, result("none", 45.0, **LACKING), KNOWN_SNOW],
    **{
        f"backend {role}": [result("none", 1.0, backend=canonical({"retrieval": "pretrained", role: maker}))]
        for role, maker in (
            *(("style", "pretrained"), ("retrieval", "demo_encoder"), ("main_object", "offline")),
            *(("captions", "lexical-fields"), ("severities", "own parameters")),
        )
    },
    **{
        f"published {' '.join(changed)}".strip(): [
            result("none", r1, **PUBLISHED | changed, **scenario) for r1, scenario in ((50.0, {}), (30.0, FOG))
        ]
        for changed in ({}, {"listed_sha256": "0"}, {"precision": "bfloat16"}, {"adapter": "folder"})
    },
}
"""Pages of results by name. Their cells are in `golden/pages.csv`, and their sentences in `golden/pages.txt`."""
_RECORDED = re.compile(f"R@1: |{re.escape(METRICS[-1])}|.*hubness of the|.*beside Table")
GOLDEN = ROOT / "tests" / "golden"


@pytest.mark.parametrize("name", UNUSUAL)
def test_pages_of_unusual_results_are_as_they_were(name: str, tmp_path: Path) -> None:
    content = page_of(tmp_path, UNUSUAL[name])
    assert not re.search(r"\bnan\b", content.text)
    cells = [cell for table in content.cells.values() for cell in table if _RECORDED.match(cell["table"])]
    known = pd.read_csv(GOLDEN / "pages.csv", dtype=str, keep_default_na=False)
    assert cells == known[known["page"] == name].drop(columns="page").to_dict("records")
    assert sentences(content) == texts_of_pages()[name]


def sentences(content: Page) -> str:
    """The sentences of a page, each once, but for what every page says of hubness, cost and published values."""
    usual = ("0: ", "Encode: ", "Published: ")
    return "".join(f"{text}\n" for text in dict.fromkeys(content.sentences) if not text.startswith(usual))


def texts_of_pages() -> dict[str, str]:
    """The sentences of `golden/pages.txt` by the name of the page."""
    text = (GOLDEN / "pages.txt").read_text("utf-8")
    return dict(re.findall(r"^# (.*)\n((?:[^#].*\n)*)", text, re.MULTILINE))


def test_rows_of_several_models_lie_in_one_file_or_in_several(tmp_path: Path) -> None:
    paths = [written(tmp_path, of_model(key, r1), f"{key}.parquet") for key, r1 in MODELS.items()]
    content = page_of(tmp_path, results=paths)
    assert f"demo, {V2T}, mlvp: R@1 against severity, 0 is clean." in content.text
    assert page_of(tmp_path, UNUSUAL["models"]).tables == content.tables
    labels = [replace(row, label="HAT-VTR") if row.method == "hatvtr" else row for row in settings()]
    with pytest.raises(ManifestError, match="two settings of a method with one label"):
        page_of(tmp_path, labels)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({}, "hold the run demo, clip4clip-b32-qs-0a0a0a0a, v2t none clean/clean 0, no adaptation, seed 42 twice"),
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
    alike = ["a-qs-0000000a", "a-qs-0000000b"]
    assert names_of.model_names(alike) == {key: key for key in alike}
    assert names_of.model_names([*alike[:1], "BLIP-CoVR", "b-qs-0000000c@local_full"]) == {
        **{"a-qs-0000000a": "a-qs", "BLIP-CoVR": "BLIP-CoVR"},
        "b-qs-0000000c@local_full": "b-qs@local_full",
    }


ANYTHING = '[*] <script>alert(1)</script> "q" |a& _%$x$ `b` \\ ~^#{} 影片 é\n'


def test_names_may_hold_anything(tmp_path: Path) -> None:
    known = {"none": "none", "tcr": f"_{ANYTHING}", "hatvtr": ANYTHING}
    about = {"dataset": ANYTHING, "model_key": ANYTHING, "parameters": "{}"}
    rows = [
        result(method, 40.0 - lost, label=label, **about, **scenario)
        for method, label in known.items()
        for lost, scenario in ((0.0, {}), (10.0, FOG))
    ]
    content = page_of(tmp_path, rows)
    assert content.text.count("<script") == 1, "its own"
    svg, markdown, latex = (next(tmp_path.glob(f"report.tables/*.{ending}")) for ending in ("svg", "md", "tex"))
    labels = {"".join(text.itertext()) for text in xml.etree.ElementTree.parse(svg).iter() if text.tag.endswith("text")}
    line = ANYTHING.replace("\n", "\\x0a")
    assert {f" _{line}", line} <= labels
    lines = [own for own in markdown.read_text().splitlines() if own.startswith("|")]
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", own)) for own in lines} == {4}
    assert latex.read_text().startswith("% for LuaLaTeX or XeLaTeX")


@pytest.mark.parametrize("models", [1, 6, 10, 20])
@pytest.mark.parametrize("count", [1, 2])
def test_each_model_and_method_has_a_line_of_its_own_look(models: int, count: int) -> None:
    looks = [curves._look(*own, is_single=count == 1) for own in product(range(models), range(count))]
    assert len(set(map(str, looks))) == models * count


def test_lines_of_curves_are_told_apart_where_there_are_many(tmp_path: Path) -> None:
    """Of many methods and two models the model as it is and the five best have colours, the others are grey."""
    known = ["none", *(name for name in methods.methods() if name != "none" and not names_of.needs_all_queries(name))]
    r1 = {name: 40.0 + place for place, name in enumerate(known)} | {"dsl": 90.0}
    page_of(tmp_path, [row for key in (B16, B32) for row in of_model(key, r1)])
    (path,) = tmp_path.glob("report.tables/*against*.svg")
    names = [label for label in re.findall(r">([^<>]*)</text>", path.read_text()) if label.startswith("clip4clip")]
    best = [names_of.method_label(name) for name in names_of.in_order(["none", *known[-5:]])]
    assert names == [f"{key.rpartition('-')[0]}, {name}" for key in (B16, B32) for name in best]
    assert "other methods" in path.read_text()


def test_sections_that_do_not_apply_are_absent(tmp_path: Path) -> None:
    rows = [result("none", 40.0, **dict.fromkeys(TIMES)), result("none", 30.0, **FOG, **dict.fromkeys(TIMES))]
    assert page_of(tmp_path, rows).headings == ["Results", "R@1 against severity", "Hubness", "How it was made"]
    nothing = page_of(tmp_path)
    assert (nothing.headings, nothing.tables) == ([], {})
    assert "Nothing was evaluated yet" in nothing.text


def test_a_clean_counterpart_is_of_the_same_queries_and_an_equal_gallery(tmp_path: Path) -> None:
    jumble = synthetic.perturbed(suite_registry.get("msrvtt_p/jumble"), 1) | {"side": "gallery", "direction": "t2v"}
    whole = result("none", 30.0, recall_at_5=60.0, **jumble)
    fewer = result("none", 30.0, recall_at_5=40.0, clean_recall_at_5=50.0, queries=90, **jumble | {"severity": 5})
    clean = result("none", 50.0, recall_at_5=80.0, direction="t2v")
    for fifth, rsum, rows in (
        (65.0, np.nan, [clean, whole, fewer]),
        (80.0, 230.0, [clean, whole]),  # of R@1, 5 and 10: 50, 80, 100
        (np.nan, np.nan, [clean, whole, replace(fewer, gallery=99)]),
    ):
        frame = evaluation_page._read([written(tmp_path, rows)])
        ((_, of_directions),) = scores.of_datasets(frame, {})
        (own,) = of_directions["t2v"]
        column = scores.mean_of(own.perturbed("msrvtt_p", "gallery"))
        known = [own.estimate(metric, "none", column)[0] for metric in ("clean_recall_at_5", "clean_rsum")]
        np.testing.assert_allclose(known, [fifth, rsum])


def test_files_that_are_something_else(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.png"
    wrong.write_text("no picture")
    with pytest.raises(ManifestError, match=r"wrong\.png"):
        page_of(tmp_path, results=[wrong])
    assert not (tmp_path / "report.html").exists()


def test_no_hit_has_an_interval() -> None:
    low, high = share_interval(0, 50)
    assert (low, high) == (0, pytest.approx(1 - 0.025 ** (1 / 50)))
    assert share_interval(1, 50) == pytest.approx((1 - high, 1))


def test_a_few_composed_queries_are_shown_with_what_was_retrieved(tmp_path: Path) -> None:
    about: dict[str, Any] = {
        "direction": "composed",
        "dataset": "d",
        "model": "m",
        "model_key": "m",
        "gallery_name": "local",
    }
    recalls = {"text": 0.0, "average": 100.0, "random": 100.0}
    rows = [result(method, r1, label=method, queries=20, **about) for method, r1 in recalls.items()]
    same = ("dataset", "narration", "target_narration", "modified_caption", "change_source", "instruction_source")
    asked: dict[str, Any] = {**dict.fromkeys((*same, "caption_source"), "d"), "change": "object"}
    ids = [f"q{number}" for number in range(20)]
    queries = [
        ComposedQuery(query_id=name, clip_id="a", instruction=f"<i>{name}", targets='["b", "c"]', **asked)
        for name in ids
    ]
    pool = [PoolClip(clip_id=name, video_id="v", narration=f"C {name}s", dataset="d") for name in "abcd"]
    clean = {name: value for name, value in synthetic.CLEAN.items() if name != "category"}
    retrieved = {"text": (2, None), "average": (1, '[["c", 0.5], ["d", 0.4], ["a", 0.1], ["b", null]]')}
    ranks = [
        RankRow(**about, **clean, seed=42, method=method, label=method, query_id=name, rank=rank, retrieved=first)
        for method, (rank, first) in retrieved.items()
        for name in ids
    ]
    for name, kind, own in (("queries", COMPOSED_QUERIES, queries), ("pool", POOL, pool), ("ranks", RANKS, ranks)):
        files.write(tmp_path / f"{name}.parquet", kind, own, {"root": "."})
    paths = {name: [tmp_path / f"{name}.parquet"] for name in ("ranks", "queries")}
    content = page_of(tmp_path, rows, **paths)
    board = content.tables["R@1: d, clip and instruction to clip, local, unperturbed queries"]
    marked = {line[0][0]: line[1][1] for line in board[1:]}
    assert marked == {"average": "strong", "random": "", "text": "u"}, "chance does not compete"
    assert "m by average: R@1 100.0 % clean (100.0 % in random order)." in content.text, "chance is no method"
    other = {**about, "gallery_name": "global", "model_key": "m@global"}
    galleries = page_of(tmp_path, [*rows, result("text", 90.0, label="text", **other)]).tables
    boards = [caption for caption in galleries if caption.startswith("R@1: ")]
    assert boards == [
        f"R@1: d, clip and instruction to clip, {name}, unperturbed queries" for name in ("local", "global")
    ]
    (table,) = (own for caption, own in content.tables.items() if "8 examples of composed queries" in caption)
    assert [line[0][0] for line in table[1:]] == [sorted(ids)[place] for place in (0, 2, 5, 7, 10, 12, 15, 17)]
    shown = ["C as (a)", "<i>q0", "C bs (b); C cs (c)", "1", "✓ C cs (c); C ds (d); C as (a)"]
    assert [text for text, _ in table[1]][1:] == shown
    assert "evaluation.top_k" not in content.text
    files.write(paths["ranks"][0], RANKS, [replace(row, retrieved=None) for row in ranks], {"root": "."})
    assert "evaluation.top_k keeps what is retrieved first" in page_of(tmp_path, rows, **paths).text
