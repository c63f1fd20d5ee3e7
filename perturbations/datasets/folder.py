"""A table of captions and a folder of videos: your own dataset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from perturbations.base.errors import AnnotationError
from perturbations.datasets.listing import VIDEO_EXTENSIONS, AnnotationPlace, Collector, Item, at
from perturbations.datasets.parsing import checked, json_lines, parquet, seconds, table, whole_json
from perturbations.datasets.registry import Adapter, Dataset, annotations_of


def read(dataset: Dataset, collector: Collector) -> None:
    """A table of captions; rows that share an id are captions of one item."""
    columns = dataset.columns
    fields = [name for name in (columns.item_id, columns.caption, columns.video) if name]
    times = [name for name in (columns.start_s, columns.end_s) if name]
    rows = _rows(annotations_of(dataset), list(dict.fromkeys([*fields, *times])))
    for where, row in checked(collector, rows, columns.item_id, fields, times, caption=columns.caption):
        item_id, text = row[columns.item_id], row[columns.caption].strip()
        video = row[columns.video] if columns.video else item_id
        try:
            start_s = seconds(row[columns.start_s]) if columns.start_s else None
            end_s = seconds(row[columns.end_s]) if columns.end_s else None
        except ValueError as error:
            collector.reject(where, item_id, f"its span is not in seconds: {error}")
            continue
        first = collector.items.get(item_id)
        if item_id and not video:
            collector.reject(where, item_id, "the video's name is empty")
        elif first is None:
            own = columns.video or item_id.lower().endswith(VIDEO_EXTENSIONS)
            names, extensions = (video,) if own else (), () if columns.video else VIDEO_EXTENSIONS
            collector.add(Item(item_id, video, names, (text,), start_s, end_s, extensions, where=where))
        elif (first.source_video_id, first.start_s, first.end_s) != (video, start_s, end_s):
            reason = f"names another video or span than {at(first.where)} does for the same id"
            collector.reject(where, item_id, reason)
        else:
            collector.add_caption(first, text, where)


def _rows(path: Path, required: Sequence[str]) -> Iterable[tuple[AnnotationPlace, object]]:
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        return table(path, required, "\t" if kind == ".tsv" else ",")
    if kind == ".parquet":
        return parquet(path, required)
    if kind == ".jsonl":
        return json_lines(path)
    if kind == ".json":
        return ((f"entry {number}", row) for number, row in enumerate(whole_json(path, list, "a list of objects")))
    raise AnnotationError(f"{path}: captions must be a .csv, .tsv, .json, .jsonl or .parquet file")


def _has_spans(dataset: Dataset) -> bool:
    """Whether the table has starts or ends of clips in their videos."""
    return dataset.columns.start_s is not None or dataset.columns.end_s is not None


ADAPTER = Adapter(
    name="folder",
    title="your own",
    reference="",
    annotations="a .csv, .tsv, .json, .jsonl or .parquet file of captions",
    published="",
    takes=("columns",),
    spans=_has_spans,
    read=read,
)
