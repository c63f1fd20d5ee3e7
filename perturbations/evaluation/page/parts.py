"""The parts of the page that the template draws: sections of tables, figures and text, and the names in them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import quote

import pandas as pd

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
SIDES = {"query": "queries perturbed", "gallery": "gallery perturbed", "both": "both perturbed"}
_SIDES = (*SIDES, "none")
_HASH = re.compile("-[0-9a-f]{8}(?=@|$)")
"""That of a configured model's key, before a composed gallery's name; a name that a user gives has none."""


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
        return "data:image/svg+xml," + quote(self.svg, safe=" /:=,;'()!@$*+?{}[]|~")

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.name}.svg"


@dataclass(frozen=True)
class Folded:
    """Parts that are seen when their title is chosen."""

    title: str
    parts: Sequence[PagePart]
    kind: str = "folded"


PagePart = PageTable | Figure | Folded | str


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    anchor: str
    title: str
    parts: Sequence[PagePart] = field(default_factory=list)


def leaves(parts: Iterable[PagePart]) -> Iterator[PageTable | Figure | str]:
    """The tables, figures and texts among parts, also folded ones."""
    for part in parts:
        if isinstance(part, Folded):
            yield from leaves(part.parts)
        else:
            yield part


def with_own_files(parts: Iterable[PagePart], taken: set[str]) -> Iterator[PagePart]:
    """The parts, the files of each with a name that no part before it has; `taken` holds and gets these names."""
    for part in parts:
        if isinstance(part, Folded):
            yield replace(part, parts=[*with_own_files(part.parts, taken)])
        elif isinstance(part, PageTable | Figure):
            own = file_name(part.caption)
            names = itertools.chain([own], (f"{own}_{number}" for number in itertools.count(2)))
            name = next(name for name in names if name.casefold() not in taken)  # some file systems know no case
            taken.add(name.casefold())
            yield replace(part, name=name)
        else:
            yield part


class RetrievalChoice(NamedTuple):
    """What a leaderboard is of; side "none" and suite "" where nothing is perturbed."""

    direction: str
    side: str
    suite: str

    def title(self, dataset: str) -> str:
        """The words of a caption."""
        return titled(dataset, DIRECTIONS[self.direction], SIDES.get(self.side, ""), self.suite)

    def of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Its perturbed rows; the clean ones where nothing is perturbed."""
        names = ["direction", "side", *(["suite"] if self.suite else [])]
        return rows[(rows[names] == list(self)[: len(names)]).all(axis=1)]


def retrievals_of(rows: pd.DataFrame) -> list[RetrievalChoice]:
    """The retrievals of a dataset: videos before captions as queries, perturbed queries before a perturbed gallery."""
    known = {RetrievalChoice(*own) for own in rows[["direction", "side", "suite"]].itertuples(index=False, name=None)}
    perturbed = {own for own in known if own.suite != "clean"}
    # A direction's unperturbed queries are in the table of each of its suites.
    bare = {own.direction for own in known} - {own.direction for own in perturbed}
    perturbed |= {RetrievalChoice(direction, "none", "") for direction in bare}
    return sorted(perturbed, key=lambda own: ([*DIRECTIONS].index(own.direction), _SIDES.index(own.side), own.suite))


# --- names ------------------------------------------------------------------------------------------------------------


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


ColumnParts = Mapping[str, Sequence[object]]
"""The parts of a column of a table, by name: those of `PageTable.data`."""


def named(columns: Sequence[tuple[tuple[str, str], ColumnParts]], names: Iterable[str], corner: str) -> pd.DataFrame:
    """The frame of a table: the group and the name of each column with its parts, and the names of the rows."""
    values = [list(own) for _, parts in columns for own in parts.values()]
    frame = pd.DataFrame(dict(enumerate(values)), dtype=object)
    frame.columns = pd.MultiIndex.from_tuples([(*name, part) for name, parts in columns for part in parts])
    return frame.set_axis(pd.Index(list(names), name=corner))
