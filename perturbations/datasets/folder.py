"""A table of captions and a folder of videos: your own dataset."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from perturbations.base.errors import AnnotationError, cut, short
from perturbations.base.storage import nfc
from perturbations.datasets.adapter_registry import Adapter, ColumnsSection, Dataset, annotations_of, get, split_of
from perturbations.datasets.listing import AnnotationPlace, Collector, Item, at, is_unicode
from perturbations.datasets.parsing import (
    Rows,
    checked,
    columns_of,
    json_splits,
    of_separator,
    rows_of,
    seconds,
)
from perturbations.manifest.attributes import column_name


def read(dataset: Dataset, collector: Collector) -> None:
    """A table of captions; rows that share an id are captions of one item, and so are the texts of a list."""
    path, columns, split = annotations_of(dataset), dataset.columns, split_of(dataset)
    names = columns_of(path)
    rows: Rows = ()
    if not names:  # of JSON, whose first entry tells
        rows = iter(rows_of(path, (), item_id=columns.item_id, captions=[columns.caption], split=split))
        first = list(islice(rows, 1))
        rows, names = chain(first, rows), [*first[0][1]] if first and isinstance(first[0][1], dict) else ["caption"]
    columns, has_captions = _columns_of(names, columns)
    if not rows:
        of_roles = columns.model_dump(exclude=None if has_captions else {"caption"}, exclude_none=True)
        required = dict.fromkeys(of_roles.values())
        captions = [columns.caption]
        rows = rows_of(
            path, required, item_id=columns.item_id, captions=captions, lists=captions, further=names, way_out=_WAY_OUT
        )
    if not has_captions:
        rows = _with_empty_captions(rows, columns.caption)
    add_rows(rows, columns, get(dataset.adapter).extensions, collector)


def _columns_of(names: Sequence[str], columns: ColumnsSection) -> tuple[ColumnsSection, bool]:
    """What the columns of a table with these names mean, and whether it has captions; `columns` is the configured.

    Where the configuration names no column of ids and the table has no `item_id`, the names of files are the ids. Where
    it names none of captions and the table has none with a usual name, there are no captions.
    """
    usual = set(map(_usual_form, names))
    if "item_id" not in columns.model_fields_set and "item_id" not in names:
        files = [columns.video] if columns.video else [name for name in _USUAL_NAMES["video"] if name in names]
        columns = columns.model_copy(update={"item_id": files[0], "video": None} if files else {})
    return columns, "caption" in columns.model_fields_set or not usual.isdisjoint(_USUAL_NAMES["caption"])


def add_rows(rows: Rows, columns: ColumnsSection, known: Sequence[str], collector: Collector) -> None:
    """Add the items and captions of a table's rows; their files have the names that are listed, or `known` endings.

    Further columns become the items' attributes.
    """
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
        try:
            others = [name for name in row if name and name not in (*fields, *times)]
            further = {column_name(_checked_text(name, name)): _as_json(name, row[name]) for name in others}
        except ValueError as error:
            collector.reject(where, item_id, str(error))
            continue
        first = collector.items.get(item_id)
        if item_id and not video:
            collector.reject(where, item_id, f"the video's name is empty: fill the column {short(columns.video)}")
        elif first is None:
            has_ending = video.lower().endswith(tuple(known))
            names, extensions = (video,) if columns.video or has_ending else (), known
            if columns.video and has_ending:
                extensions = ()
            collector.add(Item(item_id, video, names, (text,), start_s, end_s, tuple(extensions), where=where))
        elif (first.source_video_id, first.start_s, first.end_s) != (video, start_s, end_s):
            reason = f"names another video or span than {at(first.where)} does for the same id"
            collector.reject(where, item_id, reason)
            continue
        elif text or not further:  # rows without captions may say more of an item
            collector.add_caption(first, text, where)
        collector.describe(item_id, further)


_MOST_DEPTH, _MOST_TEXT = 16, 100_000


def _as_json(column: str, value: object, depth: int = 0) -> object:
    """A value of a further column, as JSON can hold it; None where it is empty. Raises `ValueError`."""
    if isinstance(value, str):
        return _checked_text(column, value) or None
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth == _MOST_DEPTH:
        raise ValueError(f"the column {short(column)} is nested too deep")
    if isinstance(value, list):
        return [_as_json(column, member, depth + 1) for member in value]
    if isinstance(value, dict):
        return {_checked_text(column, key): _as_json(column, own, depth + 1) for key, own in value.items()}
    return str(value)  # a date of Parquet


def _checked_text(column: str, text: str) -> str:
    """A text of a further column. Raises `ValueError` for one that a manifest cannot hold."""
    if len(text) > _MOST_TEXT:
        raise ValueError(f"the column {short(column)} holds {len(text):,} letters, more than {_MOST_TEXT:,}")
    if not is_unicode(text):
        raise ValueError(f"the column {short(column)} is not valid Unicode text: {short(text)} has a lone surrogate")
    return text


_WAY_OUT = ". Name your own in the dataset's `columns`: {item_id: ..., caption: ...}"


def _with_empty_captions(rows: Rows, caption: str) -> Rows:
    for where, row in rows:
        if isinstance(row, dict) and None not in row:  # one with surplus fields is rejected as it is
            row.setdefault(caption, "")
        yield where, row


def _each_caption(rows: Rows, caption: str) -> Iterator[tuple[AnnotationPlace, object]]:
    """The rows. A row with a list of captions becomes several; a row without any caption has an empty one."""
    for where, row in rows:
        if not isinstance(row, dict) or not isinstance(texts := row.get(caption), list):
            yield where, row
            continue
        for number, text in enumerate(texts or [""]):
            several = copy(row)
            several[caption] = text
            yield f"{at(where)}, caption {number}", several


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
    """The columns or members of a file of captions by what they mean, and the further ones."""

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
    names = columns_of(captions)
    of_files = {own for role, known in _USUAL_NAMES.items() for own in known if role != "caption"}
    required = dict.fromkeys(name for name in names if _usual_form(name) in of_files)
    entries = rows_of(captions, required, item_id="item_id", captions=_USUAL_NAMES["caption"])
    rows = [row for _, row in islice(entries, _LOOKED_AT) if isinstance(row, dict)]  # of JSON, others are damaged
    names = names or list(dict.fromkeys(str(name) for row in rows for name in row))
    if not names:
        raise AnnotationError(f'{captions} lists no clip: it needs an entry per clip, such as {{"item_id": "a"}}')
    usual = {_usual_form(name): name for name in names}
    could = {role: [usual[own] for own in known if own in usual] for role, known in _USUAL_NAMES.items()}
    values = {name: [_text(row.get(name)) for row in rows] for name in (*could["item_id"], *could["video"])}
    number = {name: sum(value in files for value in texts) for name, texts in values.items()}
    item_id, video, caption, start_s, end_s = (
        max(could[role], key=lambda name: number.get(name, 0), default=None) for role in _USUAL_NAMES
    )
    if caption is None and (mark := of_separator(names)):
        raise AnnotationError(f"{captions}: its columns are {cut(', '.join(names), 1_000)}{mark}")
    has_spans = start_s or end_s
    if item_id and video and not has_spans:
        ids, videos = (len({*values[name]}) for name in (item_id, video))
        is_of_class = ids < videos and _usual_form(item_id) in ("id", "key", "name")
        if is_of_class or (_counts_rows(values[item_id]) and videos < len(rows)):
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
    if item_id is None:
        usual_names = " or ".join((*_USUAL_NAMES["item_id"][:3], *_USUAL_NAMES["video"][:3]))
        columns = f"its columns are {cut(', '.join(names), 1_000)}{of_separator(names)}"
        raise AnnotationError(
            f"{captions}: no column is called {usual_names}; {columns}. Call the one that names the files item_id"
        )
    by_role = {role: name for role, name in chosen.items() if name is not None}
    others = [name for name in names if name not in by_role.values()]
    return ChosenColumns(by_role, others)


def _usual_form(name: str) -> str:
    return name.strip().lower().replace(" ", "_")


def _text(value: object) -> str:
    """A value as an id or a file's name has it, in the form in which names are compared."""
    return nfc(str(int(value)) if isinstance(value, float) and value.is_integer() else str(value))


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
