"""The record of a result, from its planning to its table, the manifests of results, and the paths of evaluations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from perturbations.base.records import digest
from perturbations.manifest import manifest_paths
from perturbations.manifest.rows import CaptionRow, RowKind, SourceRow

Side = Literal["none", "query", "gallery", "both"]
"""What is perturbed: nothing (clean results), the queries, the gallery, or both."""

WHOLE_GALLERY = "dataset"
"""`gallery_name` of ordinary retrieval: every usable item of the dataset."""

CHOICES = "choices"
"""`gallery_name` of multiple choice: a few items of its own for each query."""

FEATURES = "features"
"""`setting` of results whose features were given: nothing but the model's name is known."""

LISTED = "listed"
"""`order` of queries that are sorted by their ids."""

PUBLISHED_SEED = 42
"""The seed of the published runs, whose loaders do not shuffle: its order is `LISTED`."""

PUBLISHED_BATCH = 16
"""The queries of a batch in the published runs."""

COMPOSED = "composed"
"""The direction of queries of a clip and an instruction, and the kind of their results."""

KINDS = ("adaptation", "evaluation", COMPOSED)
"""What `tta_<dataset>`, `evaluate_<dataset>` and `composed_<dataset>` make. An adaptation includes "no adaptation"."""


class ScenarioKey(NamedTuple):
    """What is perturbed in a scenario; a field that does not apply is None. `Run` explains the fields."""

    suite: str
    perturbation: str
    severity: int | None = None
    text_perturbation: str | None = None
    text_severity: int | None = None
    mix: str | None = None
    share: float | None = None
    side: str = "none"


CLEAN_SCENARIO = ScenarioKey("clean", "clean", 0)


def backends_of(backend: str | None) -> dict[str, str]:
    """The backend of each role, and departures from publications, from the column `backend`; empty without it."""
    roles: dict[str, str] = json.loads(backend or "{}")
    return roles


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One retrieval, of one model, by one method with one seed: what is planned, executed and shown as one result.

    `perturbation` and `severity` are those of the one perturbed modality; of side "both" those of the videos, and
    `text_perturbation` and `text_severity` those of the captions.

    Attributes:
        dataset: what the user calls it.
        suite, perturbation, severity: the scenario; "clean", "clean", 0 where nothing is perturbed. The perturbation is
            "all" where it differs from video to video; the severity is None where it differs.
        mix, share: "mixed_severity", "mixed_types", `PER_BATCH`, or None; the part of the videos that is perturbed.
        direction, side: which modality is the query, and what is perturbed.
        model, model_key: the model: the name or folder of its weights, or the name that features were given under; and
            its name in paths and tables.
        pooling, checkpoint_sha256, num_frames, precision, setting: how the model ran, and its training data.
        method, parameters, banks_sha256, steps, batch_size: the method; `parameters` is the canonical JSON
            of all of them, and `banks_sha256` a hash of the banks' features, null without a bank.
        code: the SHA-256 of the file that declares the method; null for a method of this package.
        label: what tables call the method with its parameters.
        seed, order: the seed, and the order of queries that it gives.
        adapter, listed_sha256: of the dataset, whatever the user calls it: how it is read, and a hash of the listed
            items and captions.
        gallery_name: `WHOLE_GALLERY`, `CHOICES`, or the name of a composed gallery.
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
    side: Side
    model: str
    model_key: str
    method: str
    seed: int
    adapter: str | None = None
    listed_sha256: str | None = None
    gallery_name: str | None = None
    pooling: str | None = None
    checkpoint_sha256: str | None = None
    num_frames: int | None = None
    precision: str | None = None
    setting: str | None = None
    label: str | None = None
    parameters: str | None = None
    code: str | None = None
    banks_sha256: str | None = None
    steps: int | None = None
    batch_size: int | None = None
    order: str | None = None

    @property
    def scenario(self) -> ScenarioKey:
        """The scenario: what is perturbed."""
        return ScenarioKey(*(getattr(self, name) for name in ScenarioKey._fields))

    def columns(self) -> dict[str, Any]:
        """The columns of a run by name; a row's further columns are left out."""
        return {column.name: getattr(self, column.name) for column in fields(Run)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow(Run):
    """A run and its figures.

    `clean_recall_at_<k>` is the clean result of the same method and seed over the same queries, those with ranks in
    this scenario. `protocol` names the preset that the configuration follows.
    `clean_input_queries` counts perturbed captions that the model reads as the clean captions, because they differ only
    after its last token, or in characters that its tokenizer drops; null where no tokens were made.
    `truncated_queries` counts captions with more tokens than the model reads.
    `architecture` is the vision tower of the loaded model: "clip ViT-B/32".
    In composed retrieval, galleries differ in size: `gallery_mean` is their mean, `gallery` the nearest whole number.
    `map_at_<k>` are for queries with several targets, in percent. `source_in_gallery` says whether the query's own clip
    is in its gallery, and `source_first` is the share of queries whose own clip outranks every target, in percent.
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
    updates: int = 0
    empty: int = 0
    non_finite: int = 0
    settings: str
    backend: str
    queries_sha256: str = ""
    manifest_sha256: str = ""
    checkpoint_sha256: str
    tools: str
    recipe_id: str
    recall_at_2: float | None = None
    recall_at_3: float | None = None
    gallery_mean: float | None = None
    architecture: str | None = None
    map_at_5: float | None = None
    map_at_10: float | None = None
    map_at_25: float | None = None
    map_at_50: float | None = None
    source_in_gallery: bool | None = None
    source_first: float | None = None
    truncated_queries: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow(Run):
    """The place of a query's best target, from 1; `retrieved` is what `evaluation.top_k` keeps (`retrieved_first`)."""

    query_id: str
    rank: int
    retrieved: str | None = None


Finished = tuple[ResultRow, tuple[Sequence[str], Sequence[int], Sequence[str | None]]]
"""A finished run: its row, and its queries' ids, ranks, and first retrieved items."""


def rows_of(runs: Iterable[Finished]) -> tuple[list[ResultRow], list[RankRow]]:
    """The rows of results, and the rows of ranks, one per query."""
    rows: list[ResultRow] = []
    ranks: list[RankRow] = []
    for row, queries in runs:
        columns = row.columns()
        rows.append(row)
        ranks += [
            RankRow(**columns, query_id=name, rank=rank, retrieved=first)
            for name, rank, first in zip(*queries, strict=True)
        ]
    return rows, ranks


def run_of_named_model(
    dataset: str, model: str, scenario: ScenarioKey, direction: str, setting: str, **columns: Any
) -> Run:
    """The run of a scenario by a model of which only the name is known: another program computed its features."""
    known: dict[str, Any] = {"direction": direction, "model_key": model, "seed": 0, "order": LISTED, **columns}
    return Run(dataset=dataset, model=model, setting=setting, checkpoint_sha256="", **scenario._asdict(), **known)


_RUN_KEY = (
    *("direction", "side", "suite", "mix", "share", "perturbation", "severity", "text_perturbation", "text_severity"),
    *("gallery_name", "model", "method", "parameters", "seed"),
)


def _contradictions(path: Path, rows: Sequence[ResultRow], about: Mapping[str, object]) -> Iterator[str]:
    """How merged results contradict their tree: what the dataset lists, and the parts from which they were merged.

    Raises `ManifestError` for damaged manifests.
    """
    from perturbations.composed import manifests  # only `perturb verify` needs it
    from perturbations.manifest import files, locations
    from perturbations.manifest.companions import companion
    from perturbations.manifest.rows import CAPTIONS, SOURCES

    tree = manifest_paths.in_tree(locations.path_in_tree(path))
    kind, fields = (tree and manifest_paths.place_of(tree[1].as_posix())) or ("", {})
    if tree is None or kind != "results":
        return
    root, dataset = tree[0], fields["dataset"]
    if fields["kind"] == COMPOSED:
        lists = root / manifest_paths.folder("composed_queries", dataset=dataset)
        listed = manifests.read(lists).listed_sha256 if lists.is_dir() else None
    else:
        sources = companion(path, SOURCES)
        listed = listed_sha256(sources, companion(path, CAPTIONS)) if sources else None
    if listed is not None and any(row.listed_sha256 != listed for row in rows):
        yield "they are of other clips, captions or queries than the dataset's manifests list"
    part = root / manifest_paths.at("evaluation_part", dataset=dataset, model=fields["model"], job=fields["kind"])
    if (root / manifest_paths.WORK).is_dir():
        parts = [files.read_columns(own, "recipe_id")["recipe_id"] for own in part.parent.rglob(part.name)]
        merged = {recipe_id for ids in parts for recipe_id in ids.to_pylist()}
        if others := sum(row.recipe_id not in merged for row in rows):
            yield f"{others:,} of {len(rows):,} results are of no part in {manifest_paths.WORK}/: of another evaluation"


RESULTS = RowKind("results", ResultRow, _RUN_KEY, contradictions=_contradictions)
RANKS = RowKind("ranks", RankRow, (*_RUN_KEY, "query_id"))


def kinds() -> list[RowKind[Any]]:
    """The kinds of manifests of evaluations."""
    return [RESULTS, RANKS]


# --- runs of a job as its settings ------------------------------------------------------------------------------------

_OF_METHOD = ("method", "label", "parameters", "code", "seed", "order")


def as_settings(runs: Sequence[Run]) -> dict[str, Any]:
    """Runs (every scenario by every method) as JSON: the common columns, and those of each scenario and method."""
    columns = [{name: value for name, value in run.columns().items() if value is not None} for run in runs]
    parts = {"scenarios": ScenarioKey._fields, "methods": _OF_METHOD}
    held: dict[str, Any] = {
        part: list({str(own): own for own in ({name: row.get(name) for name in names} for row in columns)}.values())
        for part, names in parts.items()
    }
    of_parts = {name for names in parts.values() for name in names}
    return {"shared": {name: value for name, value in columns[0].items() if name not in of_parts}, **held}


def from_settings(held: Mapping[str, Any]) -> list[Run]:
    """The runs that `as_settings` wrote: every scenario by every method."""
    return [Run(**held["shared"], **scenario, **method) for scenario in held["scenarios"] for method in held["methods"]]


# --- the key of a result: all that a number is of ---------------------------------------------------------------------


def key_of(row: Run) -> Run:
    """The run of a row of results or ranks without the label that tables show: equal keys are the same result."""
    return Run(**{**row.columns(), "label": None})


def listed_sha256(sources: Iterable[SourceRow], captions: Iterable[CaptionRow]) -> str:
    """A hash of what a dataset lists: the ids of its clips, and its captions."""
    items = sorted(row.item_id for row in sources)
    return digest([items, sorted((row.caption_id, row.item_id, row.text) for row in captions)])


def banks_key(hashes: Mapping[str, str]) -> str | None:
    """`banks_sha256` of a method, from the hash of each bank's features, by the bank's name; None without a bank."""
    return digest(dict(hashes)) if hashes else None


def order_of(seed: int) -> str:
    """The name of a seed's order of queries: `LISTED`, or a permutation that only this seed has."""
    return LISTED if seed == PUBLISHED_SEED else f"seed {seed}"


def places_of(query_ids: Iterable[str], seed: int) -> list[int]:
    """The places of queries, which are sorted by their ids, in the order of a seed.

    Each query draws a number of its own, so that a missing query does not change the order of the others.
    """
    ids = [*query_ids]
    if order_of(seed) == LISTED:
        return [*range(len(ids))]
    return sorted(range(len(ids)), key=lambda place: digest([seed, ids[place]]))


# --- paths ------------------------------------------------------------------------------------------------------------


def tables_of(page: Path) -> Path:
    """The folder of a page's tables, beside the page."""
    return page.with_name(page.stem + manifest_paths.TABLES)


def ranks_of(part: Path) -> Path:
    """The file of the ranks for a part of results, beside the part."""
    return part.with_suffix(".ranks.parquet")
