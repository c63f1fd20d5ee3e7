"""The manifests of composed retrieval. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from perturbations.composed.modifications import PoolClip
from perturbations.manifest.kind import RowKind

FOLDER = "manifests/{dataset}/composed"
"""Of the manifests of splits."""

PLACES = {"composed_rejected": "work/{dataset}/composed/rejected_captions.jsonl"}
"""Of other files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedQueryRow:
    """A clip and an instruction, which ask for other clips."""

    dataset: str
    query_id: str
    clip_id: str
    instruction: str
    narration: str
    target_narration: str
    modified_caption: str
    targets: str
    change: Literal["temporal", "object"]
    change_source: str
    instruction_source: str
    caption_source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryRow:
    """Rows of the pool that a query retrieves from, or not; without a query: those of all queries."""

    dataset: str
    gallery: str
    query_id: str | None = None
    first_row: int
    end_row: int
    included: bool


POOL = RowKind("pool", PoolClip, ("row",), files={"composed_pool": f"{FOLDER}/pool.parquet"})
COMPOSED_QUERIES = RowKind(
    "composed_queries", ComposedQueryRow, ("query_id",), files={"composed_queries": f"{FOLDER}/queries.parquet"}
)
GALLERIES = RowKind(
    "galleries",
    GalleryRow,
    ("gallery", "query_id", "first_row"),
    files={"composed_galleries": f"{FOLDER}/galleries.parquet"},
)


def kinds() -> Iterable[RowKind[Any]]:
    """The kinds of this package's manifests, and further manifests of others' kinds."""
    from perturbations.manifest.kinds import QRELS  # which asks features for their kinds

    answers = replace(QRELS, files={"composed_qrels": f"{FOLDER}/qrels.parquet"})
    return POOL, COMPOSED_QUERIES, GALLERIES, answers
