"""CaReBench (Xu et al., 2025): long captions of 228 words, and of each clip what is in it and what happens."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.fields import checked
from perturbations.datasets.listing import Collector, Item, without_ending
from perturbations.datasets.parsing import json_list

_COLUMNS = {"caption": "caption", "spatial": "spatial_caption", "temporal": "temporal_caption"}


class CareBench(Dataset):
    """The keys of `config.yaml`, with the kinds of captions."""

    captions: Literal["caption", "spatial", "temporal"] = Field(  # type: ignore[assignment]
        "caption", description="carebench: the whole caption, its spatial part, or its temporal part"
    )


def read(dataset: CareBench, collector: Collector) -> None:
    """A clip per entry of the list; `video` is the name of its file."""
    caption = _COLUMNS[dataset.captions]
    rows = json_list(annotations_of(dataset), "a list of objects")
    for where, row in checked(collector, rows, ("video", caption), caption=caption):
        item_id = without_ending(row["video"])
        collector.add(Item(item_id, item_id, (row["video"],), (row[caption].strip(),), where=where))


ADAPTER = Adapter(
    name="carebench",
    title="CaReBench",
    reference="Xu et al., 2025",
    url="https://huggingface.co/datasets/MCG-NJU/CaReBench",
    annotations="json/metadata.json",
    published="1,000 clips with three long captions each",
    takes=("captions",),
    settings=CareBench,
    read=read,
)
