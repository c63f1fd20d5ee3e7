"""The report's section of a protocol: published values beside ours, and why they do not compare where they do not.

A published number stands beside a result whose key is what the paper states, and beside no other. There is no verdict
of agreement: whether the weights are the paper's is not recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from perturbations.evaluation.page.intervals import (
    Estimate,
    IntervalSpan,
    ScenarioMean,
    Scores,
    mean_of,
    spans_of,
)
from perturbations.evaluation.page.leaderboard import METRICS
from perturbations.evaluation.page.names import SIDES, method_label, titled
from perturbations.evaluation.page.ranks import run_of
from perturbations.evaluation.page.tables import Cell, Column, PagePart, PageTable, Section, number
from perturbations.evaluation.protocols import registry as protocols
from perturbations.evaluation.protocols.registry import EvaluationProtocol
from perturbations.evaluation.rows import ScenarioKey
from perturbations.evaluation.stated import (
    RUN_KEY,
    StatedPart,
    differences,
    is_method,
    order_matters,
    parts_of,
    sizes_differ,
    verdict,
)
from perturbations.retrieval import gamma_a, gamma_r, mmi
from perturbations.suites.published import Published, values

FORMULAS: Mapping[str, tuple[str, Callable[..., object]]] = {
    "gamma_a": ("absolute robustness", gamma_a),
    "gamma_r": ("relative robustness", gamma_r),
    "mmi": ("MMI", mmi),
}
"""Robustness scores as papers define them."""

_PRINTED = {"mmi": 100}
"""What papers print as a multiple of a score."""
_MEANS = {"mean_recall": ("rsum", 1 / 3)}
"""What papers print as a multiple of a column of results."""
_NAMES = {
    **METRICS,
    **{name: title for name, (title, _) in FORMULAS.items()},
    "median_rank": "MdR",
    "hub_skewness": "Hubness",
    "mmi": "MMI (%)",
    "mean_recall": "mean R",
}
_SPREAD = "_sd"
READ = (
    "Published: the paper's number. Ours: with its 95 % interval over queries; difference: ours less the published "
    "number. A number stands here where the paper states the same dataset, scenarios, model, setting, method, "
    "parameters, batch size and seed. A paper prints no interval, and its weights are not recorded here."
)


@dataclass(frozen=True)
class Beside:
    """A published cell beside our number.

    Attributes:
        cell: the cell.
        model: the name of our model in tables.
        value: ours, in the cell's unit.
        span: its interval.
    """

    cell: Published
    model: str
    value: float
    span: IntervalSpan | None


def of_dataset(of_directions: Mapping[str, Sequence[Scores]]) -> Iterator[PagePart]:
    """The parts for the models of one dataset, by direction; none where no protocol is followed."""
    rows = pd.concat([scores.rows for models in of_directions.values() for scores in models])
    known = protocols.protocols()
    for name in sorted({name for name in rows["protocol"].dropna() if name in known}):
        protocol = known[name]
        paper = protocols.papers()[protocol.paper]
        tables_of = f"Table{'s' if len(protocol.tables) > 1 else ''} {', '.join(protocol.tables)} of "
        where = titled(f"{tables_of if protocol.tables else ''}{paper.title}", protocol.summary)
        yield f"{name} on {rows['dataset'].iloc[0]}: {where}."
        if protocol.unstated:
            yield f"The paper leaves open: {'; '.join(protocol.unstated)}."
        own = rows[rows["protocol"] == name].to_dict("records")
        is_sound, reasons = verdict(protocol, map(_plain, own))
        tables = list(_tables(beside(protocol, of_directions)))
        if is_sound and tables:
            but = f", but for some, because {'; '.join(reasons)}" if reasons else ""
            yield f"Comparable with the published values, if the weights are the paper's{but}."
        elif reasons:
            yield f"Not comparable with the published values, because {'; '.join(reasons)}."
        yield from tables[:1]
        yield from (Section(table.caption, [table]) for table in tables[1:])
        if not tables:
            needs = ": a mean needs all of its scenarios" if is_sound else ""
            yield f"No published number is of what was run here{needs}."


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row of a frame, with None for what is empty."""
    return {str(name): None if value != value else value for name, value in row.items()}


# --- which results a cell stands beside -------------------------------------------------------------------------------

_CONFIGURED = [
    *("gallery_name", "method", "label", "parameters", "seed", "setting"),
    *("steps", "batch_size", "precision"),
]
"""The columns that tell the runs of a model apart, beside its scenarios."""


class _Configured(NamedTuple):
    """One method with one set of parameters and one seed, of one model: its first row, and its rows by scenario."""

    first: dict[str, Any]
    rows: Mapping[ScenarioKey, Mapping[Any, Any]]
    scores: Scores
    setting: str
    seed: int


def beside(protocol: EvaluationProtocol, of_directions: Mapping[str, Sequence[Scores]]) -> Iterator[Beside]:
    """The cells of a protocol's tables whose keys are those of results, in printed order.

    A result counts where it followed the protocol and every scenario of the cell's mean was run.
    """
    configured = {
        direction: [own for scores in models for own in _configured(scores, protocol.name)]
        for direction, models in of_directions.items()
    }
    of_key: dict[tuple[object, ...], list[_Configured]] = {}
    for cell in values(protocol):
        parts = parts_of(cell.parts or "[]")
        members = []
        for part in parts:
            key = part.direction, order_matters(cell), *(getattr(cell, name) for name in RUN_KEY)
            if key not in of_key:
                every = configured.get(part.direction, ())
                of_key[key] = [
                    own for own in every if is_method(cell, own.first) and not any(differences(cell, own.first))
                ]
            members.append(_members(cell, part, of_key[key]))
        known = [row for several in product(*members) if several and (row := _beside(cell, several)) is not None]
        yield from known if cell.stated_model else known[:1]  # random orders have a row beside each model


def _configured(scores: Scores, protocol: str) -> Iterator[_Configured]:
    rows = scores.rows[scores.rows["protocol"] == protocol]
    for _, own in rows.groupby(_CONFIGURED, sort=False, dropna=False):
        records = own.to_dict("records")
        _, setting, seed = run_of(records[0])
        yield _Configured(_plain(records[0]), {run_of(row)[0]: row for row in records}, scores, setting, seed)


def _members(
    cell: Published, part: StatedPart, configured: Sequence[_Configured]
) -> list[tuple[_Configured, StatedPart]]:
    """Those of a cell's runs that have all scenarios of a part of it, of its sizes.

    Of runs that differ in a seed alone, which changes nothing, the one of the stated seed, or the first.
    """
    known: dict[tuple[object, ...], tuple[_Configured, StatedPart]] = {}
    for own in configured:
        rows = [own.rows[run] for run in part.runs if run in own.rows]
        if len(rows) == len(part.runs) and not any(any(sizes_differ(part, row)) for row in rows):
            free = own.seed if order_matters(cell) else None
            key = own.first["model_key"], own.first["label"], own.first["gallery_name"], free
            if key not in known or own.seed == cell.seed:
                known[key] = own, part
    return list(known.values())


def _beside(cell: Published, several: Sequence[tuple[_Configured, StatedPart]]) -> Beside | None:
    """The cell beside results of its directions; None where these are of two models or seeds."""
    if len({(own.first["model_key"], own.first["label"], own.seed) for own, _ in several}) > 1:
        return None
    members = [(own.scores, mean_of(part.runs)) for own, part in several]
    (scores, column), *others = members
    estimate = _estimate(cell, members, several[0][0])
    if estimate[0] != estimate[0]:
        return None
    (span,) = spans_of([estimate]) if others else [scores.own_span(cell.metric, column, estimate)]
    return Beside(cell, scores.model, float(estimate[0]), span)


def _estimate(cell: Published, members: Sequence[tuple[Scores, ScenarioMean]], run: _Configured) -> Estimate:
    """Our number, and where ranks are known the same in each resample; of a deviation the number alone."""
    score = cell.metric.removesuffix(_SPREAD)
    if score in FORMULAS:
        estimate, deviation = score_of(score, cell.of, run.setting, members, run.seed)
        return np.array([deviation]) if cell.metric.endswith(_SPREAD) else _PRINTED.get(score, 1) * estimate
    metric, factor = _MEANS.get(cell.metric, (cell.metric, 1))
    own = [scores.of_seeds(metric, run.setting, column, run.seed)[0] for scores, column in members]
    return factor * np.asarray(sum(own, np.zeros(())))


def score_of(
    score: str, metric: str, method: str, members: Sequence[tuple[Scores, ScenarioMean]], seed: int | None = None
) -> tuple[Estimate, float]:
    """The mean score over scenarios, and the sample deviation over them; of each that of a seed, or the mean over all.

    `members` are summed: directions whose queries are drawn apart. Each has the mean that is asked for, of which only
    scenarios that all of them have count. MSRVTT-P does not define its sigma: this gives 24 of the 25 of Tab. 9 for
    videos, and 31 of 32 for captions.
    """
    named = [{_name(key): key for key, _ in column} for _, column in members]
    shared = [key for key, _ in members[0][1] if all(_name(key) in own for own in named)]
    total: Estimate = np.zeros(1) if shared else np.full(1, np.nan)
    cells = []
    for key, weight in mean_of(shared):
        clean, perturbed = (
            _sum(
                scores.of_seeds(name, method, ((own[_name(key)], 1.0),), seed)
                for (scores, _), own in zip(members, named, strict=True)
            )
            for name in (f"clean_{metric}", metric)
        )
        cell = np.mean(np.asarray(FORMULAS[score][1](clean, perturbed)), axis=0)
        cells.append(float(cell[0]))
        total = total + weight * cell
    return total, float(np.std(cells, ddof=1)) if len(cells) > 1 else float("nan")


def _sum(estimates: Iterable[Estimate]) -> Estimate:
    """The sum of the first seeds of each, as many as all of them have."""
    known = list(estimates)
    seeds = min(map(len, known))
    return np.asarray(sum((own[:seeds] for own in known), np.zeros(())))


def _name(key: ScenarioKey) -> tuple[object, ...]:
    """What a scenario has in common with the one of the other direction."""
    return key.perturbation, key.severity, key.text_perturbation


# --- tables -----------------------------------------------------------------------------------------------------------


def _tables(known: Iterator[Beside]) -> Iterator[PageTable]:
    """A table per published table, model and side, of each of our models."""
    every = sorted(known, key=lambda own: (own.cell.table, _place(own)))
    for _, group in groupby(every, lambda own: (own.cell.table, _place(own))):
        yield _table(list(group))


def _place(own: Beside) -> tuple[str, ...]:
    cell = own.cell
    return own.model, cell.direction, cell.dataset, cell.model, cell.setting, cell.side


_LINES = ("published", "ours", "difference")


def _table(cells: Sequence[Beside]) -> PageTable:
    """Perturbations across; of each method of the paper that we ran, the published value, ours, and the difference."""
    first = cells[0].cell
    columns = list(dict.fromkeys((_metric(own), own.cell.perturbation) for own in cells))
    rows: dict[str, dict[tuple[str, str], dict[bool, Beside]]] = {}
    for own in cells:
        parts = rows.setdefault(_label(own), {}).setdefault((_metric(own), own.cell.perturbation), {})
        parts[own.cell.metric.endswith(_SPREAD)] = own
    lines = [(f"{label}, {what}", what, own) for label, own in rows.items() for what in _LINES]
    data = [Column(*column, [_cell(what, own.get(column, {})) for _, what, own in lines]) for column in columns]
    names = [label for label, _, _ in lines]
    side = "clean" if first.side == "none" else SIDES.get(first.side, "")
    beside_what = titled(first.dataset, first.model, first.setting, side)
    caption = f"{titled(cells[0].model, first.direction)}, beside Table {first.table}: {beside_what}"
    notes = dict.fromkeys(text for own in cells for text in (own.cell.contradiction, own.cell.note) if text)
    return PageTable(caption, "method", names, data, "; ".join(notes), style="stacked")


def _metric(own: Beside) -> str:
    metric = own.cell.metric.removesuffix(_SPREAD)
    return _NAMES.get(metric, metric.removeprefix("hub_").replace("recall_at_", "R@").replace("_", " "))


def _label(own: Beside) -> str:
    """What tells the rows of a table apart: the method, what differs in it, and how clips were read."""
    cell = own.cell
    changed = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in sorted(json.loads(cell.changed).items())
    )
    seed = f"seed {cell.seed}" if cell.note.startswith("seed ") else ""
    return titled(method_label(cell.stated_method), changed, seed, "middle frame" if cell.frames == "middle" else "")


def _cell(what: str, parts: Mapping[bool, Beside]) -> Cell:
    """A number with its deviation and its interval."""
    own = parts.get(False) or parts.get(True)
    if own is None:
        return Cell()
    form = f".{len(own.cell.printed.partition('.')[2])}f"
    spread = parts.get(True) if False in parts else None
    if what == "published":
        return Cell(own.cell.printed, spread.cell.printed if spread else "")
    if what == "difference":
        return Cell(number(own.value - own.cell.value, f"+{form}"))
    low, high = (number(end, form) for end in own.span) if own.span else ("", "")
    return Cell(number(own.value, form), number(spread.value, form) if spread else "", low=low, high=high)
