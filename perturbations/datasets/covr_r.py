"""CoVR-R (2026): instructions whose consequences must be reasoned about, on clips of WebVid and Something-Something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from perturbations.datasets.adapter_registry import Adapter, ComposedEntry, Dataset, annotations_of
from perturbations.datasets.composed_table import ComposedTable, QueryColumns, entries_of, read
from perturbations.datasets.listing import AnnotationPlace, Collector, without_ending
from perturbations.datasets.parsing import numbered, whole_json

_COLUMNS = QueryColumns(
    query_id="id",
    source="video_source",
    targets="video_target",
    instruction="modification_text",
    source_caption="description_source",
    target_caption="description_target",
    modified_caption="reasoned_target_video_description__main",
)


def _stem(path: str) -> str:
    return without_ending(PurePosixPath(path).name)


def entries(dataset: Dataset, collector: Collector) -> Iterator[ComposedEntry]:
    """The queries of both lists. Clips are called by the names of their files, without folder and ending."""
    path = annotations_of(dataset)
    parts = whole_json(path, list, 'a list of objects {"webvid": [...]} and {"ss2": [...]}')
    rows: list[tuple[AnnotationPlace, object]] = []
    for part in parts:
        lists = part if isinstance(part, dict) and all(isinstance(own, list) for own in part.values()) else {"": [part]}
        for name, own in lists.items():
            rows += numbered(f"{name}, entry", own)
    return entries_of(rows, _COLUMNS, dataset, collector, clip_of=_stem, ids_repeat=True)


ADAPTER = Adapter(
    name="covr_r",
    title="CoVR-R",
    reference="CVPR 2026 Findings",
    url="https://github.com/mbzuai-oryx/CoVR-R",
    annotations="merged_webvid_ss2.json",
    published="2,800 queries; mteb has 2,634 of them, and 4,425 clips",
    settings=ComposedTable,
    queries=entries,
    gallery="global_distinct",
    read=read,
)
