"""What the page calls models, methods, perturbations and retrievals, and their order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from perturbations.evaluation.result_rows import backends_of
from perturbations.models import role_registry as models
from perturbations.suites import suite_registry
from perturbations.tta.methods import method_registry as methods

DIRECTIONS = {
    "v2t": "video-to-text (v2t)",
    "t2v": "text-to-video (t2v)",
    "composed": "clip and instruction to clip",
}
SIDES = {"query": "queries perturbed", "gallery": "gallery perturbed", "both": "both perturbed"}
_SIDES = (*SIDES, "none")
_HASH = re.compile("-[0-9a-f]{8}(?=@|$)")
"""The hash in a configured model's key, before a composed gallery's name; a name that a user gives has no hash."""


class RetrievalChoice(NamedTuple):
    """The retrieval of a leaderboard: side "none", suite "" where nothing is perturbed; a composed gallery's name."""

    direction: str
    side: str
    suite: str
    gallery: str = ""

    def title(self, dataset: str) -> str:
        """The words for a table's caption."""
        return titled(dataset, DIRECTIONS[self.direction], self.gallery, SIDES.get(self.side, ""), self.suite)


def retrievals_of(rows: pd.DataFrame) -> list[RetrievalChoice]:
    """The retrievals of a dataset: videos before captions as queries, perturbed queries before a perturbed gallery."""
    known = {RetrievalChoice(*own) for own in rows[["direction", "side", "suite"]].itertuples(index=False, name=None)}
    perturbed = {own for own in known if own.suite != "clean"}
    # A direction's unperturbed queries are in the table of each of its suites.
    bare = {own.direction for own in known} - {own.direction for own in perturbed}
    perturbed |= {RetrievalChoice(direction, "none", "") for direction in bare}
    return sorted(perturbed, key=lambda own: ([*DIRECTIONS].index(own.direction), _SIDES.index(own.side), own.suite))


def declared_by(suite: str) -> Sequence[suite_registry.Perturbation]:
    """The perturbations of a suite in the paper's order; empty for a suite that no longer exists."""
    return suite_registry.suites()[suite].perturbations if suite in suite_registry.suites() else ()


def label(suite: str, name: str, backend: str | None) -> str:
    """A perturbation's name in tables: marked where stand-ins made it, so that it does not compare with papers.

    `backend` is the column of a row of results.
    """
    makers = set(backends_of(backend).get("captions", "").split(" + "))
    departs = any(entry.not_comparable for entry in declared_by(suite) if entry.name == name)
    return f"{name} (not comparable)" if departs and models.stand_ins() & makers else name


def groups(frame: pd.DataFrame, *names: str) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    """The rows grouped by columns of text, sorted by their values."""
    for key, group in frame.groupby(list(names), sort=True, observed=True):
        yield tuple(map(str, key)), group


def model_names(keys: Iterable[str]) -> dict[str, str]:
    """The name of each model's key in tables: without its hash, where no other key has the same name."""
    bare = {key: _HASH.sub("", key) for key in sorted(set(keys))}
    names = list(bare.values())
    return {key: name if names.count(name) == 1 else key for key, name in bare.items()}


def setting_of(method: str, label: object) -> str:
    """The name of a method's setting: the method's name, and after a colon the label where it is not the title."""
    usual = methods.title_of(method), methods.baseline().name
    return f"{method}:{label}" if isinstance(label, str) and label != usual[0] and method != usual[1] else method


def method_label(name: str) -> str:
    """What tables call a method, or one setting of it; with a dagger where it needs all queries at once."""
    method, _, setting = name.partition(":")
    return (setting or methods.title_of(method)) + (" †" if needs_all_queries(name) else "")


def method_labels(names: Iterable[str]) -> str:
    """The labels of methods as words: "TENT, SAR and TCR"."""
    *others, last = ["", *map(method_label, names)]
    return " and ".join(filter(None, [", ".join(others[1:]), last]))


def severities_text(severities: Sequence[int]) -> str:
    """Severities in ascending order as words: "5", "1 to 5", "1, 3, 5"."""
    if len(severities) > 2 and list(severities) == list(range(severities[0], severities[-1] + 1)):
        return f"{severities[0]} to {severities[-1]}"
    return ", ".join(map(str, severities))


def row_names(pairs: Iterable[tuple[str, str]]) -> tuple[str, list[str]]:
    """For rows of models and methods: what they are, and the name of each row.

    Models are named where there are several, and where no method was run; methods are named where one was run.
    """
    known = list(pairs)
    adapted = any(method != methods.baseline().name for _, method in known)
    several = not adapted or len({model for model, _ in known}) > 1
    names = [titled(model if several else "", method_label(method) if adapted else "") for model, method in known]
    return titled("model" if several else "", "method" if adapted else ""), names


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
    """The words that are not empty, with commas."""
    return ", ".join(filter(None, words))
