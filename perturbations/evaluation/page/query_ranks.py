"""The ranks of queries: read from manifests, and drawn again for intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from perturbations.base import rng
from perturbations.base.errors import ManifestError
from perturbations.evaluation.page.displayed_names import groups, setting_of
from perturbations.evaluation.result_rows import RANKS, ScenarioKey
from perturbations.manifest import files
from perturbations.retrieval.bootstrap import draws, samples_for

_SEED = 0  # of the resamples; a single seed, so that models of one dataset are compared on the same draws
_MOST = 255
"""Larger ranks are stored as this rank: no recall of the page looks further than the first 10."""

RankRun = tuple[ScenarioKey, str, int]
"""Scenario, method's setting (`setting_of`), seed."""

RankGroup = tuple[str, ...]
"""Dataset, model's key, direction: runs that ask the same queries of one model."""

GROUP = ["dataset", "model_key", "direction"]
"""The columns of a `RankGroup`."""
RUN = [*ScenarioKey._fields, "method", "label", "seed"]
"""The columns that `run_of` reads."""


def run_of(row: Mapping[Any, Any]) -> RankRun:
    """The run of a row of results or ranks, whose empty cells a DataFrame may hold as NaN."""
    known: dict[str, Any] = {name: None if row[name] != row[name] else row[name] for name in RUN}
    for name in ("severity", "text_severity"):
        known[name] = None if known[name] is None else int(known[name])
    setting, seed = setting_of(known.pop("method"), known.pop("label")), known.pop("seed")
    return ScenarioKey(**known), setting, int(seed)


def read_ranks(paths: Sequence[Path]) -> dict[RankGroup, pd.DataFrame]:
    """The ranks of manifests, by group: uint8, queries (sorted by id) x runs, 0 where a run has no such query.

    The result does not depend on the order of rows. Raises `ManifestError` for a file that is not such a manifest or is
    damaged, and where a run has a query twice.
    """
    known: dict[RankGroup, pd.DataFrame] = {}
    for path in paths:
        for group, rows in groups(_rank_rows(path), *GROUP):
            runs = rows.groupby(RUN, sort=False, dropna=False, observed=True)
            queries = rows["query_id"].cat.remove_unused_categories().cat
            own = np.zeros((len(queries.categories), runs.ngroups), np.uint8)
            own[queries.codes, runs.ngroup()] = rows["rank"]
            if group in known or np.count_nonzero(own) < len(rows):
                raise ManifestError(f"the ranks of {', '.join(group)} are there twice: give each manifest once")
            columns: Any = pd.Index([*map(run_of, runs.head(1).to_dict("records"))], tupleize_cols=False)
            known[group] = pd.DataFrame(own, queries.categories.astype(str), columns).sort_index()
    return known


def _rank_rows(path: Path) -> pd.DataFrame:
    """The rows of a file, with texts as categories: millions of rows share few texts."""
    with files.open_manifest(path, RANKS):
        words = [*dict.fromkeys((*GROUP, *RUN, "query_id", "rank"))]
        stored = pq.ParquetFile(path, read_dictionary=words, page_checksum_verification=True)
        frame: pd.DataFrame = stored.read(words).unify_dictionaries().to_pandas(strings_to_categorical=True)
        if not (frame["rank"] >= 1).all():
            raise ValueError("it holds a rank below 1, or none")
        return frame.assign(rank=frame["rank"].clip(upper=_MOST).astype(np.uint8))


def _clip_of(query: str) -> str:
    """The clip of a caption: the caption's id without the number that tells a clip's captions apart."""
    clip, _, place = query.rpartition("#")
    return clip if clip and place.isdecimal() else query


class QueryDraws:
    """The queries of all models of a dataset in one direction, by id, and how often each resample draws each query.

    A query that a model does not have is drawn all the same, so the differences between models stay paired. There are
    enough resamples to find a significantly best value among `rows` rows of a table.
    """

    def __init__(self, dataset: str, direction: str, ranks: Sequence[pd.DataFrame], rows: int) -> None:
        self._dataset, self._direction, self._samples = dataset, direction, samples_for(rows)
        self.queries: pd.Index = reduce(pd.Index.union, [own.index for own in ranks] or [pd.Index([])])
        # The captions of one clip are no independent queries.
        self.clips = pd.factorize(self.queries.map(_clip_of) if direction == "t2v" else self.queries)[0]

    @cached_property
    def counts(self) -> NDArray[np.float32]:
        """Resamples x queries."""
        generator = rng.generator(_SEED, self._dataset, self._direction, "report/bootstrap")
        return draws(len(self.queries), generator, self._samples, self.clips)
