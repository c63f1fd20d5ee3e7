"""The report's tables of R@1 in each scenario, as the papers print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from perturbations.evaluation.page import overview
from perturbations.evaluation.page.intervals import CLEAN, CLEAN_COLUMN, IntervalColumn, Scores
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    SIDES,
    Cell,
    Folded,
    PagePart,
    PageTable,
    Panel,
    PlotLine,
    declared_by,
    label,
    method_label,
    number,
    titled,
)
from perturbations.evaluation.page.ranks import ScenarioKey, run_of
from perturbations.evaluation.page.views import METRICS, Views


def recall(models: Sequence[Scores], views: Views) -> list[PagePart]:
    """R@1 of each method in each scenario, as in the papers' tables, and of mixed videos; folded."""
    first = models[0]
    rows = pd.concat([scores.rows for scores in models])
    parts: list[PagePart] = []
    perturbed = rows[rows["suite"] != "clean"]
    if perturbed.empty:
        shown = views.of(first.dataset, first.direction)
        parts.append(Panel(shown, [Folded("All metrics", [_unperturbed(models)])]))
    for (group, suite), of_suite in perturbed.groupby(["side", "suite"], sort=True):
        side = str(group)
        folded: list[PagePart] = []
        where = titled(first.dataset, DIRECTIONS[first.direction], SIDES.get(side, ""), str(suite))
        plain = of_suite[of_suite["mix"].isna()]
        for strength, at in plain.groupby(plain["severity"].astype(int), sort=True):
            title = f"{suite} at severity {strength}: R@1"
            folded.append(
                Folded(title, [_table(f"R@1: {where} at severity {strength}", models, _levels(str(suite), at))])
            )
        for mix, mixed in of_suite[of_suite["mix"].notna()].groupby("mix", sort=True):
            spoken = str(mix).replace("_", " ")
            table = _table(f"R@1: {where}, {spoken}", models, {spoken: _mixed(mixed)})
            folded.append(Folded(f"{suite}, {spoken}: R@1", [table]))
        parts.append(Panel(views.of(first.dataset, first.direction, side, str(suite)), folded))
    return parts


def _levels(suite: str, rows: pd.DataFrame) -> dict[str, list[IntervalColumn]]:
    """The perturbations at one severity by category, in the paper's order."""
    places = {entry.name: place for place, entry in enumerate(declared_by(suite))}
    named = sorted(
        (
            (run_of(row)[0], row["category"], row["backend"])
            for row in rows[[*ScenarioKey._fields, "method", "seed", "category", "backend"]].to_dict("records")
        ),
        key=lambda row: (
            *(places.get(name or "", len(places)) for name in (row[0].perturbation, row[0].text_perturbation)),
            row[0].perturbation,
        ),
    )
    levels: dict[str, dict[ScenarioKey, IntervalColumn]] = {}
    for scenario, level, backend in named:
        heading = label(suite, scenario.perturbation, backend)
        heading += f" + {scenario.text_perturbation}" if scenario.text_perturbation else ""
        levels.setdefault(level, {})[scenario] = IntervalColumn(heading, ((scenario, 1.0),))
    return {level: list(columns.values()) for level, columns in levels.items()}


def _mixed(rows: pd.DataFrame) -> list[IntervalColumn]:
    columns: dict[ScenarioKey, IntervalColumn] = {}
    for row in rows[[*ScenarioKey._fields, "method", "seed"]].to_dict("records"):
        scenario = run_of(row)[0]
        heading = scenario.perturbation if scenario.share is None else f"{scenario.share:.0%} perturbed"
        columns.setdefault(scenario, IntervalColumn(heading, ((scenario, 1.0),)))
    return list(columns.values())


def _table(title: str, models: Sequence[Scores], levels: Mapping[str, Sequence[IntervalColumn]]) -> PageTable:
    """Methods x perturbations, grouped by category, with averages; several models one below the other."""
    columns = [CLEAN_COLUMN]
    head, second = [Cell("method"), Cell("clean")], [Cell(""), Cell("")]
    for level, members in levels.items():
        several = len(members) > 1
        head.append(Cell(level, span=len(members) + several, first=True))
        columns += members
        second += [Cell(member.name, first=place == 0) for place, member in enumerate(members)]
        if several:
            columns.append(_average(members))
            second.append(Cell("average", average=True))
    if len(levels) > 1:
        head.append(Cell("all"))
        second.append(Cell("average", average=True))
        columns.append(_average([member for members in levels.values() for member in members]))
    body: list[PlotLine] = []
    for scores in models:
        marked = [_marked(scores, column) for column in columns]
        body += [PlotLine(scores.model, [])] if len(models) > 1 else []
        body += [
            PlotLine(method_label(method), [cells[place] for cells in marked])
            for place, method in enumerate(scores.methods)
        ]
        body += _counts(scores, columns)
    asked = [scenario for column in columns[1:] for scenario, _ in column.weights]
    note = overview.counted(models, asked)
    return PageTable(title, [head, second] if levels else [head], body, note=note, forms=("csv", "tex"))


def _counts(scores: Scores, columns: Sequence[IntervalColumn]) -> list[PlotLine]:
    """The numbers of queries, of missing ones and of gallery items of each column, where they differ."""
    counted = [scores.counts(column.weights[0][0]) if len(column.weights) == 1 else None for column in columns]
    known = {own for own in counted if own is not None}
    return [
        PlotLine(name, [Cell("" if own is None else f"{own[place]:,}") for own in counted])
        for place, name in enumerate(("queries (N)", "missing queries", "gallery"))
        if len({own[place] for own in known}) > 1
    ]


def _average(columns: Sequence[IntervalColumn]) -> IntervalColumn:
    return IntervalColumn("average", tuple((column.weights[0][0], 1 / len(columns)) for column in columns))


def _marked(scores: Scores, column: IntervalColumn, metric: str = "recall_at_1") -> list[Cell]:
    """The cells of a column, one per method; with several seeds, the deviation over them."""
    form = overview.form_of(metric)
    values = [scores.value(metric, method, column) for method in scores.methods]
    samples = [scores.samples(metric, method, column) for method in scores.methods]
    marked = overview.marked_methods(metric, values, samples, scores.methods)
    seeds = [scores.seed_values(metric, method, column) for method in scores.methods]
    spreads = [number(float(np.std(own, ddof=1)), form) if len(own) > 1 else "" for own in seeds]
    return [
        Cell(number(value, form), mark=mark, spread=spread)
        for value, mark, spread in zip(values, marked, spreads, strict=True)
    ]


def _unperturbed(models: Sequence[Scores]) -> PageTable:
    """Methods x metrics, where nothing is perturbed."""
    body: list[PlotLine] = []
    for scores in models:
        columns = [_marked(scores, CLEAN_COLUMN, metric) for metric in METRICS]
        body += [PlotLine(scores.model, [])] if len(models) > 1 else []
        body += [
            PlotLine(method_label(method), [cells[place] for cells in columns])
            for place, method in enumerate(scores.methods)
        ]
    where = titled(models[0].dataset, DIRECTIONS[models[0].direction], "unperturbed queries")
    return PageTable(
        where, [[Cell("method"), *map(Cell, METRICS.values())]], body, note=overview.counted(models, [CLEAN])
    )
