"""The parts of the report that the template draws: sections of tables, figures and headings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

import pandas as pd

from perturbations.base.records import digest
from perturbations.evaluation.page import exported
from perturbations.models import registry as models
from perturbations.suites import registry
from perturbations.tta.methods import registry as methods

DIRECTIONS = {
    "v2t": "videos ask for captions (v2t)",
    "t2v": "captions ask for videos (t2v)",
    "composed": "clips and instructions ask for clips",
}
SIDES = {"query": "queries perturbed", "gallery": "gallery perturbed", "both": "both perturbed"}


@dataclass(frozen=True)
class Cell:
    """A number of a table, or a heading.

    Attributes:
        text: the number.
        span: how many columns a heading is of.
        mark: "best", "second" or "tie" (not separable from the best one); "".
        average: of a heading: whether its column is a mean of others.
        spread: the standard deviation of what the number is the mean of.
        change: the difference to the baseline, with its sign.
        interval: the two ends of the interval of the change; of the number where there is no change.
        first: of a heading: whether a group of columns begins with it.
    """

    text: str
    span: int = 1
    mark: str = ""
    average: bool = False
    spread: str = ""
    change: str = ""
    interval: tuple[str, str] | tuple[()] = ()
    first: bool = False


@dataclass(frozen=True)
class PlotLine:
    """A row of a table; without cells, the heading of the rows below it."""

    name: str
    cells: Sequence[Cell]
    choice: str = ""
    """The switch that the row's name sets, if any."""


@dataclass(frozen=True)
class PageTable:
    """A table.

    Attributes:
        caption: its title.
        head: one or two rows of headings.
        body: its rows.
        stacked: whether the parts of a cell may stand below each other, to fit a small screen.
        left: whether it holds words and not numbers.
        grouped: what the groups of columns are ("model"), where each has the same columns; CSV has rows for them.
        note: how to read it.
        forms: as which files it is there, of "csv", "md" and "tex": those that papers print as more than CSV.
    """

    caption: str
    head: Sequence[Sequence[Cell]]
    body: Sequence[PlotLine]
    stacked: bool = False
    left: bool = False
    grouped: str = ""
    note: str = ""
    forms: Sequence[str] = ("csv",)
    kind: str = "table"

    @property
    def width(self) -> int:
        """The number of columns."""
        return sum(cell.span for cell in self.head[0])

    @property
    def files(self) -> list[tuple[str, str, str]]:
        """The table in its forms: what a link says, its address, and the name of the file."""
        name = re.sub(r"[^0-9A-Za-z@]+", "_", self.caption).strip("_")
        if len(name) > _LONGEST:  # what tells two captions apart may stand at their ends
            name = f"{name[: _LONGEST - 9]}_{digest(self.caption)[:8]}"
        return [
            (title, f"data:{kind};charset=utf-8,{quote(write(self), safe=_SAFE)}", f"{name}.{ending}")
            for ending, (title, kind, write) in exported.FORMS.items()
            if ending in self.forms
        ]


@dataclass(frozen=True)
class Figure:
    """A picture inside the page."""

    source: str
    alt: str
    caption: str
    kind: str = "figure"


@dataclass(frozen=True)
class Plot:
    """A small plot in pixels: (class of the style, path) of each curve, (place, text) of each mark of both axes."""

    title: str
    curves: Sequence[tuple[str, str]]
    across: Sequence[tuple[float, str]]
    up: Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Plots:
    """Small plots with the same axes, side by side, with one caption and one legend of (style, name)."""

    caption: str
    alt: str
    plots: Sequence[Plot]
    x: str
    y: str
    legend: Sequence[tuple[str, str]] = ()
    kind: str = "plots"


@dataclass(frozen=True)
class Pictures:
    """Small pictures side by side, with one caption: (source, title) of each."""

    caption: str
    alt: str
    pictures: Sequence[tuple[str, str]]
    kind: str = "pictures"


@dataclass(frozen=True)
class Folded:
    """Parts that are shown when their title is chosen."""

    title: str
    parts: Sequence[PagePart]
    kind: str = "folded"


@dataclass(frozen=True)
class PageRow:
    """Parts that stand side by side where the screen is wide enough."""

    parts: Sequence[PagePart]
    kind: str = "row"


@dataclass(frozen=True)
class Text:
    """A paragraph between parts."""

    text: str
    kind: str = "text"


@dataclass(frozen=True)
class Panel:
    """Parts that are shown while one of `views` is chosen, and the metric, where it is of one metric."""

    views: Sequence[str]
    parts: Sequence[PagePart]
    metric: str = ""
    kind: str = "panel"


PagePart = PageTable | Figure | Plots | Pictures | Folded | PageRow | Text | Panel


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    anchor: str
    title: str
    texts: Sequence[str] = ()
    parts: Sequence[PagePart] = field(default_factory=list)


_SAFE = " ,:;/()[]+@$!*'~|{}\\"  # what an address in quotes may hold as it is; fewer escapes, a smaller page
_LONGEST = 80


def declared_by(suite: str) -> Sequence[registry.Perturbation]:
    """The perturbations of a suite in the paper's order; none for results of a suite that is no longer there."""
    return registry.suites()[suite].perturbations if suite in registry.suites() else ()


def label(suite: str, name: str, backend: str | None) -> str:
    """A perturbation's name in tables: marked where stand-ins made what no paper's numbers compare with.

    `backend` is that of rows of captions, or of results.
    """
    declared = {entry.name: entry for entry in declared_by(suite)}
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


def method_label(name: str) -> str:
    """A method's title; with a dagger where it needs all queries at once, which online methods do not."""
    known = methods.methods().get(name)
    return methods.title_of(name) + (" †" if known is not None and known.needs_all_queries else "")


def online(values: Sequence[float], names: Sequence[str]) -> list[float]:
    """The values of methods that answer each batch at once; NaN for others, which do not compete with them."""
    known = methods.methods()
    return [
        float("nan") if name in known and known[name].needs_all_queries else value
        for value, name in zip(values, names, strict=True)
    ]


def titled(*words: str) -> str:
    """The words that there are, with commas."""
    return ", ".join(word for word in words if word)


def order(column: pd.Series) -> pd.Series:
    """A sort key: methods in the order of the papers' tables, other columns by their values."""
    return column.map(methods.place_of) if column.name == "method" else column


def number(value: float, form: str) -> str:
    """A number in a form; a rounded zero has no sign, and NaN is empty."""
    if value != value:
        return ""
    text = format(value, form)
    return text.lstrip("+-") if form.endswith(("f", "d")) and not text.strip("+-0.,") else text


def plural(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plain_table(
    caption: str, frame: pd.DataFrame, formats: dict[str, str], names: Iterable[str], marks: Mapping[str, Sequence[str]]
) -> PageTable:
    """A table with one line per row of a frame and the columns named in `formats`; a missing value is left empty.

    `marks` holds the marks of some columns.
    """
    head = [Cell(""), *(Cell(name.replace("_", " ")) for name in formats)]
    body = []
    for place, (name, row) in enumerate(zip(names, frame.to_dict("records"), strict=True)):
        cells = [
            Cell("" if pd.isna(row[key]) else number(row[key], how), mark=marks[key][place] if key in marks else "")
            for key, how in formats.items()
        ]
        body.append(PlotLine(name, cells))
    return PageTable(caption, [head], body)
