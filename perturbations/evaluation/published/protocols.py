"""The published protocols of `protocols.yaml`: their look-up, and their keys below those of a configuration."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from perturbations.base.errors import ConfigError, did_you_mean, short
from perturbations.suites import published_cells
from perturbations.suites import suite_registry as suites
from perturbations.tta.methods import method_registry as methods

_FILE = Path(__file__).with_name("protocols.yaml")

_Keys = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class EvaluationProtocol:
    """How one table, or a family of tables of the same runs, was made.

    Attributes:
        name: in `evaluation.protocol`, on pages and in manifests: paper and table.
        paper: the paper's name in published tables.
        tables: the numbers of the tables, as in the published cells.
        summary: one line for menus.
        datasets: the adapters of the datasets in these tables.
        evaluation, suites, composed: the keys that it sets in these sections; in `suites`, by the suite's name.
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

    @property
    def cells(self) -> list[published_cells.Published]:
        """The published cells of its tables, in printed order."""
        return published_cells.values(self.paper, self.tables)


@cache
def _read() -> Any:
    return yaml.safe_load(_FILE.read_text(encoding="utf-8"))


def papers() -> dict[str, _Keys]:
    """The facts of each paper, by its name in published tables.

    `title` is for menus and pages, `suite` is the suite that the paper introduced, if any, and `not_read` lists its
    tables of results that are not among the published cells, with the reasons.
    """
    known: dict[str, _Keys] = _read()["papers"]
    return known


@cache
def protocols() -> dict[str, EvaluationProtocol]:
    """Every protocol by its name, paper by paper in the order of tables."""
    of_lists: dict[str, dict[str, Any]] = {
        name: {key: tuple(value) if isinstance(value, list) else value for key, value in own.items()}
        for name, own in _read()["protocols"].items()
    }
    declared = [EvaluationProtocol(name=name, **own) for name, own in of_lists.items()]
    return {own.name: own for paper in papers() for own in declared if own.paper == paper}


def protocol(name: str) -> EvaluationProtocol:
    """The protocol called `name`; raises `ConfigError` with the nearest names when there is none."""
    known = protocols()
    if name not in known:
        near = did_you_mean(name, known)
        raise ConfigError(f"protocol {short(name)} is unknown{near}; `perturb list protocols` lists all")
    return known[name]


def applied(raw: Any) -> Any:
    """A configuration, as it is written, above the keys of the protocol that it names.

    Written keys replace the protocol's keys, one by one. Wrong types and unknown protocols are reported later, by the
    check of types.
    """
    section = raw.get("evaluation") if isinstance(raw, dict) else None
    name = section.get("protocol") if isinstance(section, dict) else None
    if not isinstance(name, str) or name not in protocols():
        return raw
    chosen = protocols()[name]
    result = dict(raw)
    for key, own in (("evaluation", chosen.evaluation), ("composed", chosen.composed)):
        if own:
            result[key] = _below(raw.get(key), own)
    if chosen.suites and isinstance(raw.get("suites"), dict | None):
        given = raw.get("suites") or {}
        result["suites"] = given | {suite: _below(given.get(suite), own) for suite, own in chosen.suites.items()}
    return result


def _below(written: Any, own: _Keys) -> Any:
    """A section as it is written, above a protocol's keys; a value that is no section stays as it is."""
    copy = json.loads(json.dumps(own))  # a reader may change what it gets
    return copy | (written or {}) if isinstance(written, dict | None) else written


def lacking(
    name: str,
    config: Mapping[str, Any],
    dataset: str = "",
    donors: str | None = None,
    videos: _Keys | None = None,
    same: Collection[str] = (),
) -> list[str]:
    """A line for each thing that the protocol needs from the user and that the configuration lacks.

    Args:
        name: the protocol.
        config: the values of the section `evaluation`.
        dataset, donors: the evaluated dataset, and the dataset that its donors come from.
        videos: the perturbations of videos of each evaluated suite, a list or "all"; None: the protocol's.
        same: the datasets that list the evaluated items under another name.
    """
    chosen = protocol(name)
    needs = dict(chosen.needs)
    bank = needs.pop("querybank", None)  # without a bank, a method that needs one is refused in any case
    lines = [f"evaluation.{key}: {name} needs {what}" for key, what in needs.items() if config.get(key) is None]
    named = [entry if isinstance(entry, str) else entry["name"] for entry in config.get("methods", ())]
    if bank and config.get("querybank") in (dataset, *same) and any(methods.method(own).needs_bank for own in named):
        lines.append(f"evaluation.querybank: {name} needs {bank}, and {config['querybank']} has the evaluated ones")
    if videos is None:
        evaluated = chosen.evaluation.get("suites", ())
        videos = {suite: own.get("perturbations", "all") for suite, own in chosen.suites.items() if suite in evaluated}
    if donors in (None, dataset, *same) and (taking := _takes_donors(videos)):
        lines.append(
            f"datasets.{dataset}.donors: {name} needs another dataset, of training clips, for {', '.join(taking)}: the "
            "papers' donors are no clips of the evaluated split"
        )
    return lines


def _takes_donors(videos: _Keys) -> list[str]:
    """The perturbations of videos that take frames of other clips."""
    return [
        entry.name
        for suite, names in videos.items()
        for entry in suites.perturbations(suite, "video")
        if "donors" in entry.parameters(entry.severities[-1]) and (names == "all" or entry.name in names)
    ]
