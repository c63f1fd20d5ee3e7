"""What stands beside a published number: each cell, reached by results of its preset and by no others."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic_results

from perturbations.base.records import canonical
from perturbations.composed.split import WORDS
from perturbations.config import file as config_file
from perturbations.config import sections
from perturbations.corpus import caption_recipes, mixes
from perturbations.evaluation import method_settings, planning, stated
from perturbations.evaluation.composed_results import ScoredModel, method_of, settings_of
from perturbations.evaluation.page import published_section, scores
from perturbations.evaluation.page.published_section import Beside
from perturbations.evaluation.protocols import cells, registry
from perturbations.evaluation.rows import PUBLISHED_SEED, ScenarioKey
from perturbations.evaluation.stated import parts_of
from perturbations.retrieval.composed import AVERAGES, GIVEN, HALVES, STRATEGIES
from perturbations.suites import published
from perturbations.suites.published import SPLITS, Published

Row = dict[str, Any]
DRAWN = ("recall_at_1", "recall_at_2", "recall_at_3", "recall_at_5", "recall_at_10")
HUBNESS = tuple(name for name in synthetic_results.MEASURED if name.startswith("hub_"))
CLEAN = {"suite": "clean", "perturbation": "clean", "severity": 0, "side": "none", "category": "clean"}
PRETRAINED = canonical({"retrieval": "pretrained"})


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
    queries, gallery = listed, listed
    if columns["dataset"] in ("coco", "flickr30k"):  # five captions per picture
        queries, gallery = (listed // 5, listed) if columns["direction"] == "v2t" else (listed, listed // 5)
    row = synthetic_results.result_row(
        **dict.fromkeys(("recall_at_50", "recall_at_100", "median_rank", "mean_rank"), 1.0),
        **{"gallery": gallery, "queries": queries, "backend": PRETRAINED, **numbers, **columns},
    )
    return {**asdict(row), "model_name": row.model_key}


def models(protocol: registry.EvaluationProtocol, adapter: str) -> Iterator[Row]:
    """The columns of each model that the cells of a preset state for a dataset."""
    seen = dict.fromkeys(
        (cell.stated_model, cell.pooling, cell.backbone, cell.trained)
        for cell in published.values(protocol)
        if cell.parts and cell.stated_model and cell.dataset == adapter
    )
    for place, (name, pooling, backbone, trained) in enumerate(seen):
        columns = {"model": name, "model_key": f"m{place}", "setting": "features", "dataset": adapter}
        if pooling:
            columns |= {"pooling": pooling, "architecture": backbone or None}
            columns |= {"setting": trained or "qs", "adapter": adapter}
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
    planned = [
        {"direction": own.direction, **own.scenario._asdict(), "category": planning.category_of(own)}
        for own in planning.scenarios(config, "data")
    ]
    rows: list[Row] = []
    for model in models(protocol, adapter):
        for scenario in planned:
            for own in config.evaluation.method_settings():
                given = method_settings.parameters_of(own.name, own.parameters, scenario["direction"])
                method = {"method": own.name, "label": own.label, "parameters": given, "protocol": name}
                how = {"steps": 3, "batch_size": 16, "num_frames": 12}
                how |= (
                    {"gallery_name": "choices", "gallery": 5} if adapter == "msrvtt_qa" else {"gallery_name": "dataset"}
                )
                if model["setting"] != "features" or own.name == "none":
                    columns = {**model, **scenario, **method, **how}
                    rows += [a_row(**columns, seed=seed) for seed in config.evaluation.seeds]
    return rows


def composed(protocol: registry.EvaluationProtocol, adapter: str) -> Iterator[Row]:
    """Every way to use a query in every gallery; LanguageBind makes the shortlists of the others."""
    nothing, wanted = np.zeros((1, 1), np.float32), protocol.composed
    for model in models(protocol, adapter):
        texts = dict.fromkeys(wanted["words"], nothing)
        own = ScoredModel(model["model"], nothing, texts)
        first = ScoredModel("LanguageBind", nothing, texts)
        crossed = ScoredModel(model["model"], nothing, similarities=nothing)
        others = [] if model["model"] == first.name else [[first, own]]
        every = {"first_stage": HALVES, "words": [*WORDS], "averages": AVERAGES, "strategies": STRATEGIES}
        as_given = {**every, "strategies": GIVEN}
        ways = {method_of(way) for several in ([own], *others) for way in settings_of(several, every)}
        for several in ([crossed], [first, crossed]):
            ways |= {method_of(way) for way in settings_of(several, as_given)}
        for gallery, way, frames in product(wanted["galleries"], sorted({*ways, "random"}), ("mean", "middle")):
            given = json.dumps({"frames": frames, "shortlist": wanted["shortlist"], "deduplicate": False})
            key = {"model_key": f"{model['model_key']} {frames}@{gallery}", "gallery_name": gallery, "method": way}
            columns = {**model, **key, **CLEAN, "parameters": given, "protocol": protocol.name}
            yield a_row(direction="composed", seed=0, **columns)


def reached(rows: list[Row], name: str) -> list[Beside]:
    """What the page sets beside published cells."""
    pairs: list[Beside] = []
    for _, of_directions in scores.of_datasets(pd.DataFrame(rows), {}):
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
    cell = own.cell
    if cell.frames:
        given = json.dumps({"frames": cell.frames, "shortlist": cell.shortlist, "deduplicate": False})
        return own.model, cell.gallery, cell.stated_method, given, 0
    given = method_settings.parameters_of(cell.stated_method, json.loads(cell.changed), cell.direction)
    return own.model, cell.gallery, cell.stated_method, given, PUBLISHED_SEED if cell.seed is None else cell.seed


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
        counted = Counter(tuple(getattr(own.cell, name) for name in published.PRINTED) for own in pairs)
        assert counted == Counter(tuple(row)[:-2] for row in known.itertuples(index=False))
        runs = by_run(rows)
        for own in pairs:
            assert own.value == pytest.approx(expected(own.cell, runs[run_of(own)]), rel=1e-9), own.cell


@pytest.mark.parametrize("name", ["mm_robustness_table_2", "msrvtt_p_table_9", "hat_vtr_table_16"])
def test_tables_of_published_values_have_captions_of_their_own(name: str) -> None:
    """A clean result and the perturbed ones beside it are two tables."""
    for adapter in registry.protocol(name).datasets:
        tables = list(published_section._tables(reached(results(name, adapter), name)))
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
        ("hat_vtr_table_1", "none", {"architecture": "clip ViT-B/16"}),
        ("hat_vtr_table_1", "none", {"protocol": "hat_vtr_table_2"}),
        ("hat_vtr_table_1", "hatvtr", {"seed": 7}),
        ("hat_vtr_table_1", "hatvtr", {"batch_size": 8}),
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


TABLE_1, QIU, QIU_2 = "hat_vtr_table_1", "mm_robustness_table_1", "mm_robustness_table_2"


def verdict_of(rows: list[Row], name: str) -> tuple[bool, tuple[str, ...]]:
    return stated.verdict(registry.protocol(name), rows)


@pytest.mark.parametrize(
    ("name", "adapter", "changed", "reason"),
    [
        # COCO with one caption per picture, and a gallery of ten: as many queries as were published in one direction.
        (
            QIU,
            "coco",
            {"queries": 5_000, "gallery": 5_000},
            "has 5,000 items, and the published one",
        ),
        (
            QIU_2,
            "flickr30k",
            {"gallery": 10},
            "the gallery of t2v has 10 items, and the published one",
        ),
        (
            TABLE_1,
            "msrvtt",
            {"queries": 30},
            "30 queries are listed in v2t, and the published split has 1,000",
        ),
        ("msrvtt_p_table_10", "msrvtt_qa", {"gallery": 4}, "the gallery of v2t has 4 items, and the published one 5"),
        (
            TABLE_1,
            "msrvtt",
            {"architecture": "clip ViT-B/16"},
            "the architecture is clip ViT-B/16, and",
        ),
        (
            TABLE_1,
            "msrvtt",
            {"architecture": "blip ViT-B/16"},
            "the architecture is blip ViT-B/16, and the t",
        ),
        (
            TABLE_1,
            "msrvtt",
            {"architecture": None},
            "the architecture of the model is not recorded, a",
        ),
        (
            QIU,
            "coco",
            {"architecture": "blip ViT-B/16"},
            "the architecture is blip ViT-B/16, and t",
        ),
        (TABLE_1, "msrvtt", {"adapter": None}, "the adapter of the dataset is not recorded"),
        (TABLE_1, "msrvtt", {"setting": "qgs_cross"}, "the setting is qgs_cross, and the table's is qs"),
        ("egocvr_table_1", "egocvr", {"parameters": None}, "the frames are not recorded, and the table's are "),
    ],
)
def test_what_is_not_the_papers_is_refused_and_said(name: str, adapter: str, changed: Row, reason: str) -> None:
    """No number stands beside a published one, and the verdict names why."""
    rows = [{**row, **changed} for row in results(name, adapter) if row["setting"] != "features" or "qa" in adapter]
    assert reached(rows, name) == []
    is_sound, reasons = verdict_of(rows, name)
    assert not is_sound
    assert any(reason in own for own in reasons), reasons


@pytest.mark.parametrize(
    ("name", "adapter", "kept"),
    [
        (TABLE_1, "msrvtt", lambda row: row["method"] in ("none", "tcr")),
        (TABLE_1, "msrvtt", lambda row: row["perturbation"] in ("clean", "fog", "snow")),
        ("hat_vtr_table_11", "msrvtt", lambda row: row["seed"] in (42, 100)),
        ("hat_vtr_table_6", "msrvtt", lambda row: row["direction"] == "t2v"),
        (QIU, "coco", lambda row: row["setting"] == "qs"),
        ("egocvr_table_1", "egocvr", lambda row: row["method"] == "visual" and "mean" in row["parameters"]),
    ],
)
def test_a_part_of_a_presets_runs_is_compared(name: str, adapter: str, kept: Callable[[Row], bool]) -> None:
    """Fewer methods, perturbations, seeds or directions, another stated setting, the middle frame."""
    known = registry.protocol(name).evaluation.get("num_frames")
    every = [{**row, "num_frames": known} for row in results(name, adapter) if row["setting"] != "features"]
    rows = [row for row in every if kept(row)]
    assert 0 < len(rows) < len(every)
    whole = {id(own.cell): own.value for own in reached(every, name)}
    own = {id(pair.cell): pair.value for pair in reached(rows, name)}
    assert own
    assert {cell: whole[cell] for cell in own} == own
    assert verdict_of(rows, name) == (True, ())


@pytest.mark.parametrize(
    "further",
    [
        {"severity": 3}, {"direction": "t2v"}, {"side": "gallery"}, {"suite": "transmission", "perturbation": "jpeg"},
        {"method": "shot", "label": "SHOT"}, {"method": "csls", "label": "CSLS", "setting": "qs"},
    ],
)  # fmt: skip
def test_further_runs_refuse_none(further: Row) -> None:
    """Severities, directions, sides, suites and methods that the table does not have, with whatever they depart in."""
    name = TABLE_1
    rows = results(name, "msrvtt")
    strange = {"backend": canonical({"retrieval": "pretrained", "corpus": "offline backends made fog"})}
    others = {
        tuple(own[column] for column in ("model_key", "direction", *ScenarioKey._fields, "method")): own
        for own in ({**row, **further, **strange} for row in rows)
        if own["suite"] != "clean"
    }
    pairs = reached([*rows, *others.values()], name)
    assert [(own.cell, own.value) for own in pairs] == [(own.cell, own.value) for own in reached(rows, name)]
    assert verdict_of([*rows, *others.values()], name) == (True, ())


def sentences(rows: list[Row], name: str) -> str:
    """What the page says of results that follow a preset."""
    ((known, of_directions),) = scores.of_datasets(pd.DataFrame([{**row, "protocol": name} for row in rows]), {})
    return " ".join(part for part in published_section.of_dataset(known, of_directions) if isinstance(part, str))


def test_no_page_calls_comparable_what_has_no_published_number() -> None:
    rows = [row for row in results(TABLE_1, "msrvtt") if row["method"] == "none"]
    assert sentences(rows, TABLE_1).endswith("Comparable with the published values, if the weights are the paper's.")
    blip = sentences([{**row, "architecture": "blip ViT-B/16"} for row in rows], TABLE_1)
    assert "Not comparable with the published values, because the architecture is blip ViT-B/16" in blip
    assert blip.endswith("No published number is of what was run here.")
    lacking = [row for row in results("hat_vtr_table_6", "msrvtt") if row["perturbation"] == "ocr"]
    assert "omparable" not in sentences(lacking, "hat_vtr_table_6")
    assert sentences(lacking, "hat_vtr_table_6").endswith("here: a mean needs all of its scenarios.")


def test_a_seed_counts_where_order_does() -> None:
    """The model as it is has one result whatever the order; of several seeds one number stands beside a cell."""
    rows = [row for row in results(TABLE_1, "msrvtt") if row["method"] in ("none", "tcr")]
    other = [{**row, "seed": 7, "recall_at_1": row["recall_at_1"] / 2} for row in rows]
    methods = Counter(own.cell.stated_method for own in reached(other, TABLE_1))
    assert {*methods} == {"none"}
    verdict = verdict_of(other, TABLE_1)
    assert verdict == (True, ("the seed is 7, and the table's is 42",))
    both = reached([*other, *rows], TABLE_1)
    assert [(own.cell, own.value) for own in both] == [(own.cell, own.value) for own in reached(rows, TABLE_1)]
    for name in ("hat_vtr_table_17", "hat_vtr_table_18"):  # another seed draws other mixes
        drawn = [{**row, "seed": 7} for row in results(name, "msrvtt") if row["method"] == "none"]
        assert reached(drawn, name) == []
    remembering = [{**row, "seed": 7} for row in results("hat_vtr_table_14", "msrvtt") if row["method"] == "hsm_qbnorm"]
    assert reached(remembering, "hat_vtr_table_14") == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"precision": "bfloat16"}, "the precision is bfloat16, and the papers' models are float32"),
        ({"num_frames": 8}, "the number of frames per clip is 8, and the preset's is 12"),
        ({"steps": 1}, "the number of steps is 1, and the preset's is 3"),
        ({"queries": 990, "missing_queries": 10, "gallery": 990}, "missing: 10 of 1,000 queries"),
        ({"listed_sha256": "0"}, "the 1,000 listed items are not those of the published split of msrvtt"),
        ({"backend": canonical({"retrieval": "demo_encoder"})}, "the model is a small encoder that the workflow t"),
        (
            {"backend": canonical({"corpus": "donors are clips of the evaluated dataset"})},
            "donors are clips of the evaluated dataset",
        ),
    ],
)
def test_what_departs_beside_the_key_is_said(changed: Row, reason: str) -> None:
    rows = [{**row, **changed} for row in results(TABLE_1, "msrvtt") if row["method"] == "tcr"]
    assert reached(rows, TABLE_1)
    is_sound, reasons = verdict_of(rows, TABLE_1)
    assert (is_sound, len(reasons)) == (False, 1)
    assert reasons[0].startswith(reason)


def test_the_middle_frame_is_compared_where_the_table_has_it() -> None:
    rows = [row for row in results("egocvr_table_2", "egocvr") if "middle" in row["parameters"]]
    assert {own.cell.frames for own in reached(rows, "egocvr_table_2")} == {"middle"}
    assert not any("frame" in reason for reason in verdict_of(rows, "egocvr_table_2")[1] if "given" not in reason)


def test_features_are_never_taken_for_the_papers_model() -> None:
    rows = [row for row in results("msrvtt_p_table_3", "msrvtt") if row["model"] == "FIT zs"]
    assert reached(rows, "msrvtt_p_table_3")
    assert verdict_of(rows, "msrvtt_p_table_3") == (
        False,
        ("features were given: neither the model nor the frames are recorded",),
    )


def test_every_cell_has_a_status_and_every_shown_one_a_preset() -> None:
    table = cells()
    assert len(table) == 10_275
    assert list(cells("hat_vtr_figures").columns) == list(table.columns)
    keyed = [cell for cell in published.cells() if cell.parts is not None]
    assert len(keyed) == 10_129
    assert all(parts_of(cell) for cell in keyed)
    statuses = {"shown", "needs weights", "needs features", "needs GPU", "impossible"}
    assert {*table["status"]} == statuses
    assert table["reason"].str.len().min() > 0
    shown = table[(table["status"] == "shown") & (table["note"].str.startswith("of captions") == False)]  # noqa: E712
    assert shown["reason"].str.removeprefix("by the preset ").isin(list(registry.protocols())).all()
