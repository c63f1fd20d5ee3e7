"""A table of captions and a folder of videos: your own dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain, islice

from perturbations.base.errors import short
from perturbations.datasets.adapter_registry import Adapter, ColumnsSection, Dataset, annotations_of, get, split_of
from perturbations.datasets.fields import as_json, checked, checked_text, seconds
from perturbations.datasets.listing import AnnotationPlace, Collector, Item, at
from perturbations.datasets.parsing import Rows, columns_of, rows_of
from perturbations.datasets.usual_columns import USUAL_NAMES, usual_form
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
        rows = rows_of(path, required, item_id=columns.item_id, captions=captions, further=names, way_out=_WAY_OUT)
    if not has_captions:
        rows = _with_empty_captions(rows, columns.caption)
    add_rows(rows, columns, get(dataset.adapter).extensions, collector)


def _columns_of(names: Sequence[str], columns: ColumnsSection) -> tuple[ColumnsSection, bool]:
    """What the columns of a table with these names mean, and whether it has captions; `columns` is the configured.

    Where the configuration names no column of ids and the table has no `item_id`, the names of files are the ids. Where
    it names none of captions and the table has none with a usual name, there are no captions.
    """
    usual = set(map(usual_form, names))
    if "item_id" not in columns.model_fields_set and "item_id" not in names:
        files = [columns.video] if columns.video else [name for name in USUAL_NAMES["video"] if name in names]
        columns = columns.model_copy(update={"item_id": files[0], "video": None} if files else {})
    return columns, "caption" in columns.model_fields_set or not usual.isdisjoint(USUAL_NAMES["caption"])


def add_rows(rows: Rows, columns: ColumnsSection, known: Sequence[str], collector: Collector) -> None:
    """Add the items and captions of a table's rows; their files have the names that are listed, or `known` endings.

    Further columns become the items' attributes.
    """
    fields = [name for name in (columns.item_id, columns.caption, columns.video) if name]
    times = [name for name in (columns.start_s, columns.end_s) if name]
    captions = _each_caption(rows, columns.caption)
    described: dict[str, list[Mapping[str, object]]] = {}
    for where, row in checked(collector, captions, fields, times, caption=columns.caption):
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
            further = {column_name(checked_text(name, name)): as_json(name, row[name]) for name in others}
        except ValueError as error:
            collector.reject(where, item_id, str(error))
            continue
        first = collector.items.get(item_id)
        if item_id and not video:
            collector.reject(where, item_id, f"the video's name is empty: fill the column {short(columns.video)}")
        elif first is None:
            has_ending = video.lower().endswith(tuple(known))
            names = (video,) if columns.video or has_ending else ()
            extensions = () if columns.video and has_ending else tuple(known)
            collector.add(Item(item_id, video, names, (text,), start_s, end_s, extensions, where=where))
        elif (first.source_video_id, first.start_s, first.end_s) != (video, start_s, end_s):
            reason = f"names another video or span than {at(first.where)} does for the same id"
            collector.reject(where, item_id, reason)
            continue
        elif text or not further:  # rows without captions may say more of an item
            collector.add_caption(first, text, where)
        if further and item_id in collector.items:
            rows_of_item = described.setdefault(item_id, [])
            # Once in memory, where all rows say the same.
            rows_of_item.append(rows_of_item[0] if rows_of_item and further == rows_of_item[0] else further)
    collector.attributes = _by_item(collector.items, described)


def _by_item(
    items: Iterable[str], described: Mapping[str, Sequence[Mapping[str, object]]]
) -> dict[str, dict[str, object]]:
    """The further columns of items, of which `described` has those of each row of an item.

    Every item has all columns. A column that differs between the rows of some item holds a list in every item: the
    value of each row.
    """
    names = list(dict.fromkeys(name for rows in described.values() for row in rows for name in row))
    lists = {
        name
        for name in names
        for rows in described.values()
        if any(row.get(name) != rows[0].get(name) for row in rows[1:])
    }
    if not names:
        return {}
    return {
        item_id: {
            name: [row.get(name) for row in rows] if name in lists else rows[0].get(name)
            for rows in [described.get(item_id) or [{}]]
            for name in names
        }
        for item_id in items
    }


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
