"""What a reader of the report chooses: a dataset, and a retrieval: its direction, its perturbed side and the suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

METRICS = {
    "recall_at_1": "R@1",
    "recall_at_5": "R@5",
    "recall_at_10": "R@10",
    "rsum": "RSUM",
    "median_rank": "MdR",
    "hub_skewness": "Hubness",
}
"""The metrics of the first table, and how the switch names them."""

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

    def choice(self, retrieval: RetrievalChoice) -> str:
        """The class of a retrieval."""
        return f"q{self.retrievals.index(retrieval)}"

    @property
    def empty(self) -> list[str]:
        """The views of a dataset and a direction without results."""
        return [
            f"d{at}q{place}"
            for at, dataset in enumerate(self.datasets)
            for place, retrieval in enumerate(self.retrievals)
            if (dataset, retrieval.direction) not in self.there
        ]


def of(frame: pd.DataFrame) -> Views:
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
