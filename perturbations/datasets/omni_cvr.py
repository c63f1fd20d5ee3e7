"""OmniCVR (2026): an instruction about what is seen or heard, and 2,000 candidates for each query."""

from __future__ import annotations

from functools import partial

from perturbations.datasets.adapter_registry import Adapter
from perturbations.datasets.composed_table import ComposedTable, QueryColumns, entries_by, read

_COLUMNS = QueryColumns(source="source_id", targets="target_id", gallery="candidates")

ADAPTER = Adapter(
    name="omni_cvr",
    title="OmniCVR",
    reference="ICLR 2026",
    url="https://huggingface.co/datasets/Jun-Yang/OmniCVR",
    annotations="omnicvr.jsonl",
    published="5,000 queries of 2,000 candidates each, 16,316 clips",
    settings=ComposedTable,
    queries=partial(entries_by, _COLUMNS),
    source_in_gallery=True,
    read=read,
)
