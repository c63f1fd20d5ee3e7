"""A table of questions and a folder of videos: your own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from string import ascii_lowercase

from perturbations.base.errors import AnnotationError
from perturbations.datasets.listing import AnnotationPlace, Collector
from perturbations.datasets.parsing import (
    check_header,
    checked,
    header,
    json_lines,
    json_rows,
    parquet,
    parquet_header,
    table,
)
from perturbations.datasets.registry import Adapter, Dataset, annotations_of, split_of
from perturbations.questions.table import Entry, add_all, row_columns

_NEEDED = ("question_id", "video", "question", "answer")
_FREE = ("options", "start_s", "end_s", "category", "subcategory", "cluster")


def read(dataset: Dataset, collector: Collector) -> None:
    """Rows of `question_id, video, question, answer`, and `options` or a column per option: `a`, `b`, `c`, ..."""
    rows = _rows(annotations_of(dataset), split_of(dataset))
    texts = ("question_id", "video")
    add_all(
        (
            Entry(
                where=where,
                question_id=row["question_id"].strip(),
                video=row["video"].strip(),
                question=row["question"],
                options=row["options"] if "options" in row else _of_columns(row),
                answer=row["answer"],
                source_index=number,
                start_s=row.get("start_s"),
                end_s=row.get("end_s"),
                category=row.get("category"),
                subcategory=row.get("subcategory"),
                cluster=str(row.get("cluster") or ""),
                more=row_columns(row, (*_NEEDED, *_FREE, *ascii_lowercase)),
            )
            for number, (where, row) in enumerate(checked(collector, rows, "question_id", texts, _NEEDED, caption=""))
        ),
        collector,
    )


def _of_columns(row: dict[str, object]) -> list[object]:
    """The options of columns `a`, `b`, ...; a row may fill fewer of them than others."""
    options = [row[letter] for letter in ascii_lowercase if letter in row]
    while options and (options[-1] is None or options[-1] != options[-1] or options[-1] == ""):
        options.pop()
    return options


def _rows(path: Path, split: str) -> Iterable[tuple[AnnotationPlace, object]]:
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv"):
        mark = "\t" if kind == ".tsv" else ","
        _check_options(path, header(path, mark))
        return table(path, _NEEDED, mark, "")
    if kind == ".parquet":
        names = parquet_header(path)
        check_header(path, _NEEDED, names)
        _check_options(path, names)
        return parquet(path, names, lists=names)
    if kind == ".jsonl":
        return json_lines(path)
    if kind == ".json":
        return json_rows(path, split)
    raise AnnotationError(f"{path}: questions must be a .csv, .tsv, .json, .jsonl or .parquet file")


def _check_options(path: Path, names: list[str]) -> None:
    if "options" not in names and not {"a", "b"} <= {*names}:
        check_header(path, _NEEDED, names)
        raise AnnotationError(f"{path} has no column 'options', and no columns a, b, c, ...; its columns are {names}")


ADAPTER = Adapter(
    name="questions",
    title="your own questions",
    reference="",
    annotations="a .csv, .tsv, .json, .jsonl or .parquet file of questions, options and answers",
    published="",
    spans=True,
    questions=True,
    read=read,
)
