"""The manifests of evaluations. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perturbations.manifest.kind import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioColumns:
    """Which queries were asked, of which model, by which method."""

    dataset: str
    suite: str
    perturbation: str
    severity: int | None = None
    mix: str | None = None
    share: float | None = None
    direction: Literal["v2t", "t2v"]
    model: str
    model_key: str
    method: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow(ScenarioColumns):
    """One scenario, method and seed of an evaluation."""

    level: str
    setting: str
    queries: int
    missing_queries: int
    gallery: int
    r1: float
    r5: float
    r10: float
    r50: float
    r100: float
    rsum: float
    median_rank: float
    mean_rank: float
    hub_skewness: float | None = None
    hub_truncated_skewness: float | None = None
    hub_atkinson: float | None = None
    hub_robin_hood: float | None = None
    hub_antihub_rate: float | None = None
    hub_occurrence: float | None = None
    encode_ms_p50: float | None = None
    encode_ms_p95: float | None = None
    adapt_ms_p50: float | None = None
    adapt_ms_p95: float | None = None
    rerank_ms_p50: float | None = None
    rerank_ms_p95: float | None = None
    total_ms_p50: float | None = None
    total_ms_p95: float | None = None
    peak_memory_mib: float | None = None
    updates: int
    empty: int
    non_finite: int
    settings: str
    backend: str
    queries_sha256: str
    manifest_sha256: str
    checkpoint_sha256: str
    tools: str
    recipe_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow(ScenarioColumns):
    """The place of a query's best target, from 1."""

    query_id: str
    rank: int


_SCENARIO_KEY = ("direction", "suite", "mix", "share", "perturbation", "severity", "model", "method", "seed")
RESULTS = Kind("results", ResultRow, _SCENARIO_KEY)
RANKS = Kind("ranks", RankRow, (*_SCENARIO_KEY, "query_id"))
KINDS = (RESULTS, RANKS)
