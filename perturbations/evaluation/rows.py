"""The manifests of evaluations. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from perturbations.manifest.kind import RowKind

_Side = Literal["none", "query", "gallery", "both"]
"""What is perturbed: nothing (clean results), the queries, the gallery, or both."""


WHOLE_GALLERY = "dataset"
"""`gallery_name` of ordinary retrieval: every usable item of the dataset."""


class ScenarioKey(NamedTuple):
    """What is perturbed in a scenario; None where it has no such thing. `ScenarioColumns` says what each is."""

    suite: str
    perturbation: str
    severity: int | None = None
    text_perturbation: str | None = None
    text_severity: int | None = None
    mix: str | None = None
    share: float | None = None
    side: str = "none"


CLEAN_SCENARIO = ScenarioKey("clean", "clean", 0)


def backend_cell(roles: Mapping[str, str]) -> str:
    """The column `backend` of a result: the backend of each role, and what departs from publications."""
    return json.dumps(roles, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def backends_of(backend: str | None) -> dict[str, str]:
    """What `backend_cell` was given; nothing of a result without the column."""
    roles: dict[str, str] = json.loads(backend or "{}")
    return roles


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioColumns:
    """Which retrieval was run, of which model, by which method.

    `perturbation` and `severity` are those of the one perturbed modality; of side "both" those of the videos, and
    `text_perturbation` and `text_severity` those of the captions.

    Attributes:
        suite, perturbation, severity, text_perturbation, text_severity, mix, share: of the scenario.
        direction, side: which modality is the query, and what is perturbed.
        model_key, pooling, pretrained, checkpoint_sha256, num_frames, precision, setting: the model, its weights, and
            what it was trained on.
        method, parameters, banks_sha256, steps, batch_size: the method; `parameters` is the canonical JSON
            of all of them, and `banks_sha256` a hash of the banks' features, null without a bank.
        label: what tables call the method with its parameters.
        seed, order: the seed, and the order of queries that it stands for.
        adapter, listed_sha256: of the dataset, whatever the user calls it: how it is read, and a hash of the listed
            items and captions.
        gallery_name: `WHOLE_GALLERY`, `keys.CHOICES`, or the name of a composed gallery.
    """

    dataset: str
    suite: str
    perturbation: str
    severity: int | None = None
    text_perturbation: str | None = None
    text_severity: int | None = None
    mix: str | None = None
    share: float | None = None
    direction: Literal["v2t", "t2v", "composed"]
    side: _Side
    model: str
    model_key: str
    method: str
    seed: int
    adapter: str | None = None
    listed_sha256: str | None = None
    gallery_name: str | None = None
    pooling: str | None = None
    pretrained: str | None = None
    checkpoint_sha256: str | None = None
    num_frames: int | None = None
    precision: str | None = None
    setting: str | None = None
    label: str | None = None
    parameters: str | None = None
    banks_sha256: str | None = None
    steps: int | None = None
    batch_size: int | None = None
    order: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow(ScenarioColumns):
    """One scenario, method and seed of an evaluation.

    `clean_recall_at_<k>` is the clean result of the same method and seed over the same queries: those that this
    scenario has ranks of. `protocol` names the preset that the configuration follows.
    `clean_input_queries` are perturbed captions that the model reads as the clean ones, because they differ only behind
    its last token, or in what its tokenizer leaves out; null where no tokens were made.
    `architecture` is the vision tower of the loaded model: "clip ViT-B/32".
    Of composed retrieval galleries differ in size: `gallery_mean` is their mean, `gallery` the nearest whole number.
    """

    protocol: str | None = None
    category: str
    setting: str
    queries: int
    missing_queries: int
    clean_input_queries: int | None = None
    gallery: int
    recall_at_1: float
    recall_at_5: float
    recall_at_10: float
    recall_at_50: float
    recall_at_100: float
    clean_recall_at_1: float | None = None
    clean_recall_at_5: float | None = None
    clean_recall_at_10: float | None = None
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
    recall_at_2: float | None = None
    recall_at_3: float | None = None
    gallery_mean: float | None = None
    architecture: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow(ScenarioColumns):
    """The place of a query's best target, from 1; `retrieved` is what `evaluation.top_k` keeps (`retrieved_first`)."""

    query_id: str
    rank: int
    retrieved: str | None = None


_SCENARIO_KEY = (
    *("direction", "side", "suite", "mix", "share", "perturbation", "severity", "text_perturbation", "text_severity"),
    *("gallery_name", "model", "method", "parameters", "seed"),
)
_FOLDER = "manifests/{dataset}/{kind}/{model}"
RESULTS = RowKind("results", ResultRow, _SCENARIO_KEY, files={"results": f"{_FOLDER}/results.parquet"})
RANKS = RowKind("ranks", RankRow, (*_SCENARIO_KEY, "query_id"), files={"ranks": f"{_FOLDER}/ranks.parquet"})
KINDS = (RESULTS, RANKS)
