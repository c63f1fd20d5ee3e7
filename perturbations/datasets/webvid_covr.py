"""WebVid-CoVR (Ventura et al., 2024): a video and an instruction ask for another video."""

from __future__ import annotations

from functools import partial

from perturbations.datasets.adapter_registry import Adapter
from perturbations.datasets.composed_table import QueryColumns, entries_by, read

COLUMNS = QueryColumns(source="pth1", targets="pth2", instruction="edit", source_caption="txt1", target_caption="txt2")

ADAPTER = Adapter(
    name="webvid_covr",
    title="WebVid-CoVR-Test",
    reference="Ventura et al., AAAI 2024",
    url="https://github.com/lucas-ventura/CoVR",
    annotations="webvid8m-covr_test.csv",
    published="2,556 queries",
    queries=partial(entries_by, COLUMNS),
    extensions=(".mp4",),
    gallery="global_targets",
    read=read,
)
