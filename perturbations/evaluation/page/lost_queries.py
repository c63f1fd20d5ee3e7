"""The report's section of lost queries: what they retrieved first, where `evaluation.top_k` is set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from perturbations.evaluation import evidence
from perturbations.evaluation.page.page_tables import PageTable
from perturbations.evaluation.page.parts import DIRECTIONS, PagePart, Section, groups, method_label, plain, titled
from perturbations.evaluation.page.ranks import setting_of
from perturbations.evaluation.result_sets import scenario_name

_MOST = 10
"""Queries per dataset, model and direction: those that fell furthest."""

_READING = (
    "Queries whose first item was right while nothing was perturbed, and is not any more: first items, with scores."
)
_RUN = ["dataset", "model_key", "direction", "method", "label", "seed", "query_id"]


def sections(ranks: Sequence[Path]) -> list[Section]:
    """The section, where a run kept what its queries retrieved."""
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
    tables = [_table(key, own.head(_MOST)) for key, own in groups(lost, "dataset", "model_key", "direction")]
    return [Section("lost", "Lost queries", [_READING, *(tables or ["No query was lost."])])]


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
    return ", ".join(name if score is None else f"{name} {score:.3g}" for name, score in evidence.read(retrieved))
