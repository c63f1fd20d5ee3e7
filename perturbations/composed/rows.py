"""The rows of manifests of composed retrieval; `manifest.kinds` declares the manifests. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perturbations.manifest.kind import RowKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow:
    """A row of the pool that the galleries of composed queries are taken from: a clip as one narration tells it."""

    dataset: str
    row: int
    clip_id: str
    video_id: str
    narration: str
    start_s: float | None = None
    end_s: float | None = None
    distractors: str | None = None
    certain: bool | None = None


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
    """Rows of the pool that a query is asked among, or not; without a query: those of all queries."""

    dataset: str
    gallery: str
    query_id: str | None = None
    first_row: int
    end_row: int
    included: bool


POOL = RowKind("pool", PoolRow, ("row",))
COMPOSED_QUERIES = RowKind("composed_queries", ComposedQueryRow, ("query_id",))
GALLERIES = RowKind("galleries", GalleryRow, ("gallery", "query_id", "first_row"))
KINDS = (POOL, COMPOSED_QUERIES, GALLERIES)
