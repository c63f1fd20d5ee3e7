"""What stands beside a published number: each cell, reached by results of its preset and by no others."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import chain, product
from typing import Any

import clips
import numpy as np
import pandas as pd
import pytest
import synthetic_results

from perturbations.base.records import canonical
from perturbations.composed.split import WORDS
from perturbations.config import file as config_file
from perturbations.config import sections
from perturbations.corpus.captions import mixes
from perturbations.corpus.plan import caption_recipes, recipe, tiers
from perturbations.evaluation.composed.ways import GIVEN, STRATEGIES, ScoredModel, method_of, settings_of
from perturbations.evaluation.page import published_section, scores
from perturbations.evaluation.page.published_section import Beside
from perturbations.evaluation.plan import evaluation_files, method_settings, planned_runs
from perturbations.evaluation.published import protocols
from perturbations.evaluation.published.cell_status import cells
from perturbations.evaluation.published.verdict import parts_of
from perturbations.evaluation.result_rows import PUBLISHED_SEED, ScenarioKey
from perturbations.evaluation.run import run_journal as evaluated
from perturbations.retrieval.composed import AVERAGES, HALVES
from perturbations.suites import published_cells
from perturbations.suites import suite_registry as suites
from perturbations.suites.published_cells import HASHES, SPLITS, Published

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
    items, captions = max(SIZES.get(columns["dataset"], {1_000: 1_000}).items())
    queries, gallery = (items, captions) if columns["direction"] == "v2t" else (captions, items)
    row = synthetic_results.result_row(
        **dict.fromkeys(("recall_at_50", "recall_at_100", "median_rank", "mean_rank", "map_at_50"), 1.0),
        **{"gallery": gallery, "queries": queries, "backend": PRETRAINED, **numbers, **columns},
    )
    return {**asdict(row), "model_name": row.model_key}


MEANS = {"global_rows": 12_525.0, "local_released": 6.389, "global_targets": 2_435.0}
MEANS |= {"global_distinct": 4_425.0, "global_target_rows": 9_000.0, "candidates+source": 2_000.0}
SIZES = {**SPLITS, "egocvr": {2_295: 2_295}, "webvid_covr": {2_556: 2_556}, "dense_webvid_covr": {2_556: 2_556}}
SIZES |= {"covr_r": {2_800: 2_800}, "omni_cvr": {1_000: 1_000}, "tf_covr": {9_000: 9_000}}


def models(protocol: protocols.EvaluationProtocol, adapter: str) -> Iterator[Row]:
    """The columns of each model that the cells of a preset state for a dataset."""
    seen = dict.fromkeys(
        (cell.stated_model, cell.pooling, cell.backbone, cell.trained)
        for cell in protocol.cells
        if cell.parts and cell.stated_model and cell.dataset == adapter
    )
    for place, (name, pooling, backbone, trained) in enumerate(seen):
        columns = {"model": name, "model_key": f"m{place}", "setting": "features", "dataset": adapter}
        if pooling:
            columns |= {"pooling": pooling, "architecture": backbone or f"{name.split()[0].lower()} ViT-L/16"}
            columns |= {"setting": trained or "qs", "adapter": adapter}
        yield columns


def config_of(
    protocol: protocols.EvaluationProtocol, adapter: str, own: Sequence[Row], beside: Mapping[str, Any]
) -> sections.Config:
    """A preset's configuration of models, with keys beside it; `corpora` are its section `suites`."""
    data = {"adapter": adapter if adapter == "youcook2" else "folder", "annotations": "a", "videos": "v"}
    known = {"model": "/clip", "checkpoint": __file__}
    entries = [{"name": row["model_key"], "pooling": row["pooling"], "setting": row["setting"], **known} for row in own]
    given = {"protocol": protocol.name, "querybank": "train", "models": entries, **beside}
    corpora = given.pop("corpora", {})
    return config_file.parse({"datasets": {"data": data, "train": data}, "suites": corpora, "evaluation": given})


@cache
def results(name: str, adapter: str, beside: str = "{}") -> list[Row]:
    """Complete results of a preset on a dataset, with keys (JSON) beside its own."""
    protocol = protocols.protocol(name)
    if protocol.composed:
        return list(composed(protocol, adapter))
    every = list(models(protocol, adapter))
    own = [model for model in every if model["setting"] != "features"]
    config = config_of(protocol, adapter, own, json.loads(beside))
    (_, listed_sha256), *_ = [*(hashes for (split, _), hashes in HASHES.items() if split == adapter), (None, None)]
    about: Row = {"dataset": adapter, "protocol": name, "listed_sha256": listed_sha256}
    about |= {"gallery_name": "choices", "gallery": 5} if adapter == "msrvtt_qa" else {}
    rows: list[Row] = []
    for model, alone in zip(own, planned_runs.models(config).values(), strict=False):
        for run in chain.from_iterable(evaluation_files.jobs(alone, "data", "adaptation").values()):
            rows.append(a_row(**{**run.columns(), "category": planned_runs.category_of(run), **model, **about}))
    given: Row = {"method": "none", "label": "none", "parameters": "{}", "gallery_name": "dataset", "seed": 42}
    for model, run in product(every, planned_runs.scenarios(config, "data")):
        if model["setting"] == "features":
            named = {"direction": run.direction, **run.scenario._asdict(), "category": planned_runs.category_of(run)}
            rows.append(a_row(**{**given, **named, **model, **about}))
    return rows


def composed(protocol: protocols.EvaluationProtocol, adapter: str) -> Iterator[Row]:
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
        galleries = ["candidates+source"] if adapter == "omni_cvr" else wanted["galleries"]
        ways = {method_of(way) for several in ([own], *others) for way in settings_of(several, every)}
        for several in ([crossed], [first, crossed]):
            ways |= {method_of(way) for way in settings_of(several, as_given)}
        for gallery, way, frames in product(galleries, sorted({*ways, "random"}), ("mean", "middle")):
            given = json.dumps({"frames": frames, "shortlist": wanted["shortlist"]})
            key = {"model_key": f"{model['model_key']} {frames}@{gallery}", "gallery_name": gallery, "method": way}
            key |= {} if model["setting"] == "features" else {"num_frames": protocol.evaluation["num_frames"]}
            size = {"gallery_mean": MEANS[gallery], "gallery": round(MEANS[gallery])}
            columns = {**model, **key, **size, **CLEAN, "parameters": given, "protocol": protocol.name}
            yield a_row(direction="composed", seed=0, **columns)


def reached(rows: list[Row], name: str) -> list[Beside]:
    """What the page sets beside published cells."""
    pairs: list[Beside] = []
    for _, of_directions in scores.of_datasets(pd.DataFrame(rows), {}):
        pairs += published_section.compared(protocols.protocol(name), of_directions)[0]
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
        given = json.dumps({"frames": cell.frames, "shortlist": cell.shortlist})
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


@pytest.mark.parametrize("name", [name for name, own in protocols.protocols().items() if own.tables])
def test_complete_results_reach_each_cell_once_with_the_mean_of_its_scenarios(name: str) -> None:
    reachable = ["shown", "needs features"]
    for adapter in protocols.protocol(name).datasets:
        rows, table = results(name, adapter), cells(name)
        known = table[(table["dataset"] == adapter) & table["status"].isin(reachable)]
        pairs = reached(rows, name)
        counted = Counter(tuple(getattr(own.cell, name) for name in published_cells.PRINTED) for own in pairs)
        assert counted == Counter(tuple(row)[:-2] for row in known.itertuples(index=False))
        runs = by_run(rows)
        for own in pairs:
            assert own.value == pytest.approx(expected(own.cell, runs[run_of(own)]), rel=1e-9), own.cell
        # A clean result and the perturbed ones beside it are two tables.
        tables = list(published_section._tables(pairs))
        assert len({table.caption for table in tables}) == len(tables)


def sentences(rows: list[Row], name: str) -> str:
    """What the page says of results that follow a preset."""
    ((known, of_directions),) = scores.of_datasets(pd.DataFrame([{**row, "protocol": name} for row in rows]), {})
    return " ".join(part for part in published_section.of_dataset(known, of_directions) if isinstance(part, str))


def clips_of(key: str, variant: str | None = None, donors: str = "", **columns: Any) -> Row:
    """The backends of results whose queries are clips of a perturbation with such columns."""
    wanted = recipe.make(suites.get(key), 5, variant=variant, seed=0, storage=tiers.UNSTORED, donors=donors)
    row = replace(clips.video_row(wanted), dataset="msrvtt", **columns)
    return {"backend": canonical(evaluated.backends("/clip", [row]))}


DONOR = {"donor_id": "x", "guide": json.dumps({"donor": {"sha256": "a"}}), "source_sha256": "a"}


def by_gate(row: Row) -> Row:
    """A row of which the paper's gate left out some captions."""
    if row["suite"] == "clean" or not suites.get(f"{row['suite']}/{row['perturbation']}").gated:
        return {}
    if row["direction"] == "v2t":
        return {"gallery": row["gallery"] - 7}
    return {"queries": row["queries"] - 7, "missing_queries": 7}


def composed_by(**changed: Any) -> Row:
    return {"parameters": json.dumps({"frames": "mean", "shortlist": 15} | changed)}


TABLE_1, TABLE_3, TABLE_6, QIU, QIU_2, EGO = (
    *("hat_vtr_table_1", "hat_vtr_table_3", "hat_vtr_table_6"),
    *("mm_robustness_table_1", "mm_robustness_table_2", "egocvr_table_1"),
)
MIDDLE = {"model": "LanguageBind", "gallery_name": "global_rows", "method": "visual", **composed_by(frames="middle")}
TWO_STAGE = {"method": "two_stage visual, tfcvr"}
TENT, ALONE, TUNED = {"method": "tent"}, {"method": "none"}, {"setting": "qs"}
LOCAL = {"method": "visual", "gallery_name": "local_released", **TUNED, **composed_by()}
TWELVE = [entry.name for entry in suites.perturbations("mlvp", "video")]
WITHOUT_DONORS = [name for name in TWELVE if name != "event_insertion"]
DECIDING = ("adapter", "gallery_name", "listed_sha256", "precision", "steps", "num_frames", "order", "batch_size")
DECIDING += ("parameters", "architecture", "pooling", "setting")
COMPARABLE = "Comparable with the published values, if the weights are the paper's"
NOTHING = "No published table reports this experiment, so no number is compared."
INCOMPLETE = "is compared. A mean needs all of its scenarios."
UNKNOWN = "because which items are listed cannot be compared, as no hash of the published split of "
FEATURES = "because features were given: neither the model nor the frames are recorded."


@pytest.mark.parametrize(
    ("name", "beside", "only", "changed", "says"),
    [
        # Honest runs, cell by cell: how many published numbers compare.
        (TABLE_1, {}, {}, {}, 182),
        (TABLE_1, {"methods": ["hatvtr", "tcr"]}, {}, {}, 78),
        (TABLE_1, {"methods": ["dsl", "hatvtr", "tcr", "eata", "sar", "read", "tent"]}, {}, {}, 182),
        (TABLE_1, {"corpora": {"mlvp": {"perturbations": TWELVE[::-1]}}}, {}, {}, 182),
        (TABLE_1, {"corpora": {"mlvp": {"perturbations": ["fog", "snow"]}}}, {}, {}, 28),
        (TABLE_1, {"corpora": {"mlvp": {"perturbations": WITHOUT_DONORS}}}, {}, {}, 154),
        (TABLE_1, {"severities": [1, 5]}, {}, {}, 182),
        (TABLE_1, {"severities": {"low": 5}, "directions": ["v2t", "t2v"], "sides": ["gallery", "query"]}, {}, {}, 182),
        (TABLE_1, {"corpora": {"transmission": {}}, "suites": ["mlvp", "transmission"]}, {}, {}, 182),
        (TABLE_1, {"mixes": ["mixed_types"], "jobs_per_gpu": 2}, {}, {}, 182),
        (TABLE_1, {"seeds": [7], "batch_size": 64, "steps": 1}, ALONE, {}, 26),
        (TABLE_1, {"parameters": {"hatvtr": {"alpha": 100, "m": 0.5}}}, {}, {}, 182),
        (TABLE_1, {"methods": [{"name": "hatvtr", "label": "ours"}]}, {"label": "ours"}, {}, 26),
        (TABLE_1, {"device": "cuda", "reader": "decord", "top_k": 10}, {"pooling": "xpool"}, {}, 91),
        (TABLE_1, {}, {}, clips_of("mlvp/event_insertion", donors="train", guide="{}"), 182),
        (TABLE_1, {}, {}, clips_of("mlvp/fog", storage="video/high", storage_psnr_db=41.0), 182),
        (TABLE_3, {"corpora": {"mm_robustness": {"captions": {"perturbations": ["ocr"]}}}}, {}, {}, 14),
        ("hat_vtr_table_11", {"seeds": [100, 42]}, {}, {}, 4),
        (TABLE_6, {"directions": ["t2v"]}, {}, {}, 4),
        ("hat_vtr_table_14", {"methods": ["hatvtr"], "querybank": None}, {"pooling": "clip4clip"}, {}, 28),
        ("hat_vtr_table_17", {"mixes": ["mixed_types", "mixed_severity"]}, {}, {}, 170),
        (QIU, {}, TUNED, {}, (172, UNKNOWN)),
        (QIU_2, {}, {"setting": "qgs_zero_shot"}, by_gate, (163, UNKNOWN)),
        (EGO, {}, {"method": "visual", **TUNED, **composed_by()}, {}, 12),
        (EGO, {}, LOCAL, {"missing_queries": 2, "queries": 2_293}, 6),
        (EGO, {}, LOCAL, {"gallery_mean": 6.5}, "the gallery of composed has 6.5 items, and the published one 6.4"),
        (EGO, {}, LOCAL, {"missing_queries": 3, "queries": 2_292}, "missing: 3 of 2,295 queries"),
        # A mean of which a scenario is missing.
        (QIU, {"severities": [1, 2]}, {**TUNED, "suite": "mm_robustness"}, {}, INCOMPLETE),
        (TABLE_6, {"directions": ["t2v"]}, {"perturbation": "ocr"}, {}, INCOMPLETE),
        # Other runs.
        (f"{QIU} coco", {}, TUNED, {"queries": 5_000, "gallery": 5_000}, "has 5,000 items, and the published one"),
        (QIU, {}, TUNED, {"architecture": "blip ViT-B/16"}, "the architecture is blip ViT-B/16, and the"),
        (QIU, {}, TUNED, {"architecture": None}, "the architecture is not recorded, and the table's is "),
        (QIU_2, {}, TUNED, {"gallery": 10}, "the gallery of t2v has 10 items, and the published one 1,000"),
        (TABLE_1, {}, {}, {"queries": 30}, "30 queries are listed in v2t, and the published split has 1,000."),
        (TABLE_1, {}, {}, {"gallery": 20_000}, "the gallery of v2t has 20,000 items, and the published one 1,000."),
        ("hat_vtr_table_23", {}, {}, {"queries": 27_763}, "27,763 queries are listed in t2v, and the published"),
        ("msrvtt_p_table_10", {}, {}, {"gallery": 4}, "the gallery of v2t has 4 items, and the published one 5"),
        (TABLE_1, {}, {}, {"architecture": "clip ViT-B/16"}, "the architecture is clip ViT-B/16, and the table's is c"),
        (TABLE_1, {}, {}, {"architecture": "blip ViT-B/16"}, "the architecture is blip ViT-B/16, and the table's is c"),
        (TABLE_1, {}, {}, {"architecture": None}, "the architecture is not recorded, and the table's is "),
        (TABLE_1, {}, {}, {"adapter": None}, "the dataset's adapter is not recorded, and the tables"),
        (TABLE_1, {}, {}, {"adapter": "folder"}, "the dataset's adapter is folder, and the tables are of msrvtt"),
        (TABLE_1, {}, {}, {"setting": "qgs_cross"}, "the setting is qgs_cross, and the table's is qs"),
        ("hat_vtr_table_5", {}, {}, {"setting": "qs"}, "the setting is qs, and the table's is qgs_zero_shot"),
        ("hat_vtr_table_16", {}, {}, {"pooling": "xpool"}, "frames are pooled by xpool, and the table's model is CLIP"),
        (TABLE_1, {"batch_size": 8}, TENT, {}, "the batch size is 8, and the table's is 16."),
        (TABLE_1, {"seeds": [7]}, TENT, {}, "the seed is 7, and the table's is 42."),
        ("hat_vtr_table_11", {"seeds": [43]}, {"method": "hatvtr"}, {}, "the seed is 43, and the table's is "),
        ("hat_vtr_table_17", {"seeds": [7]}, ALONE, {}, "the seed is 7, and the table's is 42."),
        ("hat_vtr_table_14", {"seeds": [7]}, {"method": "hsm_qbnorm"}, {}, "the seed is 7, and the table's is 42"),
        (TABLE_1, {"parameters": {"tcr": {"share": 0.5}}}, {"method": "tcr"}, {}, "TCR has other parameters than the "),
        (TABLE_1, {}, TENT, {"parameters": None}, "the parameters of TENT are not recorded"),
        ("hat_vtr_table_7", {}, {}, {"parameters": json.dumps({"hsm_rerank": False})}, "published ones: hsm_rerank F"),
        # Of the cells' runs, but otherwise not the papers'.
        (TABLE_1, {"num_frames": 8}, {}, {}, "because the number of frames per clip is 8, and the preset's is 12."),
        (TABLE_1, {"steps": 1}, TENT, {}, "because the number of steps is 1, and the preset's is 3."),
        (TABLE_1, {"precision": "bfloat16"}, {}, {}, "the precision is bfloat16, and the papers' models are float32."),
        (TABLE_1, {}, {}, {"queries": 990, "missing_queries": 10, "gallery": 990}, "missing: 10 of 1,000 queries."),
        (TABLE_3, {}, {"category": "word"}, by_gate, "missing: 7 of 1,000 queries"),
        (TABLE_1, {}, {}, {"listed_sha256": "0"}, "the 1,000 listed items are not those of the published split of ms"),
        (TABLE_1, {}, {}, {"backend": canonical({"retrieval": "demo_encoder"})}, "the model is a small encoder that"),
        (TABLE_1, {}, {}, clips_of("mlvp/fog", backend='{"style": {"backend": "offline"}}'), "offline backends made f"),
        (TABLE_1, {}, {}, clips_of("mlvp/fog", storage="video/compatible", storage_psnr_db=13.0), "stored with loss ("),
        (TABLE_1, {}, {}, clips_of("mlvp/snow", variant="paper"), "the variant is paper; the authors' code makes"),
        (TABLE_1, {}, {}, clips_of("mlvp/fog", params='{"t": 9}'), "parameters are not the published ones: fog."),
        (TABLE_1, {}, {}, clips_of("mlvp/event_insertion", donors="train", **DONOR), "donors are clips of the e"),
        ("msrvtt_p_table_3", {}, {"model": "FIT zs"}, {}, FEATURES),
        ("egocvr_table_2", {}, MIDDLE, {}, FEATURES),
        # A fact that is not recorded.
        *((TABLE_1, {}, {"method": "tcr"}, {name: None}, "not recorded") for name in DECIDING),
        (TABLE_1, {}, {}, {"backend": "{}"}, "the model's backend is not recorded"),
        ("hat_vtr_table_14", {}, {"method": "hsm_qbnorm"}, {}, "the bank of HSM + QB-Norm is not recorded"),
        # Parameters count as they take effect: a tenth of the gallery's 1,000 items is the default of k.
        (TABLE_1, {}, {"method": "hatvtr"}, {"parameters": json.dumps({"k": 100, "lr": 3e-4, "m": 0.5})}, 26),
        (TABLE_1, {}, {"method": "hatvtr"}, {"parameters": json.dumps({"k": 50})}, "published ones: k 50"),
        ("hat_vtr_table_2", {}, {"method": "hatvtr"}, {"parameters": json.dumps({"k": 100})}, "published ones: k 100"),
        # Of other scenarios, sides, directions and galleries than the tables.
        (TABLE_1, {"directions": ["t2v"]}, {}, {}, NOTHING),
        (TABLE_1, {"directions": ["t2v"], "sides": ["gallery"]}, {}, {}, NOTHING),
        (TABLE_1, {"severities": [4]}, {}, {}, NOTHING),
        (TABLE_1, {"methods": ["dsl"]}, {"method": "dsl"}, {}, NOTHING),
        ("hat_vtr_table_18", {}, {"mix": mixes.PER_BATCH}, {"share": 0.3}, NOTHING),
        ("msrvtt_p_table_2", {}, {}, {"model": "CLIP"}, "the features are called CLIP, and the table's model is "),
        ("msrvtt_p_table_2", {}, {}, {"side": "query"}, NOTHING),
        ("msrvtt_p_table_11", {}, {}, {"gallery_name": "dataset"}, "the gallery is dataset, and the table's is ch"),
        (EGO, {}, {"method": "visual"}, {"gallery_name": "global_distinct"}, "the gallery is global_distinct, and the"),
        (EGO, {}, {"method": "visual"}, {"parameters": None}, "the use of frames is not recorded, and the table's"),
        (EGO, {}, {"method": "visual", **TUNED}, composed_by(pre_caption=True), "the shortening of texts is True"),
        ("egocvr_table_S2", {}, TWO_STAGE, composed_by(shortlist=15), "keeps is 15, and the table's is 20"),
    ],
)  # fmt: skip
def test_which_results_compare(name: str, beside: Row, only: Row, changed: Any, says: Any) -> None:
    """Results of a preset with keys beside it, of which `only` some are there, with other columns.

    `says` is how many numbers compare, or why none does, or both: how many stand there in brackets.
    """
    name, _, adapter = name.partition(" ")
    rows = results(name, adapter or protocols.protocol(name).datasets[0], json.dumps(beside))
    kept = [row for row in rows if all(row[column] == value for column, value in only.items())]
    changed_rows = [{**row, **(changed(row) if callable(changed) else changed)} for row in kept]
    names = ("model_key", "direction", *ScenarioKey._fields, "method", "label", "seed")
    distinct = [*{tuple(row[column] for column in names): row for row in changed_rows}.values()]
    assert distinct
    shown, text = reached(distinct, name), sentences(distinct, name)
    if isinstance(says, tuple):
        count, says = says
        assert len(shown) == count
    if isinstance(says, int):
        assert len(shown) == says
        assert not any(own.departs for own in shown)
        assert text.endswith(f"{COMPARABLE}.")
    else:
        assert all(own.departs for own in shown)
        assert "Comparable" not in text
        assert says in text


def test_cells_that_depart_are_told_from_those_that_compare() -> None:
    """Each cell is judged by its own runs: a mean by all of them."""
    offline = clips_of("mlvp/fog", backend='{"style": {"backend": "offline"}}')
    rows = [{**row, **(offline if row["perturbation"] == "fog" else {})} for row in results(TABLE_1, "msrvtt")]
    pairs = reached(rows, TABLE_1)
    assert {own.cell.perturbation for own in pairs if own.departs} == {"fog", "all"}
    assert {own.cell.perturbation for own in pairs if not own.departs} == {*TWELVE} - {"fog"}
    because = "but for some (in brackets, or without a published number), because offline backends made fog (style)."
    assert f"{COMPARABLE}, {because}" in sentences(rows, TABLE_1)
    for table in published_section._tables(pairs):
        (difference,) = {name for name in table.frame.index if name.startswith("TCR, diff")}
        bracketed = {name for (_, name), cell in table.frame.loc[difference].items() if cell.mark == "departs"}
        assert bracketed == {"fog", "all"}
    # One model whose cells compare, but whose means lack a scenario, and one whose cells all depart.
    partial = [row for row in results(TABLE_6, "msrvtt") if row["perturbation"] == "ocr"]
    departing = [{**row, "model_key": "m", "model_name": "m", "num_frames": 8} for row in results(TABLE_6, "msrvtt")]
    assert "Comparable" not in sentences([*partial, *departing], TABLE_6)


def test_a_seed_counts_where_order_does() -> None:
    """The model as it is has one result whatever the order; of several seeds one number stands beside a cell."""
    rows = [row for row in results(TABLE_1, "msrvtt") if row["method"] in ("none", "tcr")]
    other = [{**row, "seed": 7, "recall_at_1": row["recall_at_1"] / 2} for row in rows]
    assert {own.cell.stated_method for own in reached(other, TABLE_1)} == {"none"}
    both = reached([*other, *rows], TABLE_1)
    assert [(own.cell, own.value) for own in both] == [(own.cell, own.value) for own in reached(rows, TABLE_1)]


def test_every_cell_has_a_status_and_every_shown_one_a_preset() -> None:
    table = cells()
    assert len(table) == 10_306
    assert list(cells("hat_vtr_figures").columns) == list(table.columns)
    keyed = [cell for cell in published_cells.cells() if cell.parts is not None]
    assert len(keyed) == 10_160
    assert all(parts_of(cell) for cell in keyed)
    statuses = {"shown", "needs weights", "needs features", "needs GPU", "impossible"}
    assert {*table["status"]} == statuses
    assert table["reason"].str.len().min() > 0
    shown = table[(table["status"] == "shown") & (table["note"].str.startswith("of captions") == False)]  # noqa: E712
    assert shown["reason"].str.removeprefix("by the preset ").isin(list(protocols.protocols())).all()
