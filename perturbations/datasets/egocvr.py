"""EgoCVR (Hummel, Karthik et al., 2024): a clip and an instruction ask for other clips of a long egocentric video."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of, pool_of
from perturbations.datasets.fields import checked
from perturbations.datasets.listing import Collector, Item
from perturbations.datasets.parsing import table

_POOL = "egocvr_data.csv"
"""The table of all clips, beside the annotations."""


class EgoCvr(Dataset):
    """The keys of `config.yaml`, with that of the pool."""

    pool: Path | None = Field(
        None, description=f"egocvr: the table of all clips; the default is {_POOL} beside the annotations"
    )


def clips_table_of(dataset: Dataset) -> Path:
    """The table of all clips."""
    return pool_of(dataset) or annotations_of(dataset).with_name(_POOL)


def read(dataset: Dataset, collector: Collector) -> None:
    """The clips of the pool, each name once: `<video_uid>/<clip_name>.mp4` below the videos.

    A name that repeats is a clip that is a distractor of several targets. With another narration, it is another
    caption of the clip.
    """
    collector.place = clips_table_of(dataset)
    texts = ("clip_name", "narration_text", "video_uid")
    narrations: dict[str, set[str]] = {}
    rows = table(collector.place, texts)
    for where, row in checked(collector, rows, texts, caption="narration_text"):
        name, video, narration = row["clip_name"], row["video_uid"], row["narration_text"].strip()
        first = collector.items.get(name)
        if name and not video:
            collector.reject(where, name, "the long video's id is empty")
        elif first is None:
            collector.add(Item(name, video, (f"{video}/{name}.mp4",), (narration,), where=where))
            narrations[name] = {narration}
        elif first.source_video_id != video:
            collector.reject(where, name, f"is of another long video than the same name in line {first.where}")
        elif narration not in narrations[name]:
            collector.add_caption(first, narration, where)
            narrations[name].add(narration)


ADAPTER = Adapter(
    name="egocvr",
    title="EgoCVR",
    reference="Hummel, Karthik et al., ECCV 2024",
    url="https://github.com/ExplainableML/EgoCVR",
    annotations="egocvr_annotations.csv or egocvr_annotations_gallery.csv, and egocvr_data.csv",
    published="2,295 queries; 10,666 clips of 624 long videos in 12,526 rows",
    settings=EgoCvr,
    further_files=lambda dataset: (clips_table_of(dataset),),
    gender=False,
    read=read,
)
