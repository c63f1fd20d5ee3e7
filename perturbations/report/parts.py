"""The parts of the report that the template draws: sections of tables, figures and headings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pandas as pd

from perturbations.models import registry as models
from perturbations.suites import registry
from perturbations.tta.methods import registry as methods

DIRECTIONS = {"v2t": "videos ask for captions (v2t)", "t2v": "captions ask for videos (t2v)"}


@dataclass(frozen=True)
class Cell:
    """A number of a table, or a heading."""

    text: str
    span: int = 1
    best: bool = False
    second: bool = False
    average: bool = False


@dataclass(frozen=True)
class Line:
    """A row of a table; without cells, the heading of the rows below it."""

    name: str
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Table:
    """A table; `head` has one or two rows of headings."""

    caption: str
    head: Sequence[Sequence[Cell]]
    body: Sequence[Line]
    kind: str = "table"


@dataclass(frozen=True)
class Figure:
    """A picture inside the page."""

    source: str
    alt: str
    caption: str
    width: int | None = None
    kind: str = "figure"


@dataclass(frozen=True)
class Heading:
    """A heading between parts."""

    text: str
    kind: str = "heading"


Part = Table | Figure | Heading


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    anchor: str
    title: str
    texts: Sequence[str] = ()
    parts: Sequence[Part] = field(default_factory=list)


def label(suite: str, name: str, backend: str | None) -> str:
    """A perturbation's name in tables: marked where stand-ins made what no paper's numbers compare with.

    `backend` is that of rows of captions, or of results.
    """
    declared = {entry.name: entry for entry in registry.suite(suite).perturbations}
    players = str(json.loads(backend).get("captions", "")) if backend and backend.startswith("{") else backend or ""
    marked = name in declared and declared[name].not_comparable and models.stand_ins() & set(players.split(" + "))
    return f"{name} (not comparable)" if marked else name


def groups(frame: pd.DataFrame, *names: str) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    """The rows grouped by columns of text, sorted by their values."""
    for key, group in frame.groupby(list(names), sort=True):
        yield tuple(map(str, key)), group


def model_names(keys: Iterable[str]) -> dict[str, str]:
    """The name of each model's key in tables: without its hash, where no other key has the same name."""
    bare = {key: key.rpartition("-")[0] or key for key in sorted(set(keys))}
    names = list(bare.values())
    return {key: name if names.count(name) == 1 else key for key, name in bare.items()}


def of_models(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each model, with its name; a frame of one model needs no name: it is empty."""
    keys = sorted(set(frame["model_name"]))
    for key in keys:
        yield key if len(keys) > 1 else "", frame[frame["model_name"] == key]


def titled(*words: str) -> str:
    """The words that there are, with commas."""
    return ", ".join(word for word in words if word)


def order(column: pd.Series) -> pd.Series:
    """A sort key: methods in the order of the papers' tables, other columns by their values."""
    return column.map(methods.place_of) if column.name == "method" else column


def plural(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plain_table(caption: str, frame: pd.DataFrame, formats: dict[str, str], names: Iterable[str]) -> Table:
    """A table with one line per row of a frame and the columns named in `formats`; a missing value is left empty."""
    head = [Cell(""), *(Cell(name.replace("_", " ")) for name in formats)]
    body = []
    for name, row in zip(names, frame.to_dict("records"), strict=True):
        cells = ["" if pd.isna(row[key]) else format(row[key], how) for key, how in formats.items()]
        body.append(Line(name, [Cell(text) for text in cells]))
    return Table(caption, [head], body)
