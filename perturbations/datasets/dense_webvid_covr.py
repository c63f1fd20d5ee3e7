"""Dense-WebVid-CoVR (Thawakar et al., 2025): WebVid-CoVR's videos with long instructions and descriptions."""

from __future__ import annotations

from collections.abc import Iterator

from perturbations.datasets import composed_table
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.listing import Collector, ComposedEntry
from perturbations.datasets.parsing import table

_COLUMNS = composed_table.QueryColumns(source="pth1", targets="pth2", instruction="edit", source_caption="txt1")


def entries(dataset: Dataset, collector: Collector) -> Iterator[ComposedEntry]:
    """A query per row of the CSV; `txt1` describes the query's video."""
    return composed_table.entries_of(table(annotations_of(dataset), _COLUMNS.required), _COLUMNS, dataset, collector)


ADAPTER = Adapter(
    name="dense_webvid_covr",
    title="Dense-WebVid-CoVR",
    reference="Thawakar et al., ICCV 2025",
    url="https://github.com/OmkarThawakar/BSE-CoVR",
    annotations="dense-webvid8m-covr_test.csv",
    published="2,556 queries, instructions of 31 words on average",
    settings=composed_table.ComposedTable,
    queries=entries,
    further_files=composed_table.further_files,
    extensions=(".mp4",),
    gallery="global_targets",
    read=composed_table.read,
)
