"""OmniCVR (2026): an instruction about what is seen or heard, and 2,000 candidates for each query."""

from __future__ import annotations

from collections.abc import Iterator

from perturbations.datasets import composed_table
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.listing import Collector, ComposedEntry
from perturbations.datasets.parsing import json_lines

_COLUMNS = composed_table.QueryColumns(source="source_id", targets="target_id", gallery="candidates")


def _stem(name: str) -> str:
    return name.removesuffix(".mp4")


def entries(dataset: Dataset, collector: Collector) -> Iterator[ComposedEntry]:
    """A query per line; ids have the ending `.mp4` in some of the fields."""
    return composed_table.entries_of(json_lines(annotations_of(dataset)), _COLUMNS, dataset, collector, clip_of=_stem)


ADAPTER = Adapter(
    name="omni_cvr",
    title="OmniCVR",
    reference="ICLR 2026",
    url="https://huggingface.co/datasets/Jun-Yang/OmniCVR",
    annotations="omnicvr.jsonl",
    published="5,000 queries of 2,000 candidates each, 16,316 clips",
    settings=composed_table.ComposedTable,
    queries=entries,
    further_files=composed_table.further_files,
    source_in_gallery=True,
    read=composed_table.read,
)
