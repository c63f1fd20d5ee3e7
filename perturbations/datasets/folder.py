"""A table of captions and a folder of videos: your own dataset."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from perturbations.base.errors import AnnotationError, cut
from perturbations.base.storage import composed
from perturbations.datasets.adapter_registry import Adapter, ColumnsSection, Dataset, annotations_of, get, split_of
from perturbations.datasets.listing import AnnotationPlace, Collector, Item, at
from perturbations.datasets.parsing import (
    Rows,
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


def read(dataset: Dataset, collector: Collector) -> None:
    """A table of captions; rows that share an id are captions of one item, and so are the texts of a list."""
    columns = dataset.columns
    required = [name for name in columns.model_dump().values() if name]
    names = (columns.item_id, [columns.caption])
    rows = _rows(annotations_of(dataset), list(dict.fromkeys(required)), *names, split_of(dataset))
    add_rows(rows, columns, get(dataset.adapter).extensions, collector)


def add_rows(rows: Rows, columns: ColumnsSection, known: Sequence[str], collector: Collector) -> None:
    """Add the items and captions of a table's rows; their files have the names that are listed, or `known` endings."""
    fields = [name for name in (columns.item_id, columns.caption, columns.video) if name]
    times = [name for name in (columns.start_s, columns.end_s) if name]
    captions = _each_caption(rows, columns.caption)
    for where, row in checked(collector, captions, columns.item_id, fields, times, caption=columns.caption):
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
            has_ending = video.lower().endswith(tuple(known))
            names, extensions = (video,) if columns.video or has_ending else (), known
            if columns.video and has_ending:
                extensions = ()
            collector.add(Item(item_id, video, names, (text,), start_s, end_s, tuple(extensions), where=where))
        elif (first.source_video_id, first.start_s, first.end_s) != (video, start_s, end_s):
            reason = f"names another video or span than {at(first.where)} does for the same id"
            collector.reject(where, item_id, reason)
        else:
            collector.add_caption(first, text, where)


_WAY_OUT = ". Name your own in the dataset's `columns`: {item_id: ..., caption: ...}"


def _rows(path: Path, required: Sequence[str], item_id: str, captions: Sequence[str], split: str | None) -> Rows:
    kind = path.suffix.lower()
    if kind in _SEPARATORS:
        return table(path, required, _SEPARATORS[kind], _WAY_OUT)
    if kind == ".parquet":
        return parquet(path, required, lists=captions, way_out=_WAY_OUT)
    if kind == ".jsonl":
        return json_lines(path)
    if kind == ".json":
        return json_rows(path, split, item_id, captions)
    raise AnnotationError(f"{path}: captions must be a .csv, .tsv, .json, .jsonl or .parquet file")


def _each_caption(rows: Rows, caption: str) -> Iterator[tuple[AnnotationPlace, object]]:
    """The rows, of which one with a list of captions is several; without any caption it has an empty one."""
    for where, row in rows:
        if not isinstance(row, dict) or not isinstance(texts := row.get(caption), list):
            yield where, row
            continue
        for number, text in enumerate(texts or [""]):
            several = copy(row)
            several[caption] = text
            yield f"{at(where)}, caption {number}", several


_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_USUAL_NAMES = {
    "item_id": ("item_id", "video_id", "clip_id", "image_id", "videoid", "id", "key", "name"),
    "video": ("video", "file", "filename", "file_name", "path", "video_path", "video_name", "clip", "image"),
    "caption": ("caption", "text", "sentence", "description", "captions", "query", "encap"),
    "start_s": ("start_s", "start", "start_time", "start_sec", "start_seconds"),
    "end_s": ("end_s", "end", "end_time", "end_sec", "end_seconds"),
}
"""How files of captions call the columns, in lower case, with `_` for spaces."""
_LOOKED_AT = 10_000


def splits(captions: Path) -> list[str]:
    """The names of the splits, where a file in JSON has its entries by them."""
    if captions.suffix.lower() != ".json":
        return []
    return [name for name in json_splits(captions, "item_id", _USUAL_NAMES["caption"]) if name]


class ChosenColumns(NamedTuple):
    """The columns or members of a file of captions by what they mean, and others that could mean the same."""

    by_role: dict[str, str]
    others: list[str]

    @property
    def section(self) -> dict[str, str]:
        """`columns` in config.yaml: those that are not the defaults."""
        defaults = ColumnsSection().model_dump()
        return {role: name for role, name in self.by_role.items() if name != defaults[role]}


def choose_columns(captions: Path, files: Collection[str]) -> ChosenColumns:
    """Choose the columns or members of a file of captions, by their names and by `files`, the files that there are.

    `files` has their names with and without endings. Of several columns that could name the items or their files, the
    values decide: a column of row numbers names no file, or another row's. Raises `AnnotationError` where a table has
    no column with a usual name.
    """
    rows = _first_rows(captions)
    names = _header(captions) or list(dict.fromkeys(str(name) for row in rows for name in row))
    usual = {name.strip().lower().replace(" ", "_"): name for name in names}
    could = {role: [usual[own] for own in known if own in usual] for role, known in _USUAL_NAMES.items()}
    values = {name: [_text(row.get(name)) for row in rows] for name in (*could["item_id"], *could["video"])}
    number = {name: sum(value in files for value in texts) for name, texts in values.items()}
    item_id, video, caption, start_s, end_s = (
        max(could[role], key=lambda name: number.get(name, 0), default=None) for role in _USUAL_NAMES
    )
    has_spans = start_s or end_s
    if item_id and video and not has_spans and _counts_rows(values[item_id]) and len({*values[video]}) < len(rows):
        item_id = None  # rows of one video are captions of one item
    if item_id is None:  # the files' names are the ids, with their endings or without
        item_id, video = video, None
    elif video is None and has_spans:  # the parts of a video have ids of their own
        own = [name for name in could["item_id"] if name != item_id and len({*values[name]}) == len(rows)]
        item_id, video = (own[0], item_id) if own else (item_id, None)
        if len({(row.get(item_id), row.get(start_s), row.get(end_s)) for row in rows}) > len({*values[item_id]}):
            what = f"the rows of one {item_id!r} are several parts of a video, which need ids of their own"
            raise AnnotationError(f"{captions}: {what}. Add a column item_id, and call {item_id!r} video")
    chosen = {"item_id": item_id, "video": video, "caption": caption, "start_s": start_s, "end_s": end_s}
    for role in ("item_id", "caption"):
        if chosen[role] is None:
            raise AnnotationError(
                f"{captions}: no column is called {' or '.join(_USUAL_NAMES[role][:4])}; its columns are "
                f"{cut(', '.join(names), 1_000)}"
                + (of_separator(names) or ". Rename one, or write config.yaml yourself: datasets.<name>.columns")
            )
    by_role = {role: name for role, name in chosen.items() if name is not None}
    others = [name for known in could.values() for name in known if name not in by_role.values()]
    return ChosenColumns(by_role, others)


def _header(captions: Path) -> list[str]:
    """The columns of a table; none of JSON, whose objects have members."""
    kind = captions.suffix.lower()
    if kind in _SEPARATORS:
        return header(captions, _SEPARATORS[kind])
    return parquet_header(captions) if kind == ".parquet" else []


def _first_rows(captions: Path) -> list[dict[str | None, object]]:
    """The first rows that are objects, of which those in JSON may be damaged."""
    names = _header(captions)
    usual = {own for role, known in _USUAL_NAMES.items() for own in known if role != "caption"}
    required = [name for name in names if name.strip().lower().replace(" ", "_") in usual]
    rows = _rows(captions, list(dict.fromkeys(required)), "item_id", _USUAL_NAMES["caption"], None)
    return [row for _, row in islice(rows, _LOOKED_AT) if isinstance(row, dict)]


def _text(value: object) -> str:
    """A value as an id or a file's name has it, in the form in which names are compared."""
    return composed(str(int(value)) if isinstance(value, float) and value.is_integer() else str(value))


def _counts_rows(values: Sequence[str]) -> bool:
    """Whether values are the numbers of their rows, from 0 or 1."""
    return any(values == [str(number) for number in range(first, first + len(values))] for first in (0, 1))


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
