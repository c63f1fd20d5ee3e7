"""Dense-WebVid-CoVR (Thawakar et al., 2025): WebVid-CoVR's videos with long instructions and descriptions."""

from __future__ import annotations

from functools import partial

from perturbations.datasets.adapter_registry import Adapter
from perturbations.datasets.composed_table import ComposedTable, QueryColumns, entries_by, read

_COLUMNS = QueryColumns(source="pth1", targets="pth2", instruction="edit", source_caption="txt1")

ADAPTER = Adapter(
    name="dense_webvid_covr",
    title="Dense-WebVid-CoVR",
    reference="Thawakar et al., ICCV 2025",
    url="https://github.com/OmkarThawakar/BSE-CoVR",
    annotations="dense-webvid8m-covr_test.csv",
    published="2,556 queries, instructions of 31 words on average",
    settings=ComposedTable,
    queries=partial(entries_by, _COLUMNS),
    extensions=(".mp4",),
    gallery="global_targets",
    read=read,
)
