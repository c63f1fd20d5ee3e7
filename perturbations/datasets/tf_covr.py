"""TF-CoVR (2025): fine actions of gymnastics and diving; a query has several targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from perturbations.datasets import composed_table
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.listing import Collector, ComposedEntry
from perturbations.datasets.parsing import table

_COLUMNS = composed_table.QueryColumns(source="query_video", targets="target_videos_ids", instruction="modification")
_TARGET = "target_video"


class TfCovr(composed_table.ComposedTable):
    """The keys of `config.yaml`, with that of repeated targets."""

    variant: Literal["released", "paper"] = Field(
        "released",
        description="tf_covr: the gallery has an entry per row (released), or per clip (paper)",
    )


def entries(dataset: Dataset, collector: Collector) -> Iterator[ComposedEntry]:
    """A query per row, whose first target is the one that R@k is of in the authors' code."""
    names = dict.fromkeys(("query_id", _COLUMNS.source, _COLUMNS.targets, _COLUMNS.instruction, _TARGET))
    rows = table(annotations_of(dataset), names)
    firsts = {}

    def with_first() -> Iterator[tuple[int | str, object]]:
        for where, row in rows:
            firsts[where] = row.get(_TARGET) if isinstance(row, dict) else None
            yield where, row

    for entry in composed_table.entries_of(with_first(), _COLUMNS, dataset, collector):
        first = firsts.pop(entry.where)
        yield entry._replace(targets=tuple(dict.fromkeys([*([first] if first else []), *entry.targets])))


def _gallery(dataset: Dataset) -> str:
    return "global_targets" if getattr(dataset, "variant", None) == "paper" else "global_target_rows"


ADAPTER = Adapter(
    name="tf_covr",
    title="TF-CoVR",
    reference="Gupta et al., 2025",
    url="https://github.com/UCF-CRCV/TF-CoVR",
    annotations="test_finegd.csv",
    published="180,000 triplets, 3.9 targets per query",
    settings=TfCovr,
    queries=entries,
    further_files=composed_table.further_files,
    gallery=_gallery,
    read=composed_table.read,
)
