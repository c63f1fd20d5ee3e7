"""The report's tables of R@1 in each scenario, as the papers print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from perturbations.evaluation.page import overview
from perturbations.evaluation.page.intervals import CLEAN_COLUMN, IntervalColumn, Scores, place_in
from perturbations.evaluation.page.page_tables import PageTable
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    SIDES,
    Group,
    PagePart,
    label,
    method_label,
    named,
    titled,
)
from perturbations.evaluation.page.ranks import run_of
from perturbations.evaluation.page.views import Views
from perturbations.evaluation.rows import ScenarioKey


def recall(models: Sequence[Scores], views: Views) -> list[PagePart]:
    """R@1 of each method in each scenario, as in the papers' tables, and of mixed videos; folded."""
    first = models[0]
    rows = pd.concat([scores.rows for scores in models])
    parts: list[PagePart] = []
    for (group, suite), of_suite in rows[rows["suite"] != "clean"].groupby(["side", "suite"], sort=True):
        side, suite = str(group), str(suite)
        folded: list[PagePart] = []
        where = titled(first.dataset, DIRECTIONS[first.direction], SIDES.get(side, ""), suite)
        unmixed = of_suite[of_suite["mix"].isna()]
        for severity, own in unmixed.groupby(unmixed["severity"].astype(int), sort=True):
            table = _table(f"R@1: {where} at severity {severity}", models, _perturbations(suite, own))
            folded.append(Group([table], f"{suite} at severity {severity}: R@1"))
        for mix, own in of_suite[of_suite["mix"].notna()].groupby("mix", sort=True):
            name = str(mix).replace("_", " ")
            folded.append(
                Group([_table(f"R@1: {where}, {name}", models, {name: _mixed(own)})], f"{suite}, {name}: R@1")
            )
        parts.append(Group(folded, views=views.of(first.dataset, first.direction, side, suite)))
    return parts


def _perturbations(suite: str, rows: pd.DataFrame) -> dict[str, list[IntervalColumn]]:
    """The perturbations at one severity by category, in the paper's order."""
    place = place_in(suite)
    scenarios = {run_of(row)[0]: row for row in reversed(rows.to_dict("records"))}
    categories: dict[str, list[IntervalColumn]] = {}
    for scenario in sorted(scenarios, key=lambda key: (*place(key), key.text_severity or 0)):
        row = scenarios[scenario]
        heading = label(suite, scenario.perturbation, row["backend"])
        heading += f" + {scenario.text_perturbation} {scenario.text_severity}" if scenario.text_perturbation else ""
        categories.setdefault(row["category"], []).append(_column(heading, scenario))
    return categories


def _mixed(rows: pd.DataFrame) -> list[IntervalColumn]:
    scenarios = dict.fromkeys(run_of(row)[0] for row in rows.to_dict("records"))
    return [
        _column(scenario.perturbation if scenario.share is None else f"{scenario.share:.0%} perturbed", scenario)
        for scenario in scenarios
    ]


def _column(heading: str, scenario: ScenarioKey) -> IntervalColumn:
    return IntervalColumn(heading, ((scenario, 1.0),))


def _average(columns: Sequence[IntervalColumn]) -> IntervalColumn:
    return IntervalColumn("average", tuple((column.weights[0][0], 1 / len(columns)) for column in columns))


def _table(title: str, models: Sequence[Scores], categories: Mapping[str, Sequence[IntervalColumn]]) -> PageTable:
    """Methods x perturbations, grouped by category, with averages; several models one below the other."""
    columns = [("", CLEAN_COLUMN)]
    for category, members in categories.items():
        columns += [(category, member) for member in [*members, *([_average(members)] if len(members) > 1 else [])]]
    if len(categories) > 1:
        columns.append(("all", _average([member for members in categories.values() for member in members])))
    of_models = {scores.model if len(models) > 1 else "": _of_model(scores, columns) for scores in models}
    data = pd.concat(of_models, names=["", "", "method"]).droplevel(1)
    note = overview.note_of(models, (scenario for _, column in columns[1:] for scenario, _ in column.weights))
    return PageTable(title, data, ".1f", note, forms=("csv", "tex"))


def _of_model(scores: Scores, columns: Sequence[tuple[str, IntervalColumn]]) -> pd.DataFrame:
    """A model's methods, then the numbers of queries, of missing ones and of gallery items, where they differ."""
    counts = [scores.counts([column.weights[0][0]]) if len(column.weights) == 1 else [] for _, column in columns]
    counted = {
        name: [f"{own[0][place]:,}" if own else "" for own in counts]
        for place, name in enumerate(("queries (N)", "missing queries", "gallery"))
        if len({own[0][place] for own in counts if own}) > 1
    }
    data = [
        ((category, column.name), _marked(scores, column, [own[place] for own in counted.values()]))
        for place, (category, column) in enumerate(columns)
    ]
    return named(data, [*map(method_label, scores.methods), *counted], "method")


def _marked(scores: Scores, column: IntervalColumn, below: Sequence[str]) -> dict[str, Sequence[object]]:
    """The parts of a column, and what stands below its methods; with several seeds, the deviation over them."""
    metric, names = "recall_at_1", scores.methods
    estimates = np.stack([scores.estimate(metric, method, column) for method in names])
    seeds = [scores.of_seeds(metric, method, column)[:, 0] for method in names]
    spreads = [float(np.std(own, ddof=1)) if len(own) > 1 else None for own in seeds]
    spans = [scores.own_span(metric, column, own) for own in estimates]
    marked = overview.marked_methods(scores, metric, estimates, names)
    empty = [""] * len(below)
    parts: dict[str, Sequence[object]] = {"std": spreads, **overview.ends(spans), "mark": marked}
    return {"value": [*estimates[:, 0].tolist(), *below], **{name: [*own, *empty] for name, own in parts.items()}}
