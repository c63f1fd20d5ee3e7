"""The parts of the report that the template draws, sections of tables, figures and text, and what a reader chooses."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pandas as pd

from perturbations.evaluation.page import figures
from perturbations.evaluation.page.page_tables import PageTable, file_name
from perturbations.evaluation.rows import backends_of
from perturbations.models import registry as models
from perturbations.suites import registry
from perturbations.tta.methods import registry as methods

DIRECTIONS = {
    "v2t": "video-to-text (v2t)",
    "t2v": "text-to-video (t2v)",
    "composed": "clip and instruction to clip",
}
_HASH = re.compile("-[0-9a-f]{8}(?=@|$)")
"""That of a configured model's key, before a composed gallery's name; a name that a user gives has none."""
SIDES = {"query": "queries perturbed", "gallery": "gallery perturbed", "both": "both perturbed"}


@dataclass(frozen=True)
class Figure:
    """A picture inside the page, and a file beside it: its SVG, what is on it, its caption, and the file's name."""

    svg: str
    alt: str
    caption: str
    name: str = ""
    kind: str = "figure"

    @property
    def source(self) -> str:
        """The address of its data."""
        return figures.address(self.svg)

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.name}.svg"


@dataclass(frozen=True)
class Group:
    """Parts that are drawn together.

    Attributes:
        parts: what is drawn.
        title: what must be chosen to see them; "" where they are not folded.
        views: the choices of the page under which they are shown; none where they always are.
        metric: the metric of which they are, if they are of one.
    """

    parts: Sequence[PagePart]
    title: str = ""
    views: Sequence[str] = ()
    metric: str = ""
    kind: str = "group"


PagePart = PageTable | Figure | Group | str


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    anchor: str
    title: str
    parts: Sequence[PagePart] = field(default_factory=list)


def tables_in(parts: Iterable[PagePart]) -> Iterator[PageTable]:
    """The tables among parts, also within groups."""
    return (part for part in _leaves(parts) if isinstance(part, PageTable))


def figures_in(parts: Iterable[PagePart]) -> Iterator[Figure]:
    """The figures among parts, also within groups."""
    return (part for part in _leaves(parts) if isinstance(part, Figure))


def _leaves(parts: Iterable[PagePart]) -> Iterator[PageTable | Figure | str]:
    for part in parts:
        if isinstance(part, Group):
            yield from _leaves(part.parts)
        else:
            yield part


def with_own_files(parts: Iterable[PagePart], taken: set[str]) -> Iterator[PagePart]:
    """The parts, the files of each with a name that no part before it has; `taken` holds and gets these names."""
    for part in parts:
        if isinstance(part, Group):
            yield replace(part, parts=[*with_own_files(part.parts, taken)])
        elif isinstance(part, PageTable | Figure):
            own = file_name(part.caption)
            names = itertools.chain([own], (f"{own}_{number}" for number in itertools.count(2)))
            name = next(name for name in names if name.casefold() not in taken)  # some file systems know no case
            taken.add(name.casefold())
            yield replace(part, name=name)
        else:
            yield part


def declared_by(suite: str) -> Sequence[registry.Perturbation]:
    """The perturbations of a suite in the paper's order; none for results of a suite that is no longer there."""
    return registry.suites()[suite].perturbations if suite in registry.suites() else ()


def label(suite: str, name: str, backend: str | None) -> str:
    """A perturbation's name in tables: marked where stand-ins made what no paper's numbers compare with.

    `backend` is that of rows of captions, or of results.
    """
    declared = {entry.name: entry for entry in declared_by(suite)}
    makers = backends_of(backend).get("captions", "") if backend and backend.startswith("{") else backend or ""
    marked = name in declared and declared[name].not_comparable and models.stand_ins() & set(makers.split(" + "))
    return f"{name} (not comparable)" if marked else name


def groups(frame: pd.DataFrame, *names: str) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    """The rows grouped by columns of text, sorted by their values."""
    for key, group in frame.groupby(list(names), sort=True):
        yield tuple(map(str, key)), group


def model_names(keys: Iterable[str]) -> dict[str, str]:
    """The name of each model's key in tables: without its hash, where no other key has the same name."""
    bare = {key: _HASH.sub("", key) for key in sorted(set(keys))}
    names = list(bare.values())
    return {key: name if names.count(name) == 1 else key for key, name in bare.items()}


def of_models(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each model, with its name; a frame of one model needs no name: it is empty."""
    keys = sorted(set(frame["model_name"]))
    for key in keys:
        yield key if len(keys) > 1 else "", frame[frame["model_name"] == key]


def method_label(name: str) -> str:
    """What tables call a method, or one setting of it; with a dagger where it needs all queries at once."""
    method, _, setting = name.partition(":")
    return (setting or methods.title_of(method)) + (" †" if needs_all_queries(name) else "")


def needs_all_queries(name: str) -> bool:
    """Whether a method needs all queries at once, so that it does not compete with those that answer each batch."""
    known = methods.methods().get(name.partition(":")[0])
    return known is not None and known.needs_all_queries


def in_order(names: Iterable[str]) -> list[str]:
    """Methods in the order of the papers' tables, the settings of one by label, whose numbers count as numbers."""
    return sorted(dict.fromkeys(map(str, names)), key=_place)


def _place(name: str) -> tuple[int, str, list[str | float]]:
    method, _, label = name.partition(":")
    parts = re.split(r"(\d+\.?\d*)", label)  # every second one is a number
    return methods.place_of(method), method, [float(part) if at % 2 else part for at, part in enumerate(parts)]


def titled(*words: str) -> str:
    """The words that there are, with commas."""
    return ", ".join(word for word in words if word)


def order(column: pd.Series) -> pd.Series:
    """A sort key: methods in the order of the papers' tables, other columns by their values."""
    return column.map(methods.place_of) if column.name == "method" else column


ColumnParts = Mapping[str, Sequence[object]]
"""The parts of a column of a table, by name: those of `PageTable.data`."""


def named(columns: Sequence[tuple[tuple[str, str], ColumnParts]], names: Iterable[str], corner: str) -> pd.DataFrame:
    """The frame of a table: the group and the name of each column with its parts, and the names of the rows."""
    values = [list(own) for _, parts in columns for own in parts.values()]
    frame = pd.DataFrame(dict(enumerate(values)), dtype=object)
    frame.columns = pd.MultiIndex.from_tuples([(*name, part) for name, parts in columns for part in parts])
    return frame.set_axis(pd.MultiIndex.from_tuples([("", name) for name in names], names=["", corner]))


def plain(
    frame: pd.DataFrame, names: Iterable[str], corner: str, marks: Mapping[str, Sequence[str]] | None = None
) -> pd.DataFrame:
    """The frame of a table with one line per row of a frame; `marks` holds the marks of some columns."""
    columns: list[tuple[tuple[str, str], ColumnParts]] = []
    for name in map(str, frame):
        marked = {"mark": marks[name]} if marks and name in marks else {}
        columns.append((("", name), {"value": list(frame[name]), **marked}))
    return named(columns, names, corner)


# --- what can be chosen -----------------------------------------------------------------------------------------------

METRICS = {
    "recall_at_1": "R@1",
    "recall_at_5": "R@5",
    "recall_at_10": "R@10",
    "rsum": "RSUM",
    "median_rank": "MdR",
    "hub_skewness": "Hubness",
}
"""The metrics of the first table, and how the switch names them."""
_OF_SMALL_GALLERIES = {"recall_at_2": "R@2", "recall_at_3": "R@3"}


def metrics_of(rows: pd.DataFrame) -> dict[str, str]:
    """`METRICS`, with R@2 and R@3 where results have them: those of composed retrieval, whose galleries are small."""
    known = {name: title for name, title in _OF_SMALL_GALLERIES.items() if rows[name].notna().any()}
    return {"recall_at_1": METRICS["recall_at_1"], **known, **METRICS}


_DIRECTIONS = ("v2t", "t2v", "composed")
_SIDES = ("query", "gallery", "both", "none")


class RetrievalChoice(NamedTuple):
    """A retrieval that can be chosen; side "none" and suite "" where nothing is perturbed."""

    direction: str
    side: str
    suite: str

    @property
    def name(self) -> str:
        """For the switch: "v2t, query: mlvp"."""
        return f"{self.direction}, {self.side}: {self.suite}" if self.suite else f"{self.direction}, clean"


@dataclass(frozen=True)
class Views:
    """The choices, each with the part of a class by which the page's style finds what is shown.

    `there` are pairs of a dataset and a direction that have results.
    """

    datasets: Sequence[str]
    retrievals: Sequence[RetrievalChoice]
    there: frozenset[tuple[str, str]]

    @property
    def dataset_choices(self) -> list[tuple[str, str]]:
        """The class and the name of each dataset."""
        return [(f"d{place}", name) for place, name in enumerate(self.datasets)]

    @property
    def retrieval_choices(self) -> list[tuple[str, str]]:
        """The class and the name of each retrieval."""
        return [(f"q{place}", retrieval.name) for place, retrieval in enumerate(self.retrievals)]

    def of(self, dataset: str, direction: str = "", side: str = "", suite: str = "") -> list[str]:
        """The views of a dataset that show its direction, side and suite; "" stands for any."""
        own = self.datasets.index(dataset)
        wanted = (direction, side, suite)
        return [
            f"d{own}q{place}"
            for place, retrieval in enumerate(self.retrievals)
            if all(name in ("", own) for name, own in zip(wanted, retrieval, strict=True))
        ]

    @property
    def empty(self) -> list[str]:
        """The views of a dataset and a direction without results."""
        return [
            f"d{at}q{place}"
            for at, dataset in enumerate(self.datasets)
            for place, retrieval in enumerate(self.retrievals)
            if (dataset, retrieval.direction) not in self.there
        ]


def views_of(frame: pd.DataFrame) -> Views:
    """The views of results: videos before captions as queries, perturbed queries before a perturbed gallery."""
    perturbed = frame[frame["suite"] != "clean"]
    columns = ["dataset", "direction", "side", "suite"]
    suites = {(row[0], RetrievalChoice(*row[1:])) for row in perturbed[columns].itertuples(index=False, name=None)}
    there = set(frame[["dataset", "direction"]].itertuples(index=False, name=None))
    with_suites = {(dataset, retrieval.direction) for dataset, retrieval in suites}
    retrievals = {retrieval for _, retrieval in suites}
    # A direction's unperturbed queries are in the table of each of its suites.
    known = {retrieval.direction for retrieval in retrievals}
    retrievals |= {
        RetrievalChoice(direction, "none", "") for _, direction in there - with_suites if direction not in known
    }
    ordered = sorted(retrievals, key=lambda own: (_DIRECTIONS.index(own.direction), _SIDES.index(own.side), own.suite))
    datasets = sorted(set(frame["dataset"]))
    if ordered:  # what is chosen at first has results
        first = ordered[0]
        datasets.sort(key=lambda name: ((name, first) not in suites, (name, first.direction) not in there))
    return Views(datasets, ordered, frozenset(there))
