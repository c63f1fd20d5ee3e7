"""A table of questions and a folder of videos: your own."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase
from typing import Any

from perturbations.base.errors import AnnotationError
from perturbations.datasets import parsing
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of, split_of
from perturbations.datasets.listing import Collector
from perturbations.questions.table import add_all, entries

_TEXTS, _NEEDED = ("question_id", "video"), ("question", "answer")
_FREE = ("options", "start_s", "end_s", "category", "subcategory", "cluster")


def read(dataset: Dataset, collector: Collector) -> None:
    """Rows of `question_id, video, question, answer`, and `options` or a column per option: `a`, `b`, `c`, ..."""
    rows = _rows(annotations_of(dataset), split_of(dataset))
    add_all(entries(collector, rows, _TEXTS, _NEEDED, _fields), collector)


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    options = [row[letter] for letter in ascii_lowercase if letter in row]
    while options and (options[-1] is None or options[-1] != options[-1] or options[-1] == ""):
        options.pop()  # a row may fill fewer columns than others
    own = {name: row[name] for name in (*_TEXTS, *_NEEDED, *_FREE) if name in row}
    more = {name: value for name, value in row.items() if name not in own and name not in ascii_lowercase}
    ids = {name: own[name].strip() for name in _TEXTS}
    return {"options": options, **own, **ids, "more": more}


def _rows(path: Path, split: str) -> parsing.Rows:
    if names := parsing.columns_of(path):
        parsing.check_header(path, (*_TEXTS, *_NEEDED), names)
        if "options" not in names and not {"a", "b"} <= {*names}:
            raise AnnotationError(
                f"{path} has no column 'options', and no columns a, b, c, ...; its columns are {names}"
            )
    return parsing.rows_of(path, names, item_id="question_id", split=split)


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
