"""MSR-VTT (Xu et al., 2016), as JSFusion splits it."""

from __future__ import annotations

from perturbations.datasets.listing import Collector, Item
from perturbations.datasets.parsing import checked, table
from perturbations.datasets.registry import Adapter, Dataset, annotations_of


def read(dataset: Dataset, collector: Collector) -> None:
    """JSFusion's 1k-A: one caption per video."""
    columns = ("key", "video_id", "sentence")
    for where, row in checked(
        collector, table(annotations_of(dataset), columns), "video_id", columns, caption="sentence"
    ):
        item_id, text = row["video_id"], row["sentence"].strip()
        collector.add(Item(item_id, item_id, (f"{item_id}.mp4",), (text,), caption_key=row["key"], where=where))


ADAPTER = Adapter(
    name="msrvtt",
    title="MSR-VTT",
    reference="Xu et al., CVPR 2016; the split 1k-A of JSFusion (Yu et al., ECCV 2018)",
    url="https://openaccess.thecvf.com/content_cvpr_2016/html/Xu_MSR-VTT_A_Large_CVPR_2016_paper.html",
    annotations="MSRVTT_JSFUSION_test.csv",
    published="1,000 clips with one caption each",
    split="1k-A",
    read=read,
)
