"""MSR-VTT (Xu et al., 2016), as JSFusion splits it."""

from __future__ import annotations

from perturbations.base.errors import short
from perturbations.datasets import folder
from perturbations.datasets.adapter_registry import Adapter, ColumnsSection, Dataset, annotations_of, split_of
from perturbations.datasets.fields import checked
from perturbations.datasets.listing import VIDEO_EXTENSIONS, Collector, Item
from perturbations.datasets.parsing import json_rows, table


def read(dataset: Dataset, collector: Collector) -> None:
    """JSFusion's 1k-A, with one caption per video; or a split of the official JSON, with all of them."""
    path = annotations_of(dataset)
    if _is_official(dataset):
        columns = ColumnsSection(item_id="video_id")
        rows = json_rows(path, split_of(dataset), columns.item_id, [columns.caption])
        folder.add_rows(rows, columns, VIDEO_EXTENSIONS, collector)
        return
    caption_ids: set[str] = set()
    names = ("key", "video_id", "sentence")
    for where, row in checked(collector, table(path, names), names, caption="sentence", item_id="video_id"):
        item_id, key = row["video_id"], row["key"]
        item = Item(item_id, item_id, (f"{item_id}.mp4",), (row["sentence"].strip(),), caption_key=key, where=where)
        if item.caption_id(0) in caption_ids and item_id not in collector.items:
            collector.reject(where, item_id, f"duplicate caption id {short(item.caption_id(0))}")
        elif collector.add(item):
            caption_ids.add(item.caption_id(0))


def _is_official(dataset: Dataset) -> bool:
    return dataset.annotations is not None and dataset.annotations.suffix.lower() == ".json"


ADAPTER = Adapter(
    name="msrvtt",
    title="MSR-VTT",
    reference="Xu et al., CVPR 2016; the split 1k-A of JSFusion (Yu et al., ECCV 2018)",
    url="https://openaccess.thecvf.com/content_cvpr_2016/html/Xu_MSR-VTT_A_Large_CVPR_2016_paper.html",
    annotations="MSRVTT_JSFUSION_test.csv, or the official test_videodatainfo.json and train_val_videodatainfo.json",
    published="1,000 clips with one caption each",
    split=lambda dataset: "test" if _is_official(dataset) else "1k-A",
    read=read,
)
