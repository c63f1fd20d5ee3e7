"""The published tables that the package ships."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from perturbations.corpus.plan import items as reading
from perturbations.datasets import adapter_registry as datasets
from perturbations.datasets.adapter_registry import Dataset
from perturbations.evaluation.published import protocols
from perturbations.evaluation.run.retrieval_of_scenario import Clean
from perturbations.manifest import sets
from perturbations.manifest.rows import CaptionRow
from perturbations.suites import published_cells as tables
from perturbations.suites import suite_registry
from perturbations.suites.published_cells import Published


def test_every_cell_is_a_number_of_one_place() -> None:
    cells = list(tables.cells())
    assert Counter(cell.paper for cell in cells) == {
        "hat_vtr": 4_719,
        "mm_robustness": 4_019,
        "msrvtt_p": 1_293,
        "egocvr": 244,
        **{"covr_r": 12, "dense_webvid_covr": 12, "tf_covr": 4, "omni_cvr": 3},
    }
    places = {tuple(getattr(cell, name) for name in Published.__slots__ if name != "printed") for cell in cells}
    assert len(places) == len(cells)
    percents = [cell for cell in cells if cell.metric.startswith("recall_at_") and cell.direction != "i2t+t2i"]
    assert all(0 <= cell.value <= 100 for cell in percents)
    assert {cell.paper for cell in cells} == tables.PAPERS.keys()


def test_cells_name_what_the_package_names() -> None:
    """A perturbation of HAT-VTR's or Qiu's tables is one of the suite; MSRVTT-P prints categories."""
    for cell in tables.cells():
        if cell.paper in ("hat_vtr", "mm_robustness") and cell.suite and cell.perturbation not in ("all", "avg6", ""):
            name = cell.perturbation.partition(" ")[0]
            assert name in ("clean", "mixed_types") or suite_registry.get(f"{cell.suite}/{name}"), cell
    assert tables.SPLITS.keys() <= datasets.adapters().keys()


@pytest.mark.parametrize(
    ("adapter", "annotations", "ids"),
    [
        ("msrvtt", "msrvtt/MSRVTT_JSFUSION_test.csv", None),
        ("msvd", "msvd/captions_msvd.json", "msvd/test_list.txt"),
        ("activitynet", "activitynet/val1_anno.jsonl", None),
        ("youcook2", "youcook2/validation_youcook.csv", None),
    ],
)
def test_real_lists_have_the_published_hashes(reference: Path, adapter: str, annotations: str, ids: str | None) -> None:
    data = reference / "data"
    paths = {"annotations": data / annotations, "ids": data / ids if ids else None, "videos": data}
    items = reading.read("any name", Dataset(adapter=adapter, **paths)).items
    captions = [(item.caption_id(place), item.item_id, text) for item in items for place, text in enumerate(item.texts)]
    rows = [CaptionRow(dataset="d", caption_id=name, item_id=item, text=text) for name, item, text in captions]
    clean = Clean([SimpleNamespace(item_id=item.item_id) for item in items], rows)  # type: ignore[list-item]
    ids = sets.ids_sha256(item.item_id for item in items)
    assert tables.SPLITS[adapter][len(items)] == len(rows)
    assert tables.HASHES[adapter, len(items)] == (ids, clean.listed_sha256)


@pytest.mark.parametrize(
    ("adapter", "items", "hashes", "says"),
    [
        ("msrvtt", 1_000, {"ids": tables.HASHES["msrvtt", 1_000][0]}, None),
        ("msrvtt", 1_000, {"listed": tables.HASHES["msrvtt", 1_000][1]}, None),
        ("msrvtt", 1_000, {"listed": tables.HASHES["msvd", 670][1]}, "are not those of the published split of msrvtt"),
        ("msrvtt", 1_000, {}, "is not recorded"),
        ("youcook2", 3_305, {"ids": tables.HASHES["youcook2", 3_350][0]}, "cannot be compared"),
        *((name, next(iter(tables.SPLITS[name])), {"ids": "0"}, "cannot be compared") for name in ("coco", "didemo")),
    ],
)
def test_a_split_is_known_by_its_hash_alone(adapter: str, items: int, hashes: dict[str, str], says: str | None) -> None:
    text = tables.other_items(adapter, items, **hashes)
    assert text is None if says is None else says in str(text)


def test_averages_are_those_of_their_rows() -> None:
    """Of one clean table, all: 14 rows, 12 perturbations each."""
    rows: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for cell in protocols.protocol("hat_vtr_table_1").cells:
        rows[cell.model, cell.method][cell.perturbation] = cell.value
    assert len(rows) == 14
    for cells in rows.values():
        average = cells.pop("all")
        assert len(cells) == 12
        assert sum(cells.values()) / 12 == pytest.approx(average, abs=0.06)


def test_recall_grows_with_k() -> None:
    at: dict[tuple[object, ...], dict[int, float]] = defaultdict(dict)
    for cell in tables.cells():
        if cell.metric.startswith("recall_at_"):
            names = [name for name in Published.__slots__ if name not in ("metric", "printed", "contradiction")]
            at[tuple(getattr(cell, name) for name in names)][int(cell.metric.rpartition("_")[2])] = cell.value
    for place, recalls in at.items():
        ordered = [recalls[k] for k in sorted(recalls)]
        assert ordered == sorted(ordered), place


def test_contradictions_are_said() -> None:
    contradicted = Counter(cell.paper for cell in tables.cells() if cell.contradiction)
    assert contradicted["hat_vtr"] == 84 + 84 + 6 + 2
    (zoom,) = (
        cell
        for cell in tables.values("mm_robustness", ["1"])
        if (cell.dataset, cell.model, cell.perturbation) == ("flickr30k", "BLIP", "zoom_blur")
    )
    assert (zoom.printed, zoom.contradiction) == ("412.1", "table 12 has 421.1")


def test_what_was_published_for_which_dataset() -> None:
    assert {cell.paper for cell in tables.retrieval_of("mlvp", "video")} == {"hat_vtr"}
    assert tables.retrieval_of("mm_robustness", "video") == ()
    assert {cell.dataset for cell in tables.retrieval_of("msrvtt_p", "video")} == {"msrvtt", "msrvtt_qa", "youcook2"}
    assert tables.values("hat_vtr", ["99"]) == []
