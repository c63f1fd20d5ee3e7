"""Composed queries in a table: each row has a query's video, an instruction, and its targets.

Other adapters of this shape name the columns of their published files and read through `entries_by` and `read`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pydantic import Field

from perturbations.base.errors import short
from perturbations.base.settings import Strict
from perturbations.datasets.adapter_registry import Adapter, ComposedEntry, Dataset, annotations_of, get, pool_of
from perturbations.datasets.fields import checked, list_in, seconds, text_of
from perturbations.datasets.listing import AnnotationPlace, Collector, Item, without_ending
from perturbations.datasets.parsing import Rows, check_header, columns_of, lines, rows_of

_MOST_IDS = 100_000
"""Names in a cell."""
_WAY_OUT = (
    ". The adapter `composed_table` reads any table: `columns: {source: ..., targets: ..., instruction: ...}` says "
    "what it calls them"
)


class QueryColumns(Strict):
    """The columns of a table of composed queries; all but the first three may be absent."""

    source: str = Field("source", min_length=1, description="the query's video")
    targets: str = Field("targets", min_length=1, description="the name of the target, or a list of names")
    instruction: str = Field("instruction", min_length=1, description="what to change")
    query_id: str = Field("query_id", min_length=1, description="the query's id; without it its number")
    category: str = Field("category", min_length=1, description="the query's category")
    gallery: str = Field("gallery", min_length=1, description="the names of the clips that the query chooses among")
    source_caption: str = Field("source_caption", min_length=1, description="what the query's video shows")
    target_caption: str = Field("target_caption", min_length=1, description="what the first target shows")
    modified_caption: str = Field(
        "modified_caption", min_length=1, description="the source's caption, changed as the instruction says"
    )

    @property
    def required(self) -> list[str]:
        """The columns that a table must have: the three of every query, and those that were named."""
        names = ("source", "targets", "instruction", *sorted(self.model_fields_set))
        return list(dict.fromkeys(getattr(self, name) for name in names))


class ComposedTable(Dataset):
    """The keys of `config.yaml`, with those of tables of composed queries."""

    columns: QueryColumns = Field(  # type: ignore[assignment]  # other columns than those of captions
        default_factory=QueryColumns, description="composed_table: the columns of the table of queries"
    )
    pool: Path | None = Field(
        None,
        description="a table of all clips (item_id, and perhaps video, start_s, end_s, caption), or a .txt of their "
        "names, where galleries have more clips than the queries name; egocvr: egocvr_data.csv, by default beside the "
        "annotations",
    )
    categories: tuple[str, ...] | None = Field(None, min_length=1, description="only queries of these categories")


def table_rows(path: Path, required: Sequence[str], optional: Iterable[str] = ()) -> Rows:
    """The places and rows of a .csv, .tsv, .json, .jsonl or .parquet file. Raises `AnnotationError`."""
    present = columns_of(path)
    names = [*required, *(name for name in optional if name in present)]
    return rows_of(path, dict.fromkeys(names), item_id="query_id", captions=["instruction"], way_out=_WAY_OUT)


_LIST = re.compile(r"""\[(\s*['"]|.*\]$)""", re.DOTALL)
"""Not "[b] clip", which is a name."""
_NO_COMMA = re.compile(r"""(['"])\s+\1""")


def names_in(value: object, clip_of: Callable[[str], str] = str) -> tuple[str, ...]:
    """The names in a cell: a list, a list as JSON or Python has it, or one name. Raises `ValueError` for others."""
    if isinstance(value, str) and _LIST.match(text := value.strip()):
        value = list_in(text)
        if value is None or _NO_COMMA.search(text):  # Python joins texts that no comma separates
            raise ValueError(f"is not a list of names: {short(text)}; write ['one', 'two']")
    names = value if isinstance(value, list) else [value]
    if len(names) > _MOST_IDS:
        raise ValueError(f"has more than {_MOST_IDS:,} names")
    if not all(isinstance(name, str | int) and not isinstance(name, bool) and str(name).strip() for name in names):
        raise ValueError(f"is neither a name nor a list of names: {short(value)}")
    return tuple(clip_of(str(name)) for name in names)


_TEXTS = ("query_id", "category", "source_caption", "target_caption", "modified_caption")


def entries_of(
    rows: Rows,
    columns: QueryColumns,
    dataset: Dataset,
    collector: Collector,
    *,
    others: Sequence[str] = (),
    clip_of: Callable[[str], str] = without_ending,
    first_target: str = "",
    ids_repeat: bool = False,
) -> Iterator[ComposedEntry]:
    """The queries of a table's rows; rows that cannot be used are rejected.

    Args:
        rows: the places and rows, as `table_rows` gives them.
        columns: what they call each part of a query.
        dataset: its `categories` choose queries.
        collector: takes what is rejected.
        others: further columns that each row must have.
        clip_of: the name of a clip by what the table calls it.
        first_target: the column of the target that comes first, where `columns.targets` has all in any order.
        ids_repeat: whether rows of one id are queries of their own: later ones are called `<id>#1`, `<id>#2`, ...
    """
    texts = (columns.source, columns.instruction)
    required = [columns.targets, *(name for name in others if name not in texts)]
    wanted = getattr(dataset, "categories", None)
    times = Counter[str]()
    number = 0
    has_galleries: bool | None = None
    for where, row in checked(collector, rows, texts, required, caption=columns.instruction, item_id=columns.query_id):
        plain = {part: text_of(row.get(getattr(columns, part))).strip() for part in _TEXTS}
        category = plain["category"]
        if wanted is not None and category not in wanted:
            continue
        query_id = plain["query_id"] or f"{number:06d}"
        if ids_repeat and times[query_id]:
            query_id = f"{query_id}#{times[query_id]}"
        cells = {name: row.get(getattr(columns, name)) for name in ("source", "targets", "gallery")}
        cells["first"] = row.get(first_target)
        try:
            names = {name: names_in(cell, clip_of) for name, cell in cells.items() if cell not in (None, "", [])}
        except ValueError as error:
            collector.reject(where, query_id, f"a cell of clips {error}")
            continue
        instruction, gallery = row[columns.instruction].strip(), names.get("gallery", ())
        targets = tuple(dict.fromkeys((*names.get("first", ()), *names.get("targets", ()))))
        if "source" not in names or not targets or not instruction:
            called = (columns.source, columns.targets)
            collector.reject(where, query_id, f"a row needs {called[0]}, {called[1]} and {columns.instruction}")
        elif times[query_id]:
            collector.reject(where, query_id, "another query has the same id")
        elif has_galleries not in (None, bool(gallery)):
            collector.reject(where, query_id, f"some queries have {columns.gallery} and others have none")
        else:
            times[plain["query_id"] or query_id] += 1
            number, has_galleries = number + 1, bool(gallery)
            captions = (plain[f"{what}_caption"] for what in ("source", "target", "modified"))
            source = names["source"][0]
            yield ComposedEntry(where, query_id, source, targets, instruction, category, gallery, *captions)


def entries_by(columns: QueryColumns, dataset: Dataset, collector: Collector, **how: Any) -> Iterator[ComposedEntry]:
    """The queries of a dataset's table with these columns; `how` is as `entries_of` takes it."""
    path, optional = annotations_of(dataset), [getattr(columns, name) for name in QueryColumns.model_fields]
    rows = iter(table_rows(path, columns.required, optional))
    first = [*islice(rows, 1)]
    for _, row in first:
        if isinstance(row, dict) and {columns.source, columns.targets}.isdisjoint(row):  # JSON has no header
            check_header(path, columns.required, [*row], _WAY_OUT)
    return entries_of(chain(first, rows), columns, dataset, collector, **how)


def _entries(dataset: ComposedTable, collector: Collector) -> Iterator[ComposedEntry]:
    """The queries of a table of one's own, in which clips are called as they are."""
    columns = dataset.columns
    return entries_by(columns, dataset, collector, others=columns.required, clip_of=str)


def read(dataset: Dataset, collector: Collector) -> None:
    """Every clip of the pool and of the queries once, with its caption where there is one."""
    adapter, pool = get(dataset.adapter), pool_of(dataset)
    assert adapter.queries is not None
    is_list = pool is not None and pool.suffix.lower() == ".txt"
    if pool and not is_list:
        collector.place = pool
        _add_pool(pool, adapter.extensions, collector)
    collector.place = annotations_of(dataset)
    for entry in adapter.queries(dataset, collector):
        captions = {entry.targets[0]: entry.target_caption, entry.source: entry.source_caption}
        for name in (entry.source, *entry.targets, *entry.gallery):
            if name not in collector.items:
                collector.add(item_of(name, name, captions.get(name, ""), adapter.extensions, where=entry.where))
    if pool and is_list:
        _add_names(pool, adapter.extensions, collector)


def item_of(
    item_id: str,
    video: str,
    caption: str,
    known: Sequence[str],
    span: tuple[float | None, float | None] = (None, None),
    where: AnnotationPlace = 0,
) -> Item:
    """A clip, whose file is the video's name, or that with one of the known endings."""
    has_ending = video.lower().endswith(tuple(known))
    names, extensions = ((video,), ()) if has_ending else ((), tuple(known))
    return Item(item_id, video, names, (caption,) if caption else (), *span, extensions, where=where)


def _add_names(path: Path, known: Sequence[str], collector: Collector) -> None:
    """Add the files of a list that are no clips of queries, called as those are: with their endings or without."""
    have_endings = any(name != without_ending(name) for name in collector.items)
    for number, line in lines(path):
        name, stem = line.strip(), without_ending(line.strip())
        if collector.items.keys().isdisjoint((name, stem)):
            item_id = name if have_endings else stem
            collector.add(Item(item_id, item_id, (name,), (), extensions=tuple(known), where=number))


def _add_pool(path: Path, known: Sequence[str], collector: Collector) -> None:
    rows = table_rows(path, ["item_id"], ("video", "caption", "start_s", "end_s"))
    for where, row in checked(collector, rows, ["item_id"]):
        item_id = row["item_id"]
        try:
            span = seconds(row.get("start_s")), seconds(row.get("end_s"))
        except ValueError as error:
            collector.reject(where, item_id, f"its span is not in seconds: {error}")
            continue
        video, caption = (text_of(row.get(name)).strip() for name in ("video", "caption"))
        collector.add(item_of(item_id, video or item_id, caption, known, span, where))


def has_spans(dataset: Dataset) -> bool:
    """Whether the table of all clips has starts or ends of clips in their videos."""
    pool = pool_of(dataset)
    return pool is not None and pool.is_file() and not {"start_s", "end_s"}.isdisjoint(columns_of(pool))


ADAPTER = Adapter(
    name="composed_table",
    title="your own composed queries",
    reference="",
    annotations="a .csv, .tsv, .json, .jsonl or .parquet file of source, targets and instruction",
    published="",
    takes=("columns",),
    settings=ComposedTable,
    spans=has_spans,
    queries=_entries,
    read=read,
)
