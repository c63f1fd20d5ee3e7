"""FineCVR (2025): fine changes between clips, in the three tables of mteb: corpus, queries, and qrels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from perturbations.base.errors import AnnotationError, short
from perturbations.datasets import composed_table
from perturbations.datasets.adapter_registry import Adapter, ComposedEntry, Dataset, annotations_of
from perturbations.datasets.composed_table import QueryColumns, entries_of, item_of, table_rows
from perturbations.datasets.fields import checked, checked_all, text_of
from perturbations.datasets.listing import VIDEO_EXTENSIONS, Collector

_COLUMNS = QueryColumns(query_id="id", source="video", instruction="text")


def further_files(dataset: Dataset) -> tuple[Path, Path]:
    """The tables of answers and of clips, beside the queries: their name with `qrels` and `corpus` for `queries`."""
    path = annotations_of(dataset)
    if "queries" not in path.name:
        raise AnnotationError(f"{path}: name the table of queries: queries.parquet, beside qrels and corpus")
    qrels, corpus = (path.with_name(path.name.replace("queries", name)) for name in ("qrels", "corpus"))
    return qrels, corpus


def entries(dataset: Dataset, collector: Collector) -> Iterator[ComposedEntry]:
    """A query per row of the queries; `video` is the name of its clip, which is in the corpus, too."""
    qrels, _ = further_files(dataset)
    targets: defaultdict[str, list[str]] = defaultdict(list)
    pairs = ("query-id", "corpus-id")
    for where, row in checked_all(qrels, table_rows(qrels, [*pairs, "score"]), pairs):
        query, clip = (row[name] for name in pairs)
        if _is_relevant(row.get("score"), f"{qrels}, {where}"):
            targets[query].append(clip)
    rows = (
        (where, {**row, "targets": targets.get(str(row.get("id")), [])} if isinstance(row, dict) else row)
        for where, row in table_rows(annotations_of(dataset), ["id", "text", "video"])
    )
    return entries_of(rows, _COLUMNS, dataset, collector)


def _is_relevant(score: object, place: str) -> bool:
    """Whether a score is above 0; an empty one is not. Raises `AnnotationError` for what is no number."""
    text = text_of(score).strip()
    try:
        return float(text or 0) > 0
    except ValueError:
        raise AnnotationError(f"{place}: the score is {short(text)}, not a number; above 0 a clip answers") from None


def read(dataset: Dataset, collector: Collector) -> None:
    """Every clip of the corpus, whose file is `<id>.mp4`, and those of queries that are not in it."""
    _, collector.place = further_files(dataset)
    for where, row in checked(collector, table_rows(collector.place, ["id"]), ["id"]):
        collector.add(item_of(row["id"], row["id"], "", VIDEO_EXTENSIONS, where=where))
    composed_table.read(dataset, collector)


ADAPTER = Adapter(
    name="fine_cvr",
    title="FineCVR",
    reference="openreview wGa2plE8ka",
    url="https://huggingface.co/datasets/syn-omni-sony/finecvr",
    annotations="queries.parquet, beside qrels.parquet and corpus.parquet",
    published="2,000 queries, 2,165 clips",
    queries=entries,
    further_files=further_files,
    gallery="global_distinct",
    source_in_gallery=True,
    read=read,
)
