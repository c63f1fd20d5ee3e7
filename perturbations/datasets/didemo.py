"""DiDeMo (Hendricks et al., 2017), one paragraph per video."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

from perturbations.annotations.listing import VIDEO_EXTENSIONS, Collector, Item, Place
from perturbations.annotations.readers import checked, whole_json
from perturbations.datasets.registry import Adapter, Dataset, annotations_of


def read(dataset: Dataset, collector: Collector) -> None:
    """A video's descriptions, joined in the file's order, are its paragraph. Ids are file names without extension.

    The 1,037 names of the test file have 1,004 stems: 33 videos are listed under two names, such as `x.mov` and `x.mp4`
    (31 names end in a bare dot). Those keep their full name as id, and never use the file of the other name: a folder
    with one file per stem has 1,004 of the items, as many as the papers evaluate, and no video twice.
    """
    entries = whole_json(annotations_of(dataset), list, "a list of {video, description}")
    rows: Iterable[tuple[Place, object]] = ((f"entry {number}", entry) for number, entry in enumerate(entries))
    texts: dict[str, list[str]] = {}
    for where, row in checked(collector, rows, "video", ("video", "description")):
        if row["video"]:
            texts.setdefault(row["video"], []).append(row["description"].strip())
        else:
            collector.reject(where, "", "the video's name is empty")
    stems = Counter(os.path.splitext(video)[0] for video in texts)
    for video, descriptions in texts.items():
        stem = os.path.splitext(video)[0]
        item_id = stem if stems[stem] == 1 else video
        files = (video, *(stem + extension for extension in VIDEO_EXTENSIONS if stem + extension not in texts))
        paragraph = " ".join(text for text in descriptions if text)
        collector.add(Item(item_id, video, files, (paragraph,), where=f"video {video}"))


ADAPTER = Adapter(
    name="didemo",
    title="DiDeMo",
    reference="Hendricks et al., ICCV 2017",
    annotations="test_data.json",
    published="1,004 videos with one paragraph each",
    read=read,
)
