"""ActivityNet Captions (Krishna et al., 2017), one paragraph per video."""

from __future__ import annotations

from perturbations.annotations.listing import Collector, Item
from perturbations.annotations.readers import checked, json_lines
from perturbations.datasets.registry import Adapter, Dataset, annotations_of


def read(dataset: Dataset, collector: Collector) -> None:
    """One paragraph per clip."""
    rows = json_lines(annotations_of(dataset))
    for where, row in checked(collector, rows, "clip_id", ("clip_id", "text")):
        item_id = row["clip_id"]
        collector.add(Item(item_id, item_id, (f"{item_id}.mp4",), (row["text"].strip(),), where=where))


ADAPTER = Adapter(
    name="activitynet",
    title="ActivityNet Captions",
    reference="Krishna et al., ICCV 2017",
    annotations="val1_anno.jsonl",
    published="4,917 videos with one paragraph each",
    split="val1",
    read=read,
)
