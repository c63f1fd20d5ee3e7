"""Ranks of all runs as matrices, read by columns from `ranks` manifests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pandas.api.types import union_categoricals

from perturbations.base.errors import ManifestError
from perturbations.evaluation.page.names import groups, setting_of
from perturbations.evaluation.rows import RANKS, ScenarioKey
from perturbations.manifest import files, parquet

_MOST = 255
"""Larger ranks are stored as this one: no recall of the page looks further than the first 10."""

RankGroup = tuple[str, str, str]
"""Dataset, model's key, direction: runs that ask the same queries of one model."""


RankRun = tuple[ScenarioKey, str, int]
"""Scenario, method's setting (`setting_of`), seed."""

_Part = tuple[list[RankRun], NDArray[np.integer], pd.DataFrame]
"""Of a file the runs of a group, and of each of their rows the place of its run, its query and its rank."""

_GROUP = ["dataset", "model_key", "direction"]
_RUN = [*ScenarioKey._fields, "method", "label", "seed"]


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
    parts: defaultdict[RankGroup, list[_Part]] = defaultdict(list)
    for path in paths:
        for (dataset, model_key, direction), rows in groups(_rows(path), *_GROUP):
            places = rows.groupby(_RUN, sort=False, dropna=False, observed=True).ngroup().to_numpy(np.int32)
            firsts = rows.iloc[np.unique(places, return_index=True)[1]].to_dict("records")
            parts[dataset, model_key, direction].append(
                ([run_of(row) for row in firsts], places, rows[["query_id", "rank"]])
            )
    return {group: _matrix(group, own) for group, own in parts.items()}


def _rows(path: Path) -> pd.DataFrame:
    """The rows of a file, whose texts are categories: there are millions of few texts."""
    kind = files.kind_of(path)
    if kind.name != RANKS.name:
        raise ManifestError(f"{path} is a manifest of {kind.name}, not of {RANKS.name}")
    try:
        if problem := parquet.column_problem(RANKS, pq.read_schema(path)):
            raise ValueError(problem)
        words = [*dict.fromkeys((*_GROUP, *_RUN, "query_id", "rank"))]
        stored = pq.ParquetFile(path, read_dictionary=words, page_checksum_verification=True)
        frame: pd.DataFrame = stored.read(words).unify_dictionaries().to_pandas(strings_to_categorical=True)
        if not (frame["rank"] >= 1).all():
            raise ValueError("it holds a rank below 1, or none")
        frame["rank"] = frame["rank"].clip(upper=_MOST).astype(np.uint8)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise ManifestError(f"{path} cannot be read: {error}; delete it and run snakemake again") from error
    return frame


def _matrix(group: RankGroup, parts: Sequence[_Part]) -> Ranked:
    columns = {run: column for column, run in enumerate(dict.fromkeys(run for runs, *_ in parts for run in runs))}
    queries = union_categoricals([rows["query_id"] for *_, rows in parts]).remove_unused_categories()
    ids, places = np.unique(queries.categories.to_numpy(str), return_inverse=True)
    column_of = np.concatenate([np.array([columns[run] for run in runs])[own] for runs, own, _ in parts])
    matrix = np.zeros((len(ids), len(columns)), np.uint8)
    matrix[places[queries.codes], column_of] = pd.concat([rows["rank"] for *_, rows in parts])
    if np.count_nonzero(matrix) != len(queries):
        raise ManifestError(f"the ranks of {', '.join(group)} hold a query of a run twice: give each manifest once")
    clips = pd.factorize(np.array([_clip_of(name) if group[2] == "t2v" else name for name in ids.tolist()], object))[0]
    return Ranked(columns, matrix, clips)


def _clip_of(query: str) -> str:
    """The clip of a caption, whose id is the clip's and a number where a clip may have several."""
    clip, _, number = query.rpartition("#")
    return clip if clip and number.isdecimal() else query
