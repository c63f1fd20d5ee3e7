"""Composed queries in a table: each row has a query's video, an instruction, and its targets.

Other adapters of this shape name the columns of their published files and read through `entries` and `read`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from pydantic import Field

from perturbations.base.errors import short
from perturbations.base.settings import Strict
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of, get
from perturbations.datasets.listing import AnnotationPlace, Collector, ComposedEntry, Item
from perturbations.datasets.parsing import Rows, checked, columns_of, lines, rows_of, seconds

_MOST_IDS = 100_000
"""Names in a cell."""


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


def table_rows(path: Path, required: Sequence[str], optional: Iterable[str] = (), lists: Sequence[str] = ()) -> Rows:
    """The places and rows of a .csv, .tsv, .json, .jsonl or .parquet file. Raises `AnnotationError`."""
    names = [*required, *(name for name in optional if name in columns_of(path))]
    way_out = "; `columns` names them"
    captions = ("instruction",)
    return rows_of(path, dict.fromkeys(names), item_id="query_id", captions=captions, lists=lists, way_out=way_out)


def names_in(value: object, clip_of: Callable[[str], str] = str) -> tuple[str, ...]:
    """The names in a cell: a list, a list as text, or one name. Raises `ValueError` for anything else."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise ValueError(f"is not a list of names: {short(value)}") from None
    names = value if isinstance(value, list) else [value]
    if len(names) > _MOST_IDS:
        raise ValueError(f"has more than {_MOST_IDS:,} names")
    if not all(isinstance(name, str | int) and not isinstance(name, bool) and str(name).strip() for name in names):
        raise ValueError(f"is neither a name nor a list of names: {short(value)}")
    return tuple(clip_of(str(name)) for name in names)


def entries_of(
    rows: Rows,
    columns: QueryColumns,
    dataset: Dataset,
    collector: Collector,
    clip_of: Callable[[str], str] = str,
    others: Sequence[str] = (),
) -> Iterator[ComposedEntry]:
    """The queries of a table's rows; rows that cannot be used are rejected.

    Args:
        rows: the places and rows, as `table_rows` gives them.
        columns: what they call each part of a query.
        dataset: its `categories` choose queries.
        collector: takes what is rejected.
        clip_of: the name of a clip by what the table calls it.
        others: further columns that each row must have.
    """
    texts = (columns.source, columns.instruction)
    required = [columns.targets, *(name for name in others if name not in texts)]
    wanted = getattr(dataset, "categories", None)
    known: set[str] = set()
    number = 0
    has_galleries: bool | None = None
    for where, row in checked(collector, rows, columns.query_id, texts, required, caption=columns.instruction):
        plain = partial(_plain, row)
        category = plain(columns.category)
        if wanted is not None and category not in wanted:
            continue
        query_id = plain(columns.query_id) or f"{number:06d}"
        cells = {name: row.get(getattr(columns, name)) for name in ("source", "targets", "gallery")}
        try:
            names = {name: names_in(cell, clip_of) for name, cell in cells.items() if cell not in (None, "", [])}
        except ValueError as error:
            collector.reject(where, query_id, f"a cell of clips {error}")
            continue
        instruction = row[columns.instruction].strip()
        if "source" not in names or "targets" not in names or not instruction:
            called = (columns.source, columns.targets)
            collector.reject(where, query_id, f"a row needs {called[0]}, {called[1]} and {columns.instruction}")
        elif query_id in known:
            collector.reject(where, query_id, "another query has the same id")
        elif has_galleries not in (None, "gallery" in names):
            collector.reject(where, query_id, f"some queries have a {columns.gallery} and others have none")
        else:
            known.add(query_id)
            number, has_galleries = number + 1, "gallery" in names
            captions = (plain(columns.source_caption), plain(columns.target_caption), plain(columns.modified_caption))
            gallery = names.get("gallery", ())
            (source, *_), targets = names["source"], names["targets"]
            yield ComposedEntry(where, query_id, source, targets, instruction, category, gallery, *captions)


def _plain(row: dict[str, object], name: str) -> str:
    """The text of a cell; nothing where there is none."""
    value = row.get(name)
    return "" if value is None or value != value else str(value).strip()


def entries(dataset: Dataset, collector: Collector) -> Iterator[ComposedEntry]:
    """The queries of a table of one's own."""
    assert isinstance(dataset, ComposedTable)
    columns = dataset.columns
    lists = (columns.targets, columns.gallery)
    optional = [getattr(columns, name) for name in QueryColumns.model_fields]
    rows = table_rows(annotations_of(dataset), columns.required, optional, lists)
    return entries_of(rows, columns, dataset, collector, others=columns.required)


def read(dataset: Dataset, collector: Collector) -> None:
    """Every clip of the pool and of the queries once, with its caption where there is one."""
    adapter = get(dataset.adapter)
    assert adapter.queries is not None
    if pool := pool_of(dataset):
        collector.place = pool
        _add_pool(pool, adapter.extensions, collector)
    collector.place = annotations_of(dataset)
    for entry in adapter.queries(dataset, collector):
        captions = {entry.targets[0]: entry.target_caption, entry.source: entry.source_caption}
        for name in (entry.source, *entry.targets, *entry.gallery):
            if name not in collector.items:
                collector.add(item_of(name, name, captions.get(name, ""), adapter.extensions, where=entry.where))


def pool_of(dataset: Dataset) -> Path | None:
    """The table of all clips, where the configuration names one."""
    return getattr(dataset, "pool", None)


def further_files(dataset: Dataset) -> tuple[Path, ...]:
    """The table of all clips, as a file beside the annotations."""
    pool = pool_of(dataset)
    return () if pool is None else (pool,)


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


def _add_pool(path: Path, known: Sequence[str], collector: Collector) -> None:
    if path.suffix.lower() == ".txt":
        for number, line in lines(path):
            name = line.strip()
            stem = next((name[: -len(ending)] for ending in known if name.lower().endswith(ending)), name)
            collector.add(Item(stem, stem, (name,), (), extensions=tuple(known), where=number))
        return
    rows = table_rows(path, ["item_id"], ("video", "caption", "start_s", "end_s"))
    for where, row in checked(collector, rows, "item_id", ("item_id",), caption=""):
        item_id = row["item_id"]
        try:
            span = seconds(row.get("start_s")), seconds(row.get("end_s"))
        except ValueError as error:
            collector.reject(where, item_id, f"its span is not in seconds: {error}")
            continue
        video = _plain(row, "video") or item_id
        collector.add(item_of(item_id, video, _plain(row, "caption"), known, span, where))


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
    queries=entries,
    further_files=further_files,
    read=read,
)
