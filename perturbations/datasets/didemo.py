"""DiDeMo (Hendricks et al., 2017): one paragraph per video, or its described moments."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container
from pathlib import Path

from pydantic import Field

from perturbations.base.errors import short
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.fields import checked
from perturbations.datasets.listing import VIDEO_EXTENSIONS, Collector, Item
from perturbations.datasets.parsing import Rows, json_list

_SEGMENT_S = 5.0
"""Moments are segments of so many seconds; annotators saw 30 s of each video, six of them."""

_MOST_SEGMENTS = 1_000_000


class Didemo(Dataset):
    """The keys of `config.yaml`, with that of moments."""

    moments: bool = Field(
        False,
        description="didemo: the items are the described moments, not whole videos; composed retrieval needs them",
    )


def read(dataset: Didemo, collector: Collector) -> None:
    """One paragraph per video, or one description per moment."""
    rows = json_list(annotations_of(dataset), "a list of {video, description}")
    if dataset.moments:
        _read_moments(rows, collector)
    else:
        _read_paragraphs(rows, collector, dataset.videos)


def _files(video: str, listed: Container[str]) -> tuple[str, ...]:
    """The names that a video's file may have: its own, and others of its stem that are not listed for themselves."""
    stem = os.path.splitext(video)[0]
    return (video, *(stem + extension for extension in VIDEO_EXTENSIONS if stem + extension not in listed))


def _read_moments(rows: Rows, collector: Collector) -> None:
    """Each description's span: the one that most of its annotators chose, the first of those where several are.

    The id is the video's name, then `_` and the annotation's number.
    """
    columns, others = ("video", "description"), ("times", "annotation_id")
    fitting = list(checked(collector, rows, columns, others, caption="description"))
    videos = {row["video"] for _, row in fitting}
    for where, row in fitting:
        video, item_id = row["video"], f"{row['video']}_{row['annotation_id']}"
        span = _agreed(row["times"])
        if span is None or not video:
            collector.reject(where, item_id, f"it has no times of moments: {short(row['times'])}")
            continue
        files = _files(video, videos)
        texts = (row["description"].strip(),)
        start_s, end_s = _SEGMENT_S * span[0], _SEGMENT_S * (span[1] + 1)
        collector.add(Item(item_id, video, files, texts, start_s, end_s, where=where))


def _agreed(times: object) -> tuple[int, int] | None:
    """The first and last segment that most annotators chose."""
    chosen = [
        (span[0], span[1])
        for span in (times if isinstance(times, list) else ())
        if isinstance(span, list) and len(span) == 2
        if all(type(place) is int and 0 <= place < _MOST_SEGMENTS for place in span)
    ]
    return Counter(chosen).most_common(1)[0][0] if chosen else None


def _read_paragraphs(rows: Rows, collector: Collector, folder: Path | None) -> None:
    """A video's descriptions, joined in the file's order, are its paragraph. Ids are file names without extension.

    The 1,037 names of the test file have 1,004 stems: 33 videos are listed under two names, such as `x.mov` and `x.mp4`
    (31 names end in a bare dot). Those keep their full name as id, and never use the file of the other name. Where only
    one of the two files exists, as in a complete copy, the other name is a known gap and not listed: a folder with one
    file per stem has 1,004 items, as many as the papers evaluate, and no video twice.
    """
    texts: dict[str, list[str]] = {}
    for where, row in checked(collector, rows, ("video", "description"), caption="description"):
        if row["video"]:
            texts.setdefault(row["video"], []).append(row["description"].strip())
        else:
            collector.reject(where, "", "the video's name is empty")
    names: dict[str, list[str]] = {}
    for video in texts:
        names.setdefault(os.path.splitext(video)[0], []).append(video)

    gaps: set[str] = set()
    for twins in names.values():
        there = [
            video
            for video in twins
            if folder and any(os.path.exists(folder / name) for name in _files(video, texts) if "\0" not in name)
        ]
        if len(twins) > 1 and len(there) == 1:
            gaps.update(set(twins) - set(there))
    for video, descriptions in texts.items():
        if video in gaps:
            continue
        stem = os.path.splitext(video)[0]
        item_id = stem if len(names[stem]) == 1 else video
        paragraph = " ".join(text for text in descriptions if text)
        collector.add(Item(item_id, video, _files(video, texts), (paragraph,), where=f"video {video}"))


ADAPTER = Adapter(
    name="didemo",
    title="DiDeMo",
    reference="Hendricks et al., ICCV 2017",
    url="https://github.com/LisaAnne/LocalizingMoments",
    annotations="test_data.json",
    published="1,004 videos with one paragraph each; 33 of them have two names in the file",
    settings=Didemo,
    spans=lambda dataset: dataset.moments,
    whole="its items are whole videos; `moments: true` makes them described moments",
    read=read,
)
