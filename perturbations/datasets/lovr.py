"""LoVR (Cai et al., 2025): the scenes of long videos, or the whole videos, with long captions."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field

from perturbations.base.settings import MOST_ITEMS, Whole
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.fields import checked
from perturbations.datasets.listing import Collector, Item
from perturbations.datasets.parsing import json_lines


class Lovr(Dataset):
    """The keys of `config.yaml`, with what an item is."""

    items: Literal["clips", "videos"] = Field(
        "clips",
        description="lovr: the clips of all_clip.jsonl, or of all_video.jsonl whole videos, where `<vid>.mp4` is a "
        "video's clips joined in the order of their numbers",
    )
    captioned: Whole = Field(
        1_000, ge=1, le=MOST_ITEMS, description="lovr: of how many clips, from the first one on, captions are queries"
    )


def read(dataset: Lovr, collector: Collector) -> None:
    """A clip or a video per line. Clips behind the `captioned` ones are in the gallery and have no caption."""
    of_clips = dataset.items == "clips"
    name = "path" if of_clips else "vid"
    rows = json_lines(annotations_of(dataset))
    for where, row in checked(collector, rows, (name, "cap"), caption="cap"):
        path = PurePosixPath(row[name])
        of_name = path.stem.rpartition("-Scene-")[0]
        item_id, video = (path.stem, path.parent.name or of_name) if of_clips else (row[name], row[name])
        names = (str(PurePosixPath(video, path.name)), path.name) if of_clips else (f"{video}.mp4",)
        texts = (row["cap"].strip(),) if int(where) <= dataset.captioned or not of_clips else ()
        collector.add(Item(item_id, item_id, names, texts, where=where))


ADAPTER = Adapter(
    name="lovr",
    title="LoVR",
    reference="Cai et al., 2025",
    url="https://huggingface.co/datasets/debugger123/LoVR-benchmark",
    annotations="caption_data/all_clip.jsonl, or all_video.jsonl",
    published="40,804 clips of 467 videos; the captions of the first 1,000 clips are queries",
    settings=Lovr,
    read=read,
)
