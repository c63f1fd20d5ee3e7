"""YouCook2 (Zhou et al., 2018): clips of long videos."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perturbations.base.errors import AnnotationError, short
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of, split_of
from perturbations.datasets.fields import checked, seconds
from perturbations.datasets.listing import AnnotationPlace, Collector, Item
from perturbations.datasets.parsing import Rows, table, whole_json

_EXTENSIONS = (".mp4", ".mkv", ".webm")


def read(dataset: Dataset, collector: Collector) -> None:
    """Clips of long videos, from the CSV of the retrieval split or from the official JSON (one of its subsets).

    The published split has 3,350 clips. Schiappa et al. print 3,305 (Sec. 4.2), but count 301,500 = 90 x 3,350
    perturbed videos and 103,850 = 31 x 3,350 perturbed captions there: the digits are exchanged.

    The CSV describes one span, oJZUxU9szWA 120 to 252, twice with different sentences. Those are two of the 3,350
    clips: from the second on, another sentence for the same span has `_2`, `_3`, ... after its id.
    """
    path = annotations_of(dataset)
    official = path.suffix.lower() == ".json"
    clips = _official(path, split_of(dataset), collector) if official else _table(path, collector)
    for where, video, span, text in clips:
        try:
            start_s, end_s = map(seconds, span)
        except ValueError:
            start_s = end_s = None
        if start_s is None or end_s is None:
            collector.reject(where, video, f"its span is not two numbers of seconds: {short(span)}")
            continue
        item_id = first_id = f"{video}_{_plain(start_s)}_{_plain(end_s)}" if video else ""
        number = 1
        while item_id in collector.items and collector.items[item_id].texts[0] != text.strip():
            number += 1
            item_id = f"{first_id}_{number}"
        texts = (text.strip(),)
        collector.add(Item(item_id, video, (), texts, start_s, end_s, _EXTENSIONS, where=where))


def _plain(number: float) -> str:
    return str(int(number)) if number.is_integer() else str(number)


def _table(path: Path, collector: Collector) -> Iterator[tuple[AnnotationPlace, str, list[object], str]]:
    texts, times = ("video_id", "text"), ("start", "end")
    for where, row in checked(collector, table(path, (*texts, *times)), texts, times, caption="text"):
        yield where, row["video_id"], [row["start"], row["end"]], row["text"]


def _official(path: Path, split: str, collector: Collector) -> Iterator[tuple[AnnotationPlace, str, list[object], str]]:
    database = whole_json(path, dict, "an object with 'database'").get("database")
    if not isinstance(database, dict):
        raise AnnotationError(f"{path} has no object 'database'")
    for video, entry in database.items():
        if isinstance(entry, dict) and entry.get("subset") != split:
            continue
        clips = entry.get("annotations") if isinstance(entry, dict) else None
        if not isinstance(clips, list):
            collector.reject_malformed(f"database.{video}", video, "no list 'annotations'")
            continue
        rows: Rows = (
            (f"database.{video}.annotations[{number}]", {**clip, "video": video} if isinstance(clip, dict) else clip)
            for number, clip in enumerate(clips)
        )
        for where, row in checked(collector, rows, ("video", "sentence"), ["segment"], caption="sentence"):
            segment = row["segment"]
            pair = isinstance(segment, list) and len(segment) == 2
            yield where, video, segment if pair else [segment, None], row["sentence"]


ADAPTER = Adapter(
    name="youcook2",
    title="YouCook2",
    reference="Zhou et al., AAAI 2018",
    url="http://youcook2.eecs.umich.edu",
    annotations="validation_youcook.csv, or the official youcookii_annotations_trainval.json",
    published="3,350 clips of 436 videos with one sentence each; MSRVTT-P prints 3,305, its totals are of 3,350",
    split="validation",
    takes=("ids",),
    spans=True,
    gender=False,
    extensions=_EXTENSIONS,
    read=read,
)
