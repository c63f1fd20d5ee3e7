"""Results of many models in one table: what run a row is of, what may stand together, its clean counterpart.

And what each query retrieved first, in the column `retrieved` of ranks.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perturbations.base.errors import ManifestError
from perturbations.base.records import canonical
from perturbations.evaluation.keys import clean_key, key_of
from perturbations.evaluation.rows import RankRow, ResultRow, ScenarioColumns
from perturbations.retrieval.metrics import first_places

RECALLS = (1, 5, 10)
"""The k of the columns `clean_recall_at_<k>`."""

RANDOM = "random"
"""The method of rows that give chance: galleries in random order, whose recall is exact, without ranks."""

_Run = tuple[str, str, ScenarioColumns]


def run_of(row: ScenarioColumns) -> _Run:
    """What identifies the run of a row of results or ranks: the names of dataset and model, and its key."""
    return row.dataset, row.model_key, key_of(row)


def _clean_run_of(row: ScenarioColumns) -> _Run:
    """The run of the clean counterpart of a run."""
    return row.dataset, row.model_key, clean_key(key_of(row))


def check(rows: Iterable[ResultRow]) -> None:
    """Refuse rows whose means would mix models.

    Raises `ManifestError` when a run (dataset, model, scenario, method, seed) has two rows, or when the rows of one
    model on one dataset have different weights, or in one direction different settings.
    """
    runs: set[_Run] = set()
    weights: dict[tuple[str, str], str] = {}
    settings: dict[tuple[str, str, str], str] = {}
    for row in rows:
        run = run_of(row)
        if run in runs:
            raise ManifestError(
                f"the results hold the run {_name(row)} twice: give each manifest of results once, and of a dataset "
                "and model either the adaptation or the evaluation"
            )
        runs.add(run)
        model = row.dataset, row.model_key
        same_weights = weights.setdefault(model, row.checkpoint_sha256) == row.checkpoint_sha256
        # Given features have banks of their own in each direction.
        if not same_weights or settings.setdefault((*model, row.direction), row.settings) != row.settings:
            what = "settings" if same_weights else "weights"
            raise ManifestError(
                f"the results of {row.model_key} on {row.dataset} have different {what}, so their means would mix "
                "models: delete them and run snakemake again"
            )


def with_clean(rows: Sequence[ResultRow], ranks: Iterable[RankRow]) -> list[ResultRow]:
    """The rows with `clean_recall_at_<k>`: the clean result of the same method and seed over the same queries.

    The columns stay empty where the clean run is not there, or lacks a query. The `ranks` of these runs are read once,
    and only where a run has fewer queries than its clean counterpart.
    """
    clean = {_clean_run_of(row): row for row in rows if row.suite == "clean"}
    queries: dict[_Run, list[str]] = {
        run_of(row): [] for row in rows if (own := clean.get(_clean_run_of(row))) and own.queries != row.queries
    }
    places: dict[_Run, dict[str, int]] = defaultdict(dict)
    for rank in ranks if queries else ():
        if rank.suite == "clean":
            places[run_of(rank)][rank.query_id] = rank.rank
        elif (run := run_of(rank)) in queries:
            queries[run].append(rank.query_id)
    return [_with_clean(row, clean.get(_clean_run_of(row)), queries.get(run_of(row)), places) for row in rows]


def _with_clean(
    row: ResultRow, clean: ResultRow | None, queries: Sequence[str] | None, places: dict[_Run, dict[str, int]]
) -> ResultRow:
    if clean is None:
        return row
    if queries is None:
        recalls = [clean.recall_at_1, clean.recall_at_5, clean.recall_at_10]
    else:
        known = places.get(_clean_run_of(row), {})
        if not queries or not known.keys() >= set(queries):
            return row
        recalls = [100 * sum(known[query] <= k for query in queries) / len(queries) for k in RECALLS]
    first, fifth, tenth = recalls
    return replace(row, clean_recall_at_1=first, clean_recall_at_5=fifth, clean_recall_at_10=tenth)


def _name(row: ResultRow) -> str:
    return f"{row.dataset}, {row.model_key}, {scenario_name(asdict(row))}, {row.label or row.method}, seed {row.seed}"


def scenario_name(scenario: Mapping[str, Any]) -> str:
    """A readable name: "v2t query mlvp/fog 5"."""
    share = "" if scenario["share"] is None else scenario["share"]
    severity = scenario["severity"] if scenario["mix"] is None else f"{scenario['mix']} {share}".strip()
    caption = f" + {scenario['text_perturbation']} {scenario['text_severity']}" if scenario["text_perturbation"] else ""
    perturbed = f"{scenario['suite']}/{scenario['perturbation']} {severity}{caption}"
    return f"{scenario['direction']} {scenario['side']} {perturbed}"


_DIGITS = 6  # of scores


def retrieved_first(similarities: NDArray[np.number], gallery: Sequence[str], k: int) -> list[str]:
    """The first k items of each query as JSON, [id, score], the best first; a score that is not finite is null."""
    return [
        canonical(
            [[gallery[place], round(float(row[place]), _DIGITS) if np.isfinite(row[place]) else None] for place in own]
        )
        for row, own in zip(similarities, first_places(similarities, k).tolist(), strict=True)
    ]


def read_retrieved(text: str) -> list[tuple[str, float | None]]:
    """The ids and scores that `retrieved_first` gives."""
    return [(str(name), score) for name, score in json.loads(text)]
