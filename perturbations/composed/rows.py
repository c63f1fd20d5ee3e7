"""The rows of manifests of composed retrieval; `manifest.kinds` declares the manifests. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perturbations.manifest.kind import Kind


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


Perturbed = Literal["nothing", "clips", "instructions", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedResultRow:
    """One way of asking composed queries, in one gallery."""

    dataset: str
    gallery: str
    deduplicated: bool
    strategy: Literal["text", "visual", "average", "two_stage"]
    words: Literal["instruction", "tfcvr", "gt"] | None = None
    average: Literal["released", "unit"] | None = None
    first_stage: Literal["text", "visual", "average"] | None = None
    shortlist: int | None = None
    perturbed: Perturbed
    suite: str | None = None
    perturbation: str | None = None
    severity: int | None = None
    variant: str | None = None
    text_suite: str | None = None
    text_perturbation: str | None = None
    text_severity: int | None = None
    text_variant: str | None = None
    model: str
    first_model: str | None = None
    frames: str
    num_frames: int
    queries: int
    skipped: int
    unanswerable: int
    missing_queries: int
    gallery_mean: float
    gallery_max: int
    r1: float
    r1_low: float
    r1_high: float
    r2: float | None = None
    r2_low: float | None = None
    r2_high: float | None = None
    r3: float | None = None
    r3_low: float | None = None
    r3_high: float | None = None
    r5: float | None = None
    r5_low: float | None = None
    r5_high: float | None = None
    r10: float | None = None
    r10_low: float | None = None
    r10_high: float | None = None
    chance_r1: float
    chance_r2: float | None = None
    chance_r3: float | None = None
    chance_r5: float | None = None
    chance_r10: float | None = None
    backend: str
    settings: str
    checkpoint_sha256: str
    tools: str


POOL = Kind("pool", PoolRow, ("row",))
COMPOSED_QUERIES = Kind("composed_queries", ComposedQueryRow, ("query_id",))
GALLERIES = Kind("galleries", GalleryRow, ("gallery", "query_id", "first_row"))
COMPOSED_RESULTS = Kind(
    "composed_results",
    ComposedResultRow,
    (
        *("gallery", "perturbed", "suite", "perturbation", "severity", "text_suite", "text_perturbation"),
        *("text_severity", "strategy", "words", "average", "first_stage", "model", "first_model"),
    ),
)
KINDS = (POOL, COMPOSED_QUERIES, GALLERIES, COMPOSED_RESULTS)
