"""A table of captions and a folder of videos: your own dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import islice
from pathlib import Path

from perturbations.base.errors import AnnotationError, cut
from perturbations.datasets.listing import AnnotationPlace, Collector, Item, at
from perturbations.datasets.parsing import (
    checked,
    header,
    json_lines,
    json_rows,
    json_splits,
    of_separator,
    parquet,
    parquet_header,
    seconds,
    table,
)
from perturbations.datasets.registry import Adapter, Dataset, annotations_of, get, split_of


def read(dataset: Dataset, collector: Collector) -> None:
    """A table of captions; rows that share an id are captions of one item, and so are the texts of a list."""
    columns, known = dataset.columns, get(dataset.adapter).extensions
    fields = [name for name in (columns.item_id, columns.caption, columns.video) if name]
    times = [name for name in (columns.start_s, columns.end_s) if name]
    table_rows = _rows(
        annotations_of(dataset), list(dict.fromkeys([*fields, *times])), columns.caption, split_of(dataset)
    )
    rows = _each_caption(table_rows, columns.caption)
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
            own = columns.video or item_id.lower().endswith(known)
            names, extensions = (video,) if own else (), () if columns.video else known
            collector.add(Item(item_id, video, names, (text,), start_s, end_s, extensions, where=where))
        elif (first.source_video_id, first.start_s, first.end_s) != (video, start_s, end_s):
            reason = f"names another video or span than {at(first.where)} does for the same id"
            collector.reject(where, item_id, reason)
        else:
            collector.add_caption(first, text, where)


_WAY_OUT = ". Name your own in the dataset's `columns`: {item_id: ..., caption: ...}"


def _rows(
    path: Path, required: Sequence[str], caption: str, split: str | None
) -> Iterable[tuple[AnnotationPlace, object]]:
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        return table(path, required, "\t" if kind == ".tsv" else ",", _WAY_OUT)
    if kind == ".parquet":
        return parquet(path, required, lists=[caption], way_out=_WAY_OUT)
    if kind == ".jsonl":
        return json_lines(path)
    if kind == ".json":
        return json_rows(path, split)
    raise AnnotationError(f"{path}: captions must be a .csv, .tsv, .json, .jsonl or .parquet file")


def _each_caption(
    rows: Iterable[tuple[AnnotationPlace, object]], caption: str
) -> Iterator[tuple[AnnotationPlace, object]]:
    """The rows, of which one with a list of captions is several; without any caption it has an empty one."""
    for where, row in rows:
        if not isinstance(row, dict) or not isinstance(texts := row.get(caption), list):
            yield where, row
            continue
        for number, text in enumerate(texts or [""]):
            several = copy(row)
            several[caption] = text
            yield f"{at(where)}, caption {number}", several


def splits(captions: Path) -> list[str]:
    """The names of the splits, where a file in JSON has their entries below them."""
    return json_splits(captions) if captions.suffix.lower() == ".json" else []


_USUAL_NAMES = {
    "item_id": ("item_id", "id", "video_id", "clip_id", "videoid", "key", "name"),
    "video": ("video", "file", "filename", "file_name", "path", "video_path", "clip", "image"),
    "caption": ("caption", "text", "sentence", "description", "captions", "query"),
    "start_s": ("start_s", "start", "start_time"),
    "end_s": ("end_s", "end", "end_time"),
}
"""How files of captions call the columns, the first name being the default of `columns`."""


def guessed_columns(captions: Path) -> dict[str, str]:
    """The columns or members whose names are not the defaults. Raises `AnnotationError` where one is unknown."""
    names = _names(captions)
    lower = {name.strip().lower(): name for name in names}
    known = {role: next((lower[name] for name in own if name in lower), None) for role, own in _USUAL_NAMES.items()}
    if known["item_id"] is None:  # the files' names are the ids, with their endings or without
        known["item_id"], known["video"] = known["video"], None
    for role in ("item_id", "caption"):
        if known[role] is None:
            raise AnnotationError(
                f"{captions}: no column is called {' or '.join(_USUAL_NAMES[role][:4])}; its columns are "
                f"{cut(', '.join(names), 1_000)}"
                + (of_separator(names) or ". Rename one, or write config.yaml yourself: datasets.<name>.columns")
            )
    return {role: name for role, name in known.items() if name is not None and (name != role or role == "video")}


def _names(captions: Path) -> list[str]:
    """The columns of a table, or the members of the first objects in JSON, of which some may be damaged."""
    kind = captions.suffix.lower()
    if kind in (".csv", ".tsv"):
        return header(captions, "\t" if kind == ".tsv" else ",")
    if kind == ".parquet":
        return parquet_header(captions)
    first = islice(_rows(captions, (), "", None), 1_000)
    return list(dict.fromkeys(str(name) for _, row in first if isinstance(row, dict) for name in row))


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
