"""The report's section of a protocol: published values beside ours, and why they do not compare where they do not.

It gives no verdict of agreement: whether the weights are the paper's is not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from perturbations.engine import comparability
from perturbations.evaluation.page import robustness_tables
from perturbations.evaluation.page.intervals import (
    CLEAN_COLUMN,
    RECALLS,
    IntervalColumn,
    IntervalSpan,
    Scores,
    mean_column,
    spans_of,
)
from perturbations.evaluation.page.page_tables import PageTable, number
from perturbations.evaluation.page.parts import SIDES, Group, PagePart, method_label, named, titled
from perturbations.evaluation.page.views import METRICS, RetrievalChoice
from perturbations.evaluation.protocols import registry as protocols
from perturbations.evaluation.protocols.registry import EvaluationProtocol
from perturbations.suites.published import Published, values

_SCORES = ("gamma_a", "gamma_r")
_FORMS = {**dict.fromkeys(RECALLS, ".1f"), **dict.fromkeys(_SCORES, ".2f")}
_NAMES = {**METRICS, "gamma_a": "absolute robustness", "gamma_r": "relative robustness"}
READ = (
    "Published: the paper's number. Ours: with its 95 % interval over queries; difference: ours less the published "
    "number. A paper prints no interval, and its weights are not recorded here."
)


def of_dataset(
    of_directions: Mapping[str, Sequence[Scores]], replaced: Mapping[str, Sequence[str]]
) -> Iterator[PagePart]:
    """The parts for the models of one dataset, by direction; none where no protocol is followed.

    `replaced`: protocol -> its keys that have other values in the configuration.
    """
    models = [scores for of_direction in of_directions.values() for scores in of_direction]
    known = protocols.protocols()
    for name in sorted({name for scores in models for name in scores.rows["protocol"].dropna() if name in known}):
        protocol = known[name]
        paper = protocols.papers()[protocol.paper]
        where = titled(f"Table {', '.join(protocol.tables)} of {paper.title}", protocol.summary)
        yield f"{name} on {models[0].dataset}: {where}."
        if changed := replaced.get(name):
            yield f"The configuration has other values for {', '.join(changed)}."
        if protocol.unstated:
            yield f"The paper leaves open: {'; '.join(protocol.unstated)}."
        yield _verdict(protocol, pd.concat([scores.rows for scores in models]))
        tables = [table for scores in models for table in _tables(protocol, scores, of_directions)]
        yield from tables[:1]
        yield from (Group([table], table.caption) for table in tables[1:])
        if not tables:
            yield "No published number is of what was run here."


def _verdict(protocol: EvaluationProtocol, rows: pd.DataFrame) -> str:
    own = rows[rows["protocol"] == protocol.name].drop_duplicates(["dataset", "queries", "missing_queries", "backend"])
    reasons = [
        reason
        for row in own.to_dict("records")
        for reason in comparability.reasons(protocol, {str(key): value for key, value in row.items()})
    ]
    if reasons:
        return f"Not comparable with the published values: {'; '.join(dict.fromkeys(reasons))}."
    return "Comparable with the published values, if the weights are the paper's."


def _tables(
    protocol: EvaluationProtocol, scores: Scores, of_directions: Mapping[str, Sequence[Scores]]
) -> list[PageTable]:
    cells = [cell for cell in values(protocol) if cell.direction == scores.direction]
    datasets = list(dict.fromkeys(cell.dataset for cell in cells))
    dataset = scores.dataset if scores.dataset in datasets else next(iter(datasets), "")
    groups: dict[tuple[str, str, str, str], list[Published]] = {}
    for cell in cells:
        if cell.dataset == dataset and cell.metric in _FORMS:
            groups.setdefault((cell.model, cell.setting, cell.side, cell.metric), []).append(cell)
    spreads = {_key(cell): cell.printed for cell in cells if cell.metric.endswith("_sd")}
    tables = [
        _table(
            scores,
            of_directions,
            of_group,
            spreads,
            titled(dataset, model, setting, SIDES.get(side, ""), _NAMES[metric]),
        )
        for (model, setting, side, metric), of_group in groups.items()
    ]
    return [table for table in tables if table is not None]


def _key(cell: Published) -> tuple[str, ...]:
    return (
        *(cell.table, cell.dataset, cell.model, cell.setting, cell.side, cell.perturbation, cell.severity, cell.method),
        cell.metric.removesuffix("_sd"),
    )


def _table(
    scores: Scores,
    of_directions: Mapping[str, Sequence[Scores]],
    cells: Sequence[Published],
    spreads: Mapping[tuple[str, ...], str],
    published: str,
) -> PageTable | None:
    """Perturbations across; of each method of the paper that we ran, the published value, ours, and the difference."""
    names = list(dict.fromkeys(cell.perturbation for cell in cells))
    columns: dict[str, list[_Row]] = {name: [] for name in names}
    labels: list[str] = []
    for method in (name for name in scores.methods if any(cell.method == name for cell in cells)):
        beside = _beside(scores, of_directions, [cell for cell in cells if cell.method == method], spreads)
        if beside:
            labels += [f"{method_label(method)}, {what}" for what in ("published", "ours", "difference")]
            for name, own in columns.items():
                own += beside.get(name, ({}, {}, {}))
    if not labels:
        return None
    parts = ("value", "std", "low", "high")
    data = [(("", name), {part: [row.get(part, "") for row in own] for part in parts}) for name, own in columns.items()]
    caption = f"{titled(scores.dataset, scores.model, scores.direction)}, beside {published}"
    notes = list(dict.fromkeys(text for cell in cells for text in (cell.contradiction, cell.note) if text))
    return PageTable(caption, named(data, labels, "method"), _FORMS[cells[0].metric], "; ".join(notes), stacked=True)


_Row = Mapping[str, object]
"""The parts of a cell."""


def _beside(
    scores: Scores,
    of_directions: Mapping[str, Sequence[Scores]],
    cells: Sequence[Published],
    spreads: Mapping[tuple[str, ...], str],
) -> dict[str, tuple[_Row, _Row, _Row]]:
    """By perturbation: the published value of a method, ours, and the difference."""
    beside: dict[str, tuple[_Row, _Row, _Row]] = {}
    perturbations = {cell.perturbation for cell in cells} - {"all"}
    for cell in sorted(cells, key=lambda cell: cell.perturbation == "all"):
        if cell.perturbation == "all" and perturbations - beside.keys():
            continue  # a mean over fewer perturbations than the paper's
        own = _ours(scores, of_directions, cell)
        if own is not None:
            value, spread, span = own
            low, high = span or (None, None)
            beside[cell.perturbation] = (
                {"value": cell.printed, "std": spreads.get(_key(cell), "")},
                {"value": value, "std": spread, "low": low, "high": high},
                {"value": number(value - cell.value, f"+{_FORMS[cell.metric]}")},
            )
    return beside


def _ours(
    scores: Scores, of_directions: Mapping[str, Sequence[Scores]], cell: Published
) -> tuple[float, float | None, IntervalSpan | None] | None:
    """Our value, its deviation and its interval; None where it was not run."""
    if cell.metric in _SCORES:
        retrieval = RetrievalChoice(cell.direction, cell.side, cell.suite)
        own = robustness_tables.score_of(scores, of_directions, retrieval, cell.metric, cell.perturbation, cell.method)
        if own is None:
            return None
        value, spread, samples = own
        return value, spread, spans_of([samples])[0]
    column = _column(scores, cell)
    if column is None:
        return None
    value = scores.value(cell.metric, cell.method, column)
    span = scores.own_span(cell.metric, column, scores.samples(cell.metric, cell.method, column))
    return (value, None, span) if value == value else None


def _column(scores: Scores, cell: Published) -> IntervalColumn | None:
    """The scenarios that a published number is the mean of; None where one of them was not run."""
    if cell.perturbation == "clean":
        return CLEAN_COLUMN
    mixed = [key for key in scores.keys if (key.suite, key.side) == (cell.suite, cell.side) and key.mix]
    if cell.perturbation.startswith("mixed_types "):
        share = float(cell.perturbation.split()[1])
        members = [key for key in mixed if key.share == share]
    elif cell.severity == "mixed" and any(key.mix == "mixed_severity" for key in mixed):
        members = [key for key in mixed if key.mix == "mixed_severity"]
    else:
        members = scores.every(cell.suite, cell.side)
        if cell.severity.isdecimal():
            members = [key for key in members if key.severity == int(cell.severity)]
    if cell.perturbation not in ("all", "avg6") and not cell.perturbation.startswith("mixed_types "):
        members = [key for key in members if key.perturbation == cell.perturbation]
    return mean_column(cell.perturbation, members) if members else None
