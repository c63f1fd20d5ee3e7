"""The report's section of a protocol: published values beside ours, and why they do not compare where they do not.

It gives no verdict of agreement: whether the weights are the paper's is not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from perturbations.engine import comparability
from perturbations.evaluation.page import overview, robustness_tables
from perturbations.evaluation.page.intervals import (
    CLEAN_COLUMN,
    RECALLS,
    IntervalColumn,
    IntervalSpan,
    Scores,
    mean_column,
    spans_of,
)
from perturbations.evaluation.page.parts import (
    Cell,
    Folded,
    PagePart,
    PageTable,
    PlotLine,
    Text,
    method_label,
    number,
    titled,
)
from perturbations.evaluation.page.views import METRICS, Shown
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
        yield Text(f"{name} on {models[0].dataset}: {where}.")
        if changed := replaced.get(name):
            yield Text(f"The configuration has other values for {', '.join(changed)}.")
        if protocol.unstated:
            yield Text(f"The paper leaves open: {'; '.join(protocol.unstated)}.")
        yield Text(_verdict(protocol, pd.concat([scores.rows for scores in models])))
        tables = [table for scores in models for table in _tables(protocol, scores, of_directions)]
        yield from tables[:1]
        yield from (Folded(table.caption, [table]) for table in tables[1:])
        if not tables:
            yield Text("No published number is of what was run here.")


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
    made = [
        _table(scores, of_directions, of_group, spreads, titled(dataset, model, setting, _NAMES[metric]))
        for (model, setting, _, metric), of_group in groups.items()
    ]
    return [table for table in made if table is not None]


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
    lines: list[PlotLine] = []
    for method in (name for name in scores.methods if any(cell.method == name for cell in cells)):
        rows: dict[str, dict[str, Cell]] = {"published": {}, "ours": {}, "difference": {}}
        own_cells = sorted(
            (cell for cell in cells if cell.method == method), key=lambda cell: cell.perturbation == "all"
        )
        named = {cell.perturbation for cell in own_cells} - {"all"}
        for cell in own_cells:
            if cell.perturbation == "all" and named - rows["ours"].keys():
                continue  # a mean over fewer perturbations than the paper's
            own = _ours(scores, of_directions, cell)
            if own is None:
                continue
            form = _FORMS[cell.metric]
            value, spread, span = own
            rows["published"][cell.perturbation] = Cell(cell.printed, spread=spreads.get(_key(cell), ""))
            rows["ours"][cell.perturbation] = Cell(
                number(value, form), spread=spread, interval=overview.ends(span, form)
            )
            rows["difference"][cell.perturbation] = Cell(number(value - cell.value, f"+{form}"))
        if rows["ours"]:
            label = method_label(method)
            lines += [
                PlotLine(f"{label}, {what}", [own.get(name, Cell("")) for name in names]) for what, own in rows.items()
            ]
    if not lines:
        return None
    caption = f"{titled(scores.dataset, scores.model, scores.direction)}, beside {published}"
    notes = list(dict.fromkeys(text for cell in cells for text in (cell.contradiction, cell.note) if text))
    return PageTable(caption, [[Cell("method"), *map(Cell, names)]], lines, stacked=True, note="; ".join(notes))


def _ours(
    scores: Scores, of_directions: Mapping[str, Sequence[Scores]], cell: Published
) -> tuple[float, str, IntervalSpan | None] | None:
    """Our value, its deviation and its interval; None where it was not run."""
    if cell.metric in _SCORES:
        shown = Shown(cell.direction, cell.side, cell.suite)
        own = robustness_tables.score_of(scores, of_directions, shown, cell.metric, cell.perturbation, cell.method)
        if own is None:
            return None
        value, spread, samples = own
        return value, number(spread, ".2f"), spans_of([samples])[0]
    column = _column(scores, cell)
    if column is None:
        return None
    value = scores.value(cell.metric, cell.method, column)
    span = scores.own_span(cell.metric, column, scores.samples(cell.metric, cell.method, column))
    return (value, "", span) if value == value else None


def _column(scores: Scores, cell: Published) -> IntervalColumn | None:
    """The scenarios that a published number is the mean of; None where one of them was not run."""
    if cell.perturbation == "clean":
        return CLEAN_COLUMN
    mixed = [key for key in scores.keys if (key.suite, key.side) == (cell.suite, cell.side) and key.mix]
    if cell.perturbation.startswith("mixed_types "):
        share = float(cell.perturbation.split()[1])
        found = [key for key in mixed if key.share == share]
    elif cell.severity == "mixed" and any(key.mix == "mixed_severity" for key in mixed):
        found = [key for key in mixed if key.mix == "mixed_severity"]
    else:
        levels = scores.scenarios(cell.suite, cell.side)
        found = [key for members in levels.values() for key in members]
        if cell.severity.isdecimal():
            found = [key for key in found if key.severity == int(cell.severity)]
    if cell.perturbation not in ("all", "avg6") and not cell.perturbation.startswith("mixed_types "):
        found = [key for key in found if key.perturbation == cell.perturbation]
    return mean_column(cell.perturbation, found) if found else None
