"""The report's section of lost queries: what they retrieved first, where `evaluation.top_k` is set."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import pandas as pd
import pyarrow.parquet as pq

from perturbations.api.functions import open_clip
from perturbations.base.errors import ManifestError, MediaError
from perturbations.evaluation.page.page_tables import PageTable
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    PagePart,
    RankedList,
    Section,
    groups,
    method_label,
    plain,
    titled,
)
from perturbations.evaluation.page.ranks import setting_of
from perturbations.evaluation.result_sets import read_retrieved, scenario_name
from perturbations.evaluation.rows import ScenarioKey
from perturbations.manifest import layout, locations
from perturbations.manifest.companions import companion
from perturbations.manifest.kinds import SOURCES, CompleteSource

_MOST = 10
"""Queries per dataset, model and direction: those that fell furthest."""

_MOST_PICTURED, _PICTURED_ITEMS, _HEIGHT = 3, 5, 72
"""Queries per table with pictures of their first items, and pixels of a picture."""

_READING = (
    "Queries whose first item was right while nothing was perturbed, and is not any more: first items, with scores. "
    "Pictures are the middle frames of clean clips."
)
_RUN = ["dataset", "model_key", "direction", "method", "label", "seed", "query_id"]


def sections(ranks: Sequence[Path], page: Path) -> list[Section]:
    """The section, where a run kept what its queries retrieved; with pictures where the clips lie beside the page."""
    kept = [pq.read_table(path).to_pandas() for path in ranks if "retrieved" in pq.read_schema(path).names]
    frame = pd.concat(kept) if kept else pd.DataFrame({"retrieved": []})
    frame = frame[frame["retrieved"].notna()]
    if frame.empty:
        return []
    clean = frame[(frame["side"] == "none") & (frame["rank"] == 1)]
    lost = frame[(frame["side"] != "none") & (frame["rank"] > 1)].merge(
        clean[[*_RUN, "retrieved"]], on=_RUN, suffixes=("", "_clean")
    )
    lost = lost.astype(object).where(lost.notna(), None).sort_values(["rank", "query_id"], ascending=[False, True])
    lost = lost.drop_duplicates([*ScenarioKey._fields, *(name for name in _RUN if name != "seed")])
    parts: list[PagePart] = []
    for key, own in groups(lost, "dataset", "model_key", "direction"):
        clips = _clips(page.parent, key[0])
        parts += [_table(key, own.head(_MOST)), *_lists(own.head(_MOST_PICTURED).to_dict("records"), clips)]
    return [Section("lost", "Lost queries", [_READING, *(parts or ["No query was lost."])])]


def _table(key: Sequence[str], lost: pd.DataFrame) -> PagePart:
    dataset, model, direction = key
    rows: list[dict[Any, Any]] = lost.to_dict("records")
    shown = pd.DataFrame(
        {
            "perturbed by": [scenario_name(row) for row in rows],
            "method": [method_label(setting_of(row["method"], row["label"])) for row in rows],
            "rank": [str(row["rank"]) for row in rows],
            "clean": [_list(row["retrieved_clean"]) for row in rows],
            "perturbed": [_list(row["retrieved"]) for row in rows],
        }
    )
    caption = titled(f"Lost queries on {dataset}", model, DIRECTIONS[direction])
    return PageTable(caption, plain(shown, [row["query_id"] for row in rows], "query"), left=True)


def _list(retrieved: str) -> str:
    return ", ".join(name if score is None else f"{name} {score:.3g}" for name, score in read_retrieved(retrieved))


def _clips(folder: Path, dataset: str) -> dict[str, CompleteSource]:
    """The clean clips of a dataset, from its folder below `manifests`; none where it is not there."""
    try:
        rows = companion(locations.confined(folder, f"{dataset}/{layout.name('sources')}"), SOURCES)
    except ManifestError:  # `perturb verify` says it; a page of the results is still of use
        return {}
    return {row.item_id: row for row in rows if isinstance(row, CompleteSource)}


def _lists(rows: Sequence[Mapping[Any, Any]], clips: Mapping[str, CompleteSource]) -> list[PagePart]:
    """What queries retrieved, as pictures; none where neither they nor what they retrieved are clips that are there."""

    @cache
    def picture(name: str) -> str:
        return _picture(clips[name]) if name in clips else ""

    lists: list[PagePart] = []
    for row in rows:
        title = f"{row['query_id']}, {scenario_name(row)}"
        both = {
            side: [(name, picture(name)) for name, _ in read_retrieved(row[column])[:_PICTURED_ITEMS]]
            for side, column in (("clean", "retrieved_clean"), ("perturbed", "retrieved"))
        }
        query = picture(row["query_id"])
        if query or any(shown for items in both.values() for _, shown in items):
            lists.append(RankedList(title, query, both))
    return lists


def _picture(row: CompleteSource) -> str:
    """The middle frame of a clip as the address of its data; empty where it cannot be read."""
    try:
        image = open_clip(row, [row.frame_count // 2])[0]
    except (MediaError, IndexError):
        return ""
    size = max(1, round(image.shape[1] * _HEIGHT / image.shape[0])), _HEIGHT
    small = cv2.cvtColor(cv2.resize(image, size, interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2BGR)
    data = cv2.imencode(".webp", small, [cv2.IMWRITE_WEBP_QUALITY, 70])[1]
    return f"data:image/webp;base64,{base64.b64encode(data.tobytes()).decode()}"
