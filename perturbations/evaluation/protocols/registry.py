"""The type of a published protocol, the look-up, and its keys below those of a configuration. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from perturbations.base import shelf
from perturbations.base.errors import ConfigError, ShelfError, did_you_mean, short
from perturbations.evaluation.stated import StatedCell
from perturbations.suites import registry as suites
from perturbations.suites.published import Published

_SHELF = "perturbations.evaluation.protocols"

_SECTIONS = ("evaluation", "suites", "composed")
"""The sections of `config.yaml` that a protocol may set."""

_Keys = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class EvaluationProtocol:
    """How one table, or a family of tables of the same runs, was made.

    Attributes:
        name: in `evaluation.protocol`, on pages and in manifests: paper and table.
        paper: the paper's name in published tables: that of the file.
        tables: the numbers of the tables, as in `published.csv`.
        summary: one line for menus.
        datasets: the adapters of the datasets in these tables.
        evaluation, suites, composed: the keys that it sets in these sections; `suites` by the suite's name.
        needs: what the user must bring: key of `evaluation` -> what it is.
        unstated: what the paper leaves open, and what is taken here.
    """

    name: str
    paper: str
    tables: tuple[str, ...]
    summary: str
    datasets: tuple[str, ...]
    evaluation: _Keys = field(default_factory=dict)
    suites: Mapping[str, _Keys] = field(default_factory=dict)
    composed: _Keys = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    unstated: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PaperProtocols:
    """The protocols of one paper: what each file of the shelf declares as `PROTOCOLS`.

    Attributes:
        paper: its name in published tables; the name of the file.
        title: for menus and pages.
        suite: the suite that it introduced, or None.
        metric: the column of results that its robustness scores are of; "rsum" is of both directions.
        scores: its robustness scores: of "gamma_a", "gamma_r", "mmi".
        source: section of the paper that defines these scores of this metric.
        stated: what a cell of its tables states: its key, and whether runs of this package can have it.
        protocols: in the order of its tables.
        not_read: its tables of results whose numbers are not among the published cells, and why.
    """

    paper: str
    title: str
    suite: str | None
    metric: str
    scores: tuple[str, ...]
    source: str
    stated: Callable[[Published], StatedCell]
    protocols: tuple[EvaluationProtocol, ...]
    not_read: Mapping[str, str] = field(default_factory=dict)


@cache
def papers() -> dict[str, PaperProtocols]:
    """Every paper by its name. Raises `ShelfError` where a file and its paper have two names."""
    declared = shelf.things(_SHELF, "PROTOCOLS", PaperProtocols)
    for file, entry in declared.items():
        if {entry.paper, *(protocol.paper for protocol in entry.protocols)} != {file}:
            raise ShelfError(f"{_SHELF}.{file} declares protocols of {entry.paper!r}; give all the name of the file")
    return declared


@cache
def protocols() -> dict[str, EvaluationProtocol]:
    """Every protocol by its name. Raises `ShelfError` where two have one name."""
    flat = {f"{file} {place}": entry for file, own in papers().items() for place, entry in enumerate(own.protocols)}
    return shelf.named("protocol", flat)


def protocol(name: str) -> EvaluationProtocol:
    """The protocol called `name`; raises `ConfigError` with the nearest names when there is none."""
    known = protocols()
    if name not in known:
        near = did_you_mean(name, known)
        raise ConfigError(f"protocol {short(name)} is unknown{near}; `perturb list protocols` lists all")
    return known[name]


def of_suite(suite: str) -> PaperProtocols | None:
    """The paper that introduced a suite; None where no paper's scores are known for it."""
    return next((entry for entry in papers().values() if entry.suite == suite), None)


def applied(raw: Any) -> Any:
    """A configuration, as it is written, above the keys of the protocol that it names.

    Keys that are written replace the protocol's, one by one. What is no configuration, and a protocol that there is
    not, are left to whoever checks types.
    """
    section = raw.get("evaluation") if isinstance(raw, dict) else None
    name = section.get("protocol") if isinstance(section, dict) else None
    if not isinstance(name, str) or name not in protocols():
        return raw
    wanted = protocols()[name]
    result = dict(raw)
    for key, own in (("evaluation", wanted.evaluation), ("composed", wanted.composed)):
        written = raw.get(key)
        if own and (written is None or isinstance(written, dict)):
            result[key] = {**_plain(own), **(written or {})}
    given = raw.get("suites")
    if wanted.suites and (given is None or isinstance(given, dict)):
        result["suites"] = dict(given or {})
        for suite, own in wanted.suites.items():
            written = result["suites"].get(suite)
            if written is None or isinstance(written, dict):
                result["suites"][suite] = {**_plain(own), **(written or {})}
    return result


def replaced(name: str, config: Mapping[str, Any]) -> list[str]:
    """The protocol's keys for which a configuration has other values: "evaluation.severities".

    `config` holds the values of the whole configuration, as plain data.
    """
    wanted = protocol(name)
    sections: dict[str, _Keys] = {"evaluation": wanted.evaluation, "composed": wanted.composed}
    sections |= {f"suites.{suite}": own for suite, own in wanted.suites.items()}
    keys = []
    for section, own in sections.items():
        present: Any = config
        for part in section.split("."):
            present = present.get(part, {})
        keys += [f"{section}.{key}" for key, value in own.items() if not _within(_plain(value), present.get(key))]
    return keys


def lacking(name: str, config: Mapping[str, Any], dataset: str = "", donors: str | None = None) -> list[str]:
    """What the protocol needs of the user and a configuration does not have, one line each.

    `config` holds the values of the section `evaluation`, `donors` is the dataset that a dataset's donors come from.
    """
    wanted = protocol(name)
    lines = [f"evaluation.{key}: {name} needs {what}" for key, what in wanted.needs.items() if config.get(key) is None]
    if donors in (None, dataset) and (taking := _takes_donors(wanted)):
        lines.append(
            f"datasets.{dataset}.donors: {name} needs another dataset, of training clips, for {', '.join(taking)}: the "
            "papers' donors are no clips of the evaluated split"
        )
    return lines


def _takes_donors(wanted: EvaluationProtocol) -> list[str]:
    """The perturbations of a protocol's videos that take frames of other clips."""
    evaluated = wanted.evaluation.get("suites", ())
    names_of = {suite: own.get("perturbations", "all") for suite, own in wanted.suites.items() if suite in evaluated}
    return [
        entry.name
        for suite, names in names_of.items()
        for entry in suites.perturbations(suite, "video")
        if "donors" in entry.parameters(entry.severities[-1]) and (names == "all" or entry.name in names)
    ]


def _plain(value: Any) -> Any:
    """Lists for tuples, and new objects, as YAML gives them."""
    return json.loads(json.dumps(value, default=dict))


def _within(value: Any, present: Any) -> bool:
    """Whether what a configuration holds is the protocol's value; an object may hold more keys, with their defaults."""
    present = _plain(present)
    if isinstance(value, dict) and isinstance(present, dict):
        return all(key in present and _within(own, present[key]) for key, own in value.items())
    if isinstance(present, list) and not isinstance(value, Sequence):
        return bool(present == [value])
    return bool(present == value)
