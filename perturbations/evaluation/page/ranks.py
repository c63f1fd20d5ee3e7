"""Ranks of all runs as matrices, read by columns from `ranks` manifests, a million rows at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from perturbations.base.errors import ManifestError
from perturbations.evaluation.page.names import setting_of
from perturbations.evaluation.rows import RANKS, ScenarioKey
from perturbations.manifest import files, parquet

_MOST = 255
"""Larger ranks are stored as this one: no recall of the page looks further than the first 10."""

_ROWS = 1 << 20

RankGroup = tuple[str, str, str]
"""Dataset, model's key, direction: runs that ask the same queries of one model."""


RankRun = tuple[ScenarioKey, str, int]
"""Scenario, method's setting (`setting_of`), seed."""

_GROUP = ("dataset", "model_key", "direction")
_RUN = (*ScenarioKey._fields, "method", "label", "seed")


@dataclass(frozen=True)
class Ranked:
    """The column of each run of a group, and ranks of queries (sorted by id) x runs: 0 where a query is missing.

    `clips` numbers the clip of each query from 0: the captions of one clip are no independent queries.
    """

    runs: Mapping[RankRun, int]
    ranks: NDArray[np.uint8]
    clips: NDArray[np.int64]


def run_of(row: Mapping[Any, Any]) -> RankRun:
    """The run of a row of results, whose empty cells a DataFrame may hold as NaN."""
    known: dict[str, Any] = {name: None if row[name] != row[name] else row[name] for name in _RUN}
    for name in ("severity", "text_severity"):
        known[name] = None if known[name] is None else int(known[name])
    setting, seed = setting_of(known.pop("method"), known.pop("label")), known.pop("seed")
    return ScenarioKey(**known), setting, int(seed)


def read(paths: Sequence[Path]) -> dict[RankGroup, Ranked]:
    """The ranks of manifests, by group.

    The result does not depend on the order of files and rows. Raises `ManifestError` for a file that is not such a
    manifest or is damaged, and where a run has a query twice.
    """
    runs, queries = (defaultdict[Any, int](count().__next__) for _ in range(2))  # numbered as they come
    parts: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]] = []
    for path in paths:
        kind = files.kind_of(path)
        if kind.name != RANKS.name:
            raise ManifestError(f"{path} is a manifest of {kind.name}, not of {RANKS.name}")
        try:
            schema = pq.read_schema(path)
            if problem := parquet.column_problem(RANKS, schema):
                raise ValueError(problem)
            words = [*dict.fromkeys((*_GROUP, *_RUN, "query_id"))]
            stored = pq.ParquetFile(path, read_dictionary=words, page_checksum_verification=True)
            for batch in stored.iter_batches(_ROWS):
                table = pa.Table.from_batches([batch])
                parts.append(_numbered(table.to_pandas(strings_to_categorical=True), runs, queries))
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise ManifestError(f"{path} cannot be read: {error}; delete it and run snakemake again") from error
    return _matrices(parts, list(runs), list(queries))


def _clip_of(query: str) -> str:
    """The clip of a caption, whose id is the clip's and a number where a clip may have several."""
    clip, _, number = query.rpartition("#")
    return clip if clip and number.isdecimal() else query


def _numbered(
    frame: pd.DataFrame, runs: defaultdict[Any, int], queries: defaultdict[Any, int]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]:
    """The numbers of each row's run and query, and its rank."""
    if not (frame["rank"] >= 1).all():
        raise ValueError("it holds a rank below 1, or none")
    places = frame.groupby([*_GROUP, *_RUN], sort=False, dropna=False, observed=True).ngroup().to_numpy()
    firsts = frame.iloc[np.unique(places, return_index=True)[1]].to_dict("records")
    numbers = [runs[tuple(str(row[name]) for name in _GROUP), run_of(row)] for row in firsts]
    query_places, ids = pd.factorize(frame["query_id"])
    query_numbers = [queries[query] for query in ids]
    return (
        np.array(numbers, np.int32)[places],
        np.array(query_numbers, np.int32)[query_places],
        frame["rank"].clip(upper=_MOST).to_numpy(np.uint8),
    )


def _matrices(
    parts: Sequence[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]],
    runs: Sequence[tuple[RankGroup, RankRun]],
    queries: Sequence[str],
) -> dict[RankGroup, Ranked]:
    groups: dict[RankGroup, list[int]] = {}
    for number, (group, _) in enumerate(runs):
        groups.setdefault(group, []).append(number)
    result = {}
    ordered = sorted(queries)
    alphabetic = np.argsort(np.argsort(np.array(queries, str)))
    for group, members in groups.items():
        column_of = np.full(len(runs), -1, np.int64)
        column_of[members] = np.arange(len(members))
        own = [(column_of[run], alphabetic[query], rank) for run, query, rank in parts]
        rows = [(column[column >= 0], query[column >= 0], rank[column >= 0]) for column, query, rank in own]
        columns, query_numbers, ranks = (np.concatenate(values) for values in zip(*rows, strict=True))
        present, places = np.unique(query_numbers, return_inverse=True)
        matrix = np.zeros((len(present), len(members)), np.uint8)
        matrix[places, columns] = ranks
        if np.count_nonzero(matrix) != len(ranks):
            raise ManifestError(f"the ranks of {', '.join(group)} hold a query of a run twice: give each manifest once")
        ids = (ordered[query] for query in present)
        clips = pd.factorize(np.array([_clip_of(name) if group[2] == "t2v" else name for name in ids], object))[0]
        result[group] = Ranked({runs[number][1]: column for column, number in enumerate(members)}, matrix, clips)
    return result
