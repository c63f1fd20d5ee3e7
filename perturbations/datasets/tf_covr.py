"""TF-CoVR (2025): fine actions of gymnastics and diving; a query has several targets."""

from __future__ import annotations

from functools import partial
from typing import Literal

from pydantic import Field

from perturbations.datasets.adapter_registry import Adapter
from perturbations.datasets.composed_table import ComposedTable, QueryColumns, entries_by, read

_COLUMNS = QueryColumns(source="query_video", targets="target_videos_ids", instruction="modification")
_FIRST = "target_video"
"""The column of the target that R@k is of in the authors' code."""


class TfCovr(ComposedTable):
    """The keys of `config.yaml`, with that of repeated targets."""

    variant: Literal["released", "paper"] = Field(
        "released",
        description="tf_covr: the gallery has an entry per row (released), or per clip (paper)",
    )


ADAPTER = Adapter(
    name="tf_covr",
    title="TF-CoVR",
    reference="Gupta et al., 2025",
    url="https://github.com/UCF-CRCV/TF-CoVR",
    annotations="test_finegd.csv",
    published="180,000 triplets, 3.9 targets per query",
    settings=TfCovr,
    queries=partial(entries_by, _COLUMNS, others=["query_id", _FIRST], first_target=_FIRST, ids_repeat=True),
    gallery=lambda dataset: "global_targets" if dataset.variant == "paper" else "global_target_rows",
    read=read,
)
