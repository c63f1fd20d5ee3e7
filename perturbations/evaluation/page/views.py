"""What a reader of the report chooses: a dataset, and the queries that were asked (their direction and suite)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

QUERIES = {"v2t": "videos", "t2v": "captions"}
METRICS = {
    "r1": "R@1",
    "r5": "R@5",
    "r10": "R@10",
    "rsum": "RSUM",
    "median_rank": "MdR",
    "hub_skewness": "Hubness",
}
"""The metrics of the first table, and how the switch names them."""


@dataclass(frozen=True)
class Views:
    """The choices, each with the part of a class by which the page's style finds what is shown.

    Attributes:
        datasets: their names.
        queries: directions and suites; the suite is "" where only unperturbed queries were asked.
        there: pairs of a dataset and a direction that have results.
        suites: triples of a dataset, a direction and a suite that have results.
    """

    datasets: Sequence[str]
    queries: Sequence[tuple[str, str]]
    there: frozenset[tuple[str, str]]
    suites: frozenset[tuple[str, str, str]]

    @property
    def dataset_choices(self) -> list[tuple[str, str]]:
        """The class and the name of each dataset."""
        return [(f"d{place}", name) for place, name in enumerate(self.datasets)]

    @property
    def query_choices(self) -> list[tuple[str, str]]:
        """The class and the name of each kind of queries."""
        return [
            (f"q{place}", f"{QUERIES[direction]}{': ' if suite else ''}{suite}")
            for place, (direction, suite) in enumerate(self.queries)
        ]

    @property
    def all(self) -> list[tuple[str, str]]:
        """The classes of each pair of choices."""
        return [
            (of_dataset, of_queries) for of_dataset, _ in self.dataset_choices for of_queries, _ in self.query_choices
        ]

    def of(self, dataset: str, direction: str, suite: str | None = None) -> list[str]:
        """The views that show something of a dataset, a direction and (None: any) suite."""
        own = self.datasets.index(dataset)
        return [
            f"d{own}q{place}"
            for place, (other, its_suite) in enumerate(self.queries)
            if other == direction and suite in (None, its_suite)
        ]

    @property
    def empty(self) -> list[str]:
        """The views of a dataset and a direction without results."""
        return [
            f"d{at}q{place}"
            for at, dataset in enumerate(self.datasets)
            for place, (direction, _) in enumerate(self.queries)
            if (dataset, direction) not in self.there
        ]


def of(frame: pd.DataFrame) -> Views:
    """The views of results: videos before captions, suites by their names."""
    perturbed = frame[frame["suite"] != "clean"]
    suites = set(perturbed[["dataset", "direction", "suite"]].itertuples(index=False, name=None))
    there = set(frame[["dataset", "direction"]].itertuples(index=False, name=None))
    with_suites = {(dataset, direction) for dataset, direction, _ in suites}
    queries = {(direction, suite) for _, direction, suite in suites}
    queries |= {(direction, "") for dataset, direction in there - with_suites}
    if any(suite for _, suite in queries):  # a direction's unperturbed queries are in the table of each of its suites
        queries -= {(direction, "") for direction, suite in queries if suite}
    ordered = sorted(queries, key=lambda pair: (list(QUERIES).index(pair[0]), pair[1]))
    datasets = sorted(set(frame["dataset"]))
    if ordered:  # what is chosen at first has results
        direction, suite = ordered[0]
        datasets.sort(key=lambda name: ((name, direction, suite) not in suites, (name, direction) not in there))
    return Views(datasets, ordered, frozenset(there), frozenset(suites))
