"""What stands beside a published number: each cell, reached by results of its preset and by no others."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic_results

from perturbations.composed import strategies
from perturbations.config import file as config_file
from perturbations.config import sections
from perturbations.evaluation import departures, method_settings, planning
from perturbations.evaluation.keys import PUBLISHED_SEED
from perturbations.evaluation.page import intervals, published_section
from perturbations.evaluation.page.published_section import Beside
from perturbations.evaluation.protocols import cells, registry
from perturbations.evaluation.rows import ScenarioKey, backend_cell
from perturbations.evaluation.stated import StatedModel
from perturbations.plan import caption_recipes, mixes
from perturbations.retrieval.composed import GIVEN, HALVES, STRATEGIES
from perturbations.suites import published
from perturbations.suites.published import SPLITS, Published

Row = dict[str, Any]
BACKBONES = {
    "clip ViT-B/32": "openai/clip-vit-base-patch32",
    "clip ViT-B/16": "/models/clip-vit-base-patch16",
    "blip ViT-B/16": "Salesforce/blip-itm-base-coco",
    "clip ViT-L/14": "laion/CLIP-ViT-L-14-DataComp.XL-s13B-b90K",
    "blip ViT-L/16": "/models/blip-itm-large-coco",
}
DRAWN = ("recall_at_1", "recall_at_2", "recall_at_3", "recall_at_5", "recall_at_10")
HUBNESS = tuple(name for name in synthetic_results.MEASURED if name.startswith("hub_"))
CLEAN = {"suite": "clean", "perturbation": "clean", "severity": 0, "side": "none", "category": "clean"}
PRETRAINED = backend_cell({"retrieval": "pretrained"})


@pytest.fixture(autouse=True)
def every_caption(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that has every model of captions."""
    monkeypatch.setattr(caption_recipes, "skipped", lambda *_: [])


def a_row(**columns: Any) -> Row:
    """A row whose numbers depend on all that tells it from others."""
    draw = np.random.default_rng(zlib.crc32(repr(sorted(columns.items(), key=str)).encode()))
    numbers = dict(zip(DRAWN, np.sort(draw.uniform(5, 95, len(DRAWN))), strict=True))
    numbers |= dict(zip(HUBNESS, draw.uniform(0, 9, len(HUBNESS)), strict=True))
    numbers["rsum"] = sum(numbers[f"recall_at_{k}"] for k in (1, 5, 10))
    listed = max(SPLITS.get(columns["dataset"], {1_000: None}))
    row = synthetic_results.result_row(
        **dict.fromkeys(("recall_at_50", "recall_at_100", "median_rank", "mean_rank"), 1.0),
        **{"gallery": listed, "queries": listed, "backend": PRETRAINED, **numbers, **columns},
    )
    return {**asdict(row), "model_name": row.model_key}


def models(protocol: registry.EvaluationProtocol, adapter: str) -> Iterator[Row]:
    """The columns of each model that the cells of a preset state for a dataset."""
    seen: dict[StatedModel, None] = {}
    for cell in published.values(protocol):
        key = registry.papers()[protocol.paper].stated(cell).key
        if key is not None and key.model is not None and key.dataset == adapter:
            seen[key.model] = None
    for place, model in enumerate(seen):
        columns = {"model": model.name, "model_key": f"m{place}", "setting": "features", "dataset": adapter}
        if model.pooling:
            columns |= {"pooling": model.pooling, "pretrained": BACKBONES.get(model.backbone, "/models/own")}
            columns |= {"setting": model.setting or "qs", "adapter": adapter}
        yield columns


def config_of(protocol: registry.EvaluationProtocol, adapter: str) -> sections.Config:
    """A preset's configuration, as far as planning needs it."""
    known = {"adapter": adapter if adapter == "youcook2" else "folder", "annotations": "a", "videos": "v"}
    raw = {"datasets": {"data": known}, "evaluation": {"protocol": protocol.name, "querybank": "data"}}
    return config_file.parse(raw)


@cache
def results(name: str, adapter: str) -> list[Row]:
    """Complete results of a preset on a dataset."""
    protocol = registry.protocol(name)
    if protocol.composed:
        return list(composed(protocol, adapter))
    config = config_of(protocol, adapter)
    planned = pd.DataFrame([asdict(own) for own in planning.scenarios(config, "data")], dtype=object)
    rows: list[Row] = []
    for model in models(protocol, adapter):
        for scenario in planned.rename(columns={"level": "category"}).to_dict("records"):
            for own in config.evaluation.method_settings():
                given = method_settings.parameters_of(own.name, own.parameters, scenario["direction"])
                method = {"method": own.name, "label": own.label, "parameters": given, "protocol": name}
                how = {"steps": 3, "batch_size": 16, "num_frames": 12, "continual": False}
                how["gallery_name"] = "choices" if adapter == "msrvtt_qa" else "dataset"
                if model["setting"] != "features" or own.name == "none":
                    columns = {**model, **scenario, **method, **how}
                    rows += [a_row(**columns, seed=seed) for seed in config.evaluation.seeds]
    return rows


def composed(protocol: registry.EvaluationProtocol, adapter: str) -> Iterator[Row]:
    """Every way to use a query in every gallery; LanguageBind makes the shortlists of the others."""
    nothing, wanted = np.zeros((1, 1), np.float32), protocol.composed
    for model in models(protocol, adapter):
        texts = dict.fromkeys(wanted["words"], nothing)
        own = strategies.ScoredModel(model["model"], nothing, texts)
        first = strategies.ScoredModel("LanguageBind", nothing, texts)
        crossed = strategies.ScoredModel(model["model"], nothing, similarities=nothing)
        others = [] if model["model"] == first.name else [[first, own]]
        as_given, every = (strategies.Ways(first_stage=HALVES, strategies=names) for names in (GIVEN, STRATEGIES))
        ways = {way.method for several in ([own], *others) for way in strategies.settings(several, every)}
        for several in ([crossed], [first, crossed]):
            ways |= {way.method for way in strategies.settings(several, as_given)}
        for gallery, way, frames in product(wanted["galleries"], sorted({*ways, "random"}), ("mean", "middle")):
            given = json.dumps({"frames": frames, "shortlist": wanted["shortlist"], "deduplicate": False})
            key = {"model_key": f"{model['model_key']} {frames}@{gallery}", "gallery_name": gallery, "method": way}
            columns = {**model, **key, **CLEAN, "parameters": given, "protocol": protocol.name}
            yield a_row(direction="composed", seed=0, **columns)


def reached(rows: list[Row], name: str) -> list[Beside]:
    """What the page sets beside published cells."""
    pairs: list[Beside] = []
    for of_directions in intervals.of(pd.DataFrame(rows), {}):
        pairs += published_section.beside(registry.protocol(name), of_directions)
    return pairs


MIXES = {("hat_vtr", "17"): "mixed_severity", ("hat_vtr", "18"): mixes.PER_BATCH}
GROUPS: dict[str, list[str]] = {
    **{name: [] for name in ("all", "avg6", "multimodal")},
    "all but DropText and Positional": ["AddText", "Bias", "ChangeChar", "TextStyle"],
    "Machine": ["AddText", "Bias", "ChangeChar", "TextStyle"],
    "Synthetic": ["DropText", "Positional"],
    "Natural": ["SwapText", "ocr", "prefix_swap", "punctuation"],
}


def by_run(rows: list[Row]) -> dict[tuple[object, ...], list[Row]]:
    """The rows of each model, gallery, method and seed."""
    runs: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        names = ("model_name", "gallery_name", "method", "parameters", "seed")
        runs.setdefault(tuple(row[name] for name in names), []).append(row)
    return runs


def run_of(own: Beside) -> tuple[object, ...]:
    """The run that a number is of."""
    key = own.key
    if key.frames:
        given = json.dumps({"frames": key.frames, "shortlist": key.shortlist, "deduplicate": False})
        return own.model, key.gallery, key.method, given, 0
    given = method_settings.parameters_of(key.method, dict(key.changed), own.cell.direction)
    return own.model, key.gallery, key.method, given, PUBLISHED_SEED if key.seed is None else key.seed


def is_in(cell: Published, row: Row) -> bool:
    """Whether a cell is a mean over a row, by the words of its columns."""
    if row["suite"] == "clean":
        return False
    # Alternating: captions are the query in t2v and the gallery in v2t, images the other way round.
    side = "query" if (row["direction"] == "t2v") == (cell.modality == "text") else "gallery"
    if row["side"] != (cell.side if cell.side in ("gallery", "query", "both") else side):
        return False
    if (cell.paper, cell.table) in MIXES and row["mix"] != MIXES[cell.paper, cell.table]:
        return False
    if cell.perturbation.startswith("mixed_types"):
        return bool(row["share"] == float(cell.perturbation.split()[1]))
    names = GROUPS.get(cell.perturbation, [cell.perturbation])
    return not names or row["perturbation"] in names or row["category"] in names


def expected(cell: Published, rows: list[Row]) -> float:
    """The number of a cell from the rows of one run."""
    column = {"mean_recall": "rsum", "mmi": "rsum"}.get(cell.metric, cell.metric)
    if cell.metric.startswith("gamma"):
        column = "recall_at_1" if cell.dataset == "msrvtt_qa" else "recall_at_5"
    directions = {"i2t": ["v2t"], "t2i": ["t2v"], "i2t+t2i": ["v2t", "t2v"]}.get(cell.direction, [cell.direction])
    mine = [row for row in rows if row["direction"] in directions]
    clean = sum(row[column] for row in mine if row["suite"] == "clean")
    if cell.perturbation == "clean":
        return float(clean)
    summed: dict[tuple[Any, ...], dict[int | None, float]] = {}
    for row in mine:
        if is_in(cell, row):
            group = summed.setdefault((row["perturbation"], row["text_perturbation"], row["share"]), {})
            group[row["severity"]] = group.get(row["severity"], 0) + row[column]
    score = {
        "mean_recall": lambda own: own / 3,
        "mmi": lambda own: 100 * (clean - own) / clean,
        "gamma_a": lambda own: 1 - (clean - own) / 100,
        "gamma_r": lambda own: own / clean,
    }.get(cell.metric.removesuffix("_sd"), float)
    scores = [[score(own) for own in group.values()] for group in summed.values()]
    if cell.metric.endswith("_sd"):
        return float(np.std(np.concatenate(scores), ddof=1))
    return float(np.mean([np.mean(group) for group in scores]))


@pytest.mark.parametrize("name", [name for name, own in registry.protocols().items() if own.tables])
def test_complete_results_reach_each_cell_once_with_the_mean_of_its_scenarios(name: str) -> None:
    reachable = ["shown", "needs features"]
    for adapter in registry.protocol(name).datasets:
        rows, table = results(name, adapter), cells(name)
        known = table[(table["dataset"] == adapter) & table["status"].isin(reachable)]
        pairs = reached(rows, name)
        counted = Counter(tuple(asdict(own.cell).values()) for own in pairs)
        assert counted == Counter(tuple(row)[:-2] for row in known.itertuples(index=False))
        runs = by_run(rows)
        for own in pairs:
            assert own.value == pytest.approx(expected(own.cell, runs[run_of(own)]), rel=1e-9), own.cell


@pytest.mark.parametrize("name", ["mm_robustness_table_2", "msrvtt_p_table_9", "hat_vtr_table_16"])
def test_tables_of_published_values_have_captions_of_their_own(name: str) -> None:
    """A clean result and the perturbed ones beside it are two tables."""
    for adapter in registry.protocol(name).datasets:
        tables = list(published_section._tables(iter(reached(results(name, adapter), name))))
        assert len({table.caption for table in tables}) == len(tables) > 0


@pytest.mark.parametrize(
    ("name", "method", "changed"),
    [
        ("hat_vtr_table_1", "none", {"adapter": "folder", "dataset": "msrvtt"}),
        ("hat_vtr_table_1", "none", {"adapter": None}),
        ("hat_vtr_table_1", "none", {"direction": "t2v"}),
        ("hat_vtr_table_1", "none", {"side": "gallery"}),
        ("hat_vtr_table_1", "none", {"severity": 4}),
        ("hat_vtr_table_1", "none", {"setting": "qgs_zero_shot"}),
        ("hat_vtr_table_1", "none", {"pretrained": "clip-vit-base-patch16"}),
        ("hat_vtr_table_1", "none", {"protocol": "hat_vtr_table_2"}),
        ("hat_vtr_table_1", "hatvtr", {"seed": 7}),
        ("hat_vtr_table_1", "hatvtr", {"batch_size": 8}),
        ("hat_vtr_table_1", "hatvtr", {"continual": True}),
        ("hat_vtr_table_1", "hatvtr", {"parameters": json.dumps({"alpha": 1.0})}),
        ("hat_vtr_table_1", "hatvtr", {"parameters": None}),
        ("hat_vtr_table_7", "hatvtr", {"parameters": json.dumps({"hsm_rerank": False})}),
        ("hat_vtr_table_11", "hatvtr", {"seed": 43}),
        ("hat_vtr_table_18", "none", {"share": 0.3}),
        ("hat_vtr_table_18", "none", {"mix": "mixed_types"}),
        ("egocvr_table_1", "visual", {"gallery_name": "global_distinct"}),
        ("egocvr_table_S2", "two_stage visual, tfcvr", {"parameters": json.dumps({"frames": "mean", "shortlist": 15})}),
        ("egocvr_table_1", "visual", {"parameters": json.dumps({"frames": "mean", "deduplicate": True})}),
        ("msrvtt_p_table_2", "none", {"model": "CLIP"}),
        ("msrvtt_p_table_2", "none", {"side": "query"}),
        ("msrvtt_p_table_11", "none", {"gallery_name": "dataset"}),
    ],
)
def test_a_foreign_run_reaches_none(name: str, method: str, changed: Row) -> None:
    """Of another dataset, direction, side, model, seed, batch, mixture, gallery, or with other parameters."""
    rows = [row for row in results(name, registry.protocol(name).datasets[0]) if row["method"] == method]
    perturbed_rows = [row for row in rows if row["suite"] != "clean" or name.startswith("egocvr")]
    assert reached(perturbed_rows, name) or name.startswith("msrvtt_p")
    names = ("model_key", "direction", *ScenarioKey._fields, "method", "label", "seed")
    foreign = {tuple(row[name] for name in names): row for row in ({**row, **changed} for row in perturbed_rows)}
    assert reached(list(foreign.values()), name) == []


def test_features_of_fewer_queries_than_the_split_has_are_said_so() -> None:
    row = a_row(
        dataset="msrvtt",
        setting="features",
        model="FIT zs",
        model_key="m",
        method="none",
        direction="t2v",
        seed=0,
        **CLEAN,
    )
    row |= {"queries": 30, "backend": backend_cell({"retrieval": "features"})}
    reasons = departures.departures(registry.protocol("msrvtt_p_table_3"), [row])
    assert reasons[0] == "30 items are listed, and the published split of msrvtt has 1,000"
    assert len(reasons) == 2


def test_a_mean_lacks_no_scenario() -> None:
    rows = [row for row in results("hat_vtr_table_1", "msrvtt") if row["perturbation"] != "fog"]
    assert {own.cell.perturbation for own in reached(rows, "hat_vtr_table_1")}.isdisjoint({"fog", "all"})


def test_every_cell_has_a_status_and_every_shown_one_a_preset() -> None:
    table = cells()
    assert len(table) == 10_275
    assert list(cells("hat_vtr_figures").columns) == list(table.columns)
    statuses = {"shown", "needs weights", "needs features", "needs GPU", "impossible"}
    assert {*table["status"]} == statuses
    assert table["reason"].str.len().min() > 0
    shown = table[(table["status"] == "shown") & (table["note"].str.startswith("of captions") == False)]  # noqa: E712
    assert shown["reason"].str.removeprefix("by the preset ").isin(list(registry.protocols())).all()
