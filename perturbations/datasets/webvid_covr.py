"""WebVid-CoVR (Ventura et al., 2024): a video and an instruction ask for another video."""

from __future__ import annotations

from collections.abc import Iterator

from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.composed_table import QueryColumns, entries_of, read
from perturbations.datasets.listing import Collector, ComposedEntry
from perturbations.datasets.parsing import table

COLUMNS = QueryColumns(source="pth1", targets="pth2", instruction="edit", source_caption="txt1", target_caption="txt2")


def entries(dataset: Dataset, collector: Collector) -> Iterator[ComposedEntry]:
    """A query per row of the CSV."""
    collector.place = annotations_of(dataset)
    return entries_of(table(collector.place, COLUMNS.required), COLUMNS, dataset, collector)


ADAPTER = Adapter(
    name="webvid_covr",
    title="WebVid-CoVR-Test",
    reference="Ventura et al., AAAI 2024",
    url="https://github.com/lucas-ventura/CoVR",
    annotations="webvid8m-covr_test.csv",
    published="2,556 queries",
    queries=entries,
    extensions=(".mp4",),
    gallery="global_targets",
    read=read,
)
