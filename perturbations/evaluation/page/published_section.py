"""The report's section of a protocol: published values beside ours, and why they do not compare where they do not.

A published number is shown beside a result whose key is what the paper states, and beside no other. Whether it compares
is asked cell by cell. There is no verdict of agreement: whether the weights are the paper's is not recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perturbations.base.shown import plural
from perturbations.evaluation.page.displayed_names import SIDES, method_label, titled
from perturbations.evaluation.page.leaderboard import METRICS
from perturbations.evaluation.page.marks import Estimate, IntervalSpan, span_of
from perturbations.evaluation.page.page_tables import Cell, PagePart, PageTable, Section, number
from perturbations.evaluation.page.query_ranks import run_of
from perturbations.evaluation.page.scores import Scores, mean_of
from perturbations.evaluation.published import protocols
from perturbations.evaluation.published.protocols import EvaluationProtocol
from perturbations.evaluation.published.verdict import (
    RUN_KEY,
    Part,
    counted,
    departures,
    differences,
    is_method,
    order_matters,
    parts_of,
    sizes_differ,
)
from perturbations.evaluation.result_rows import CLEAN_SCENARIO, ScenarioKey
from perturbations.retrieval import gamma_a, gamma_r, mmi
from perturbations.suites.published_cells import Published

FORMULAS: Mapping[str, tuple[str, Callable[..., object]]] = {
    "gamma_a": ("absolute robustness", gamma_a),
    "gamma_r": ("relative robustness", gamma_r),
    "mmi": ("MMI", mmi),
}
"""Robustness scores as papers define them."""

_PRINTED = {"mmi": 100}
"""The figures that papers print as a multiple of a score."""
_MEANS = {"mean_recall": ("rsum", 1 / 3)}
"""The figures that papers print as a multiple of a column of results."""
_NAMES = {
    **METRICS,
    **{name: title for name, (title, _) in FORMULAS.items()},
    "median_rank": "MdR",
    "hub_skewness": "Hubness",
    "map_at_50": "mAP@50",
    "mmi": "MMI (%)",
    "mean_recall": "mean R",
}
_SPREAD = "_sd"
READ = (
    "Published: the paper's number. Ours: with its 95 % interval over queries; difference: ours minus the published "
    "number. A number is shown where the paper states the same dataset, scenarios, model, setting, method, "
    "parameters, batch size and seed. A difference in brackets does not compare, for a reason that is given above its "
    "table. A paper prints no interval, and its weights are not recorded here."
)


class Beside(NamedTuple):
    """A published cell beside our number: our model's name in tables, the value in the cell's unit, its interval.

    `departs`: our runs have the cell's key, but differ in a fact beside it (`verdict.departures`).
    """

    cell: Published
    model: str
    value: float
    span: IntervalSpan | None
    departs: bool


def of_dataset(rows: pd.DataFrame, of_directions: Mapping[str, Sequence[Scores]]) -> Iterator[PagePart]:
    """The parts for the models of one dataset, by direction; none where no protocol is followed."""
    for name in sorted(protocols.protocols().keys() & set(rows["protocol"].dropna())):
        protocol = protocols.protocol(name)
        tables_of = f"Table{'s' if len(protocol.tables) > 1 else ''} {', '.join(protocol.tables)} of "
        title = protocols.papers()[protocol.paper]["title"]
        where = titled(f"{tables_of if protocol.tables else ''}{title}", protocol.summary)
        yield f"{name} on {rows['dataset'].iloc[0]}: {where}."
        if protocol.unstated:
            yield f"The paper leaves open: {'; '.join(protocol.unstated)}."
        shown, against, incomplete = compared(protocol, of_directions)
        reasons = "; ".join(dict.fromkeys(chain.from_iterable(against)))
        if shown and incomplete:
            yield f"Not shown: {plural(incomplete, 'published mean')}, because some of the scenarios were not run."
        if not all(own.departs for own in shown):
            but = f", but for some (in brackets, or without a published number), because {reasons}" if reasons else ""
            yield f"Comparable with the published values, if the weights are the paper's{but}."
        elif reasons:
            yield f"Not comparable with the published values, because {reasons}."
        tables = list(_tables(shown))
        yield from tables[:1]
        yield from (Section(table.caption, [table]) for table in tables[1:])
        if not tables:
            needs = " A mean needs all of its scenarios." if incomplete else ""
            yield f"No published table reports this experiment, so no number is compared.{needs}"


# --- which results a cell is shown beside -----------------------------------------------------------------------------


class _OwnRun(NamedTuple):
    """One setting of a method and one seed, of one model: its rows by scenario.

    `departures` are the departures of those of its rows that tables report.
    """

    scores: Scores
    setting: str
    seed: int
    rows: Mapping[ScenarioKey, Mapping[str, Any]]
    departures: dict[ScenarioKey, list[str]]

    @property
    def first(self) -> Mapping[str, Any]:
        """Any row, for columns that are the same in all rows."""
        return next(iter(self.rows.values()))

    def of_runs(self, metric: str, runs: Iterable[ScenarioKey]) -> Estimate:
        """A metric of scenarios, then in each resample (scenarios, 1 or more); NaN for a scenario that was not run."""
        unknown = len(self.scores.scenarios)
        numbers = [self.scores.numbers.get(run, unknown) for run in runs]
        of_seeds = self.scores.of_scenarios(metric, self.setting, numbers)
        # With another order in memory, a product would be rounded differently.
        return np.ascontiguousarray(of_seeds[self.scores.seeds[self.setting].index(self.seed)])


@cache
def _weights(runs: tuple[ScenarioKey, ...]) -> NDArray[np.float64]:
    """The weights of scenarios in their mean."""
    return mean_of(pd.DataFrame(runs, dtype=object)).to_numpy(np.float64)


_Member = tuple[_OwnRun, tuple[ScenarioKey, ...]]
"""A run, and the scenarios of it that a cell is a mean over."""


def compared(
    protocol: EvaluationProtocol, of_directions: Mapping[str, Sequence[Scores]]
) -> tuple[list[Beside], list[list[str]], int]:
    """The cells of a protocol's tables beside our results, in printed order, and the objections to each row of results.

    Also the number of cells without a number of ours, because only some of their scenarios were run.

    A result is shown beside a cell where it followed the protocol, has the cell's key, and every scenario of the cell's
    mean was run. Rows whose method, direction or scenario the tables do not have are not judged; each other row is
    judged by the cell from which it differs least. Whether the weights are the paper's is not recorded.
    """
    configured = {
        direction: [own for scores in models for own in _own_runs(scores, protocol.name)]
        for direction, models in of_directions.items()
    }
    of_key: dict[tuple[object, ...], list[tuple[_OwnRun, list[str], dict[ScenarioKey, list[str]]]]] = {}
    nearest: dict[tuple[int, ScenarioKey], list[str]] = {}
    shown: list[Beside] = []
    lost: list[list[str]] = []
    incomplete = 0
    for cell in protocol.cells:
        members, begun = [], False
        for part in parts_of(cell):
            *of_part, runs = part
            key = *of_part, order_matters(cell), *(getattr(cell, name) for name in RUN_KEY)
            if key not in of_key:
                every = [own for own in configured.get(part[0], ()) if is_method(cell, own.first)]
                of_key[key] = [(own, differences(cell, own.first), {}) for own in every]
            complete = []
            for own, foreign, against in of_key[key]:
                present = [run for run in runs if run in own.rows]
                for run in present:
                    if run not in against:
                        reasons = against[run] = [*foreign, *_sizes(protocol, part, own, run)]
                        nearest[id(own), run] = min(nearest.get((id(own), run), reasons), reasons, key=len)
                fitting = [run for run in present if not against[run]]
                begun = begun or bool(fitting)
                if len(fitting) == len(runs):
                    complete.append(own)
            members.append([(own, runs) for own in _distinct(cell, complete)])
        known = [row for several in product(*members) if several and (row := _beside(cell, several)) is not None]
        beside = [own for own in known if own.value == own.value]
        is_score = cell.metric.removesuffix(_SPREAD) in FORMULAS
        reason = "is taken against clean results, and these were not run" if is_score else "is not recorded"
        lost += [[f"{_metric(cell)} {reason}"] for own in known if own.value != own.value]
        incomplete += begun and not known
        shown += beside if cell.stated_model else beside[:1]  # random orders have a row beside each model
    of_rows = [
        [*nearest[id(own), run], *own.departures[run]]
        for own in chain.from_iterable(configured.values())
        for run in own.departures
    ]
    return shown, [*of_rows, *lost], incomplete


def _own_runs(scores: Scores, protocol: str) -> Iterator[_OwnRun]:
    known: dict[tuple[str, int], dict[ScenarioKey, dict[str, Any]]] = {}
    for record in scores.rows[scores.rows["protocol"] == protocol].to_dict("records"):
        run, setting, seed = run_of(record)
        row = {str(name): None if value != value else value for name, value in record.items()}  # empty cells are NaN
        known.setdefault((setting, seed), {})[run] = row
    for (setting, seed), rows in known.items():
        yield _OwnRun(scores, setting, seed, rows, {})


def _sizes(protocol: EvaluationProtocol, part: Part, own: _OwnRun, run: ScenarioKey) -> list[str]:
    """How a run's numbers of queries and items differ from those of a part; the run's departures are collected once."""
    sized = counted(protocol.paper, run, own.rows)
    if run not in own.departures:
        own.departures[run] = departures(protocol, own.rows[run], int(sized["missing_queries"]))
        if any(None in size for size in part[1]):
            own.departures[run].append("the paper leaves open how many queries or gallery items there are")
    return [*sizes_differ(part, sized)]


def _distinct(cell: Published, every: Sequence[_OwnRun]) -> list[_OwnRun]:
    """Of runs that differ only in a seed that changes nothing: the run with the stated seed, or else the first."""
    known: dict[tuple[object, ...], _OwnRun] = {}
    for own in every:
        free = own.seed if order_matters(cell) else None
        key = own.first["model_key"], own.first["label"], own.first["gallery_name"], free
        if key not in known or own.seed == cell.seed:
            known[key] = own
    return list(known.values())


def _beside(cell: Published, members: Sequence[_Member]) -> Beside | None:
    """The cell beside our results in its directions; None where the results are of two models or seeds.

    The value is NaN where the results lack a column from which it is computed.
    """
    if len({(own.first["model_key"], own.first["label"], own.seed) for own, _ in members}) > 1:
        return None
    estimate = _estimate(cell, members)
    (first, runs), *_ = members
    scores = first.scores
    column = pd.Series(_weights(runs), [scores.numbers[run] for run in runs])
    span = span_of(estimate) if len(members) > 1 else scores.own_span(cell.metric, column, estimate)
    departs = any(own.departures[run] for own, every in members for run in every)
    return Beside(cell, scores.model, float(estimate[0]), span, departs)


def _estimate(cell: Published, members: Sequence[_Member]) -> Estimate:
    """Our number (the sum over directions) and, where ranks are known, its value in each resample.

    A score is the mean of the scenarios' scores. A deviation over scenarios has no resamples. MSRVTT-P does
    not define its sigma: the sample deviation gives 24 of the 25 of Tab. 9 for videos, and 31 of 32 for captions.
    """
    score = cell.metric.removesuffix(_SPREAD)
    if score not in FORMULAS:
        metric, factor = _MEANS.get(cell.metric, (cell.metric, 1))
        return factor * _sum(_weights(runs) @ own.of_runs(metric, runs) for own, runs in members)
    (_, of_first), *_ = members
    # The clean result counts all captions, as in the papers: their gate leaves captions out of other results only.
    clean = _sum(own.of_runs(cell.of, [CLEAN_SCENARIO]) for own, _ in members)
    perturbed = _sum(own.of_runs(cell.of, sorted(runs, key=_name)) for own, runs in members)
    scores = np.asarray(FORMULAS[score][1](clean, perturbed))
    if cell.metric.endswith(_SPREAD):
        return np.array([np.std(scores[:, 0], ddof=1) if len(scores) > 1 else np.nan])
    return np.asarray(_PRINTED.get(score, 1) * _weights(tuple(sorted(of_first, key=_name))) @ scores)


def _sum(estimates: Iterable[Estimate]) -> Estimate:
    return np.asarray(sum(estimates, np.zeros(())))


def _name(key: ScenarioKey) -> str:
    """The part of a scenario that is the same in the other direction."""
    return f"{key.perturbation} {key.severity} {key.text_perturbation}"


# --- tables -----------------------------------------------------------------------------------------------------------


def _tables(known: Iterable[Beside]) -> Iterator[PageTable]:
    """A table per published table, model and side, of each of our models."""
    by_place: dict[tuple[str, ...], list[Beside]] = {}
    for own in known:
        cell = own.cell
        place = cell.table, own.model, cell.direction, cell.dataset, cell.model, cell.setting, cell.side
        by_place.setdefault(place, []).append(own)
    yield from (_table(by_place[place]) for place in sorted(by_place))


_LINES = ("published", "ours", "difference")


def _table(cells: Sequence[Beside]) -> PageTable:
    """Perturbations across; of each method of the paper that we ran, the published value, ours, and the difference."""
    first = cells[0].cell
    columns: dict[tuple[str, str], dict[str, dict[bool, Beside]]] = {}
    for own in cells:
        parts = columns.setdefault((_metric(own.cell), own.cell.perturbation), {}).setdefault(_label(own), {})
        parts[own.cell.metric.endswith(_SPREAD)] = own
    lines = list(product(dict.fromkeys(map(_label, cells)), _LINES))
    frame = pd.DataFrame(
        {column: [_cell(what, own.get(label, {})) for label, what in lines] for column, own in columns.items()},
        pd.Index([f"{label}, {what}" for label, what in lines]),
    )
    side = "clean" if first.side == "none" else SIDES.get(first.side, "")
    beside_what = titled(first.dataset, first.model, first.setting, side)
    caption = f"{titled(cells[0].model, first.direction)}, beside Table {first.table}: {beside_what}"
    notes = dict.fromkeys(text for own in cells for text in (own.cell.contradiction, own.cell.note) if text)
    return PageTable(caption, "method", frame, "; ".join(notes), style="stacked")


def _metric(cell: Published) -> str:
    metric = cell.metric.removesuffix(_SPREAD)
    return _NAMES.get(metric, metric.removeprefix("hub_").replace("recall_at_", "R@").replace("_", " "))


def _label(own: Beside) -> str:
    """The name of a row in a table: the method, its differing parameters, and how clips were read."""
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
        return Cell(number(own.value - own.cell.value, f"+{form}"), mark="departs" if own.departs else "")
    low, high = (number(end, form) for end in own.span) if own.span else ("", "")
    return Cell(number(own.value, form), number(spread.value, form) if spread else "", low=low, high=high)
