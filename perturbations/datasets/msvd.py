"""MSVD (Chen and Dolan, 2011)."""

from __future__ import annotations

from perturbations.base.storage import nfc
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.listing import Collector, Item
from perturbations.datasets.parsing import lines, whole_json


def read(dataset: Dataset, collector: Collector) -> None:
    """All captions of all videos, and the ids of the split."""
    described = whole_json(annotations_of(dataset), dict, "an object {video: [captions]}")
    captions_of = {nfc(video): texts for video, texts in described.items()}
    assert dataset.ids is not None
    collector.place = dataset.ids  # the entries are the lines of this file
    for number, item_id in lines(dataset.ids):
        texts = captions_of.get(nfc(item_id))
        texts = [texts] if isinstance(texts, str) else texts
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            collector.reject(number, item_id, f"no list of captions in {annotations_of(dataset).name}")
            continue
        chosen = tuple(text.strip() for text in (texts if dataset.captions == "all" else texts[:1]))
        collector.add(Item(item_id, item_id, (f"{item_id}.avi",), chosen, where=number))


ADAPTER = Adapter(
    name="msvd",
    title="MSVD",
    reference="Chen and Dolan, ACL 2011",
    url="https://www.cs.utexas.edu/~ml/clamp/videoDescription/",
    annotations="captions_msvd.json, and the ids in test_list.txt",
    published="670 clips, one caption each or all 27,763",
    needs=("annotations", "videos", "ids"),
    takes=("ids", "captions"),
    read=read,
)
