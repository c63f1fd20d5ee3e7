"""Results of many models in one table: which rows may share a table, and the clean counterpart of each row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perturbations import retrieval
from perturbations.base.errors import ManifestError
from perturbations.evaluation.plan.planned_runs import category_of
from perturbations.evaluation.result_rows import (
    CLEAN_SCENARIO,
    FEATURES,
    Finished,
    RankRow,
    ResultRow,
    Run,
    key_of,
)
from perturbations.retrieval.metrics import retrieved_first
from perturbations.tta.methods import method_registry as methods

RECALLS = (1, 5, 10)
"""The k of the columns `clean_recall_at_<k>`."""

RANDOM = "random"
"""The method of rows that show chance: the exact recall of galleries in random order, without ranks."""


def result_of_ranks(
    run: Run,
    query_ids: Sequence[str],
    ranks: NDArray[np.int64],
    first: Sequence[str | None] | None = None,
    **columns: Any,
) -> Finished:
    """The results of a run from the ranks of its queries: integers from 1, (queries,).

    `first` is what each query retrieved first, where that is kept; `columns` are further columns of the row.
    """
    columns = {"queries": len(query_ids), **retrieval.summary_of_ranks(ranks), **columns}
    row = ResultRow(**run.columns(), **columns, category=category_of(run))
    return row, (query_ids, ranks.tolist(), [None] * len(ranks) if first is None else first)


Blocks = Iterable[tuple[slice, NDArray[Any]]]
"""Rows of a matrix of scores, queries x items, part by part."""


def result_of_scores(
    run: Run,
    query_ids: Sequence[str],
    item_ids: Sequence[str],
    blocks: Blocks,
    relevant: Sequence[Sequence[int]],
    top_k: int | None = None,
    *,
    has_hubs: bool = True,
    **columns: Any,
) -> Finished:
    """The results of a run from scores: ranks, hubs where a gallery `has_hubs`, and the `top_k` items of each query.

    `relevant` are the places of each query's targets. Raises `ValueError` as `retrieval.ranks` does.
    """
    ranks, counts = [], []
    first: list[str | None] = []
    for part, scores in blocks:
        ranks.append(retrieval.ranks(scores, relevant[part]))
        counts.append(retrieval.k_occurrence(scores))
        first += [None] * len(scores) if top_k is None else retrieved_first(scores, item_ids, top_k)
    hubness = retrieval.hubness_of(np.sum(counts, axis=0)) if has_hubs else {}
    figures: dict[str, Any] = {f"hub_{name.removeprefix('hub_')}": float(value) for name, value in hubness.items()}
    return result_of_ranks(
        run, query_ids, np.concatenate(ranks), first, **{"gallery": len(item_ids), **figures, **columns}
    )


_NAMED = "; features of several models have names: `perturb score --model NAME`"


def check(rows: Iterable[ResultRow]) -> None:
    """Refuse rows whose means would mix models.

    Raises `ManifestError` when a run (dataset, model, scenario, method, seed) has two rows, or when the rows of one
    model on one dataset have different weights, or in one direction different settings.
    """
    runs: set[Run] = set()
    weights: dict[tuple[str, str], str] = {}
    settings: dict[tuple[str, str, str], str] = {}
    for row in rows:
        run = key_of(row)
        if run in runs:
            method = row.label or methods.title_of(row.method)
            name = f"{row.dataset}, {row.model_key}, {scenario_name(row)}, {method}, seed {row.seed}"
            way_out = _NAMED if row.setting == FEATURES else ""
            raise ManifestError(
                f"the results hold the run {name} twice: give each manifest of results once, and of a dataset "
                f"and model either the adaptation or the evaluation{way_out}"
            )
        runs.add(run)
        model = row.dataset, row.model_key
        same_weights = weights.setdefault(model, row.checkpoint_sha256) == row.checkpoint_sha256
        # Given features have banks of their own in each direction.
        if not same_weights or settings.setdefault((*model, row.direction), row.settings) != row.settings:
            what = "settings" if same_weights else "weights"
            way_out = _NAMED if row.setting == FEATURES else ": delete them and run snakemake again"
            raise ManifestError(
                f"the results of {row.model_key} on {row.dataset} have different {what}, so their means would mix "
                f"models{way_out}"
            )


def with_clean(rows: Sequence[ResultRow], ranks: Iterable[RankRow]) -> list[ResultRow]:
    """The rows with `clean_recall_at_<k>`: the clean result of the same method and seed over the same queries.

    The columns stay empty where the clean run is missing, or lacks a query. The `ranks` of these runs are read once,
    and only where a run has fewer queries than its clean counterpart.
    """
    clean = {key_of(row): row for row in rows if row.suite == "clean"}
    pairs = [(row, clean.get(_clean_key(row))) for row in rows]
    differ = {key_of(run) for row, own in pairs if own and own.queries != row.queries for run in (row, own)}
    places: dict[Run, dict[str, int]] = defaultdict(dict)
    for rank in ranks if differ else ():
        if (key := key_of(rank)) in differ:
            places[key][rank.query_id] = rank.rank
    return [row if own is None else _with_clean(row, own, places) for row, own in pairs]


def _clean_key(row: Run) -> Run:
    unperturbed: dict[str, Any] = CLEAN_SCENARIO._asdict()
    return replace(key_of(row), **unperturbed)


def _with_clean(row: ResultRow, clean: ResultRow, places: Mapping[Run, Mapping[str, int]]) -> ResultRow:
    recalls = [clean.recall_at_1, clean.recall_at_5, clean.recall_at_10]
    if clean.queries != row.queries:
        asked, known = places.get(key_of(row), {}), places.get(key_of(clean), {})
        if not asked or not known.keys() >= asked.keys():
            return row
        recalls = [100 * sum(known[query] <= k for query in asked) / len(asked) for k in RECALLS]
    first, fifth, tenth = recalls
    return replace(row, clean_recall_at_1=first, clean_recall_at_5=fifth, clean_recall_at_10=tenth)


def scenario_name(run: Run) -> str:
    """A readable name: "v2t query mlvp/fog 5"."""
    severity = run.severity if run.mix is None else " ".join(str(part) for part in (run.mix, run.share) if part)
    caption = f" + {run.text_perturbation} {run.text_severity}" if run.text_perturbation else ""
    return f"{run.direction} {run.side} {run.suite}/{run.perturbation} {severity}{caption}"
