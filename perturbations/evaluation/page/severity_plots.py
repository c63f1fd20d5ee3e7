"""The report's figures of R@1, against severity or by perturbation, and the data of such curves of any metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from perturbations.evaluation.page import figures
from perturbations.evaluation.page.intervals import CLEAN_MEAN, Scores, mean_of, spans_of
from perturbations.evaluation.page.parts import DIRECTIONS, SIDES, Figure, Group, PagePart, Views, method_label, titled
from perturbations.evaluation.rows import ScenarioKey
from perturbations.tta.methods import registry as methods


def of_methods(models: Sequence[Scores], views: Views) -> list[PagePart]:
    """R@1 of each method: against severity, a small plot per category and for all; of one severity by perturbation."""
    parts: list[PagePart] = []
    in_order = [*map(method_label, methods.methods())]
    for scores in models:
        for retrieval in views.retrievals:
            categories = scores.scenarios(retrieval.suite, retrieval.side)
            if retrieval.direction != scores.direction or not categories:
                continue
            every = scores.every(retrieval.suite, retrieval.side)
            name = scores.model if len(models) > 1 else ""
            side = SIDES.get(retrieval.side, "")
            where = titled(scores.dataset, name, retrieval.suite, DIRECTIONS[retrieval.direction], side)
            if len({scenario.severity for scenario in every}) > 1:
                plots = {**categories, **({"all": every} if len(categories) > 1 else {})}
                frame = curves(scores, plots, "recall_at_1").drop(columns=["low", "high"])
                drawn, what = figures.curves(frame, "severity", "R@1, %", in_order), "against severity, 0 is clean"
            else:
                frame = _by_perturbation(scores, every)
                drawn, what = figures.dots(frame, "R@1, %", in_order), "by perturbation"
            figure = Figure(
                figures.address(drawn),
                f"R@1 of each method {what}; {'; '.join(dict.fromkeys(frame['plot']))}; "
                "the tables of results hold the numbers",
                f"{where}: R@1 {what}.",
            )
            parts.append(Group([figure], views=views.of(scores.dataset, *retrieval)))
    return parts


def _by_perturbation(scores: Scores, scenarios: Sequence[ScenarioKey]) -> pd.DataFrame:
    """R@1 of clean queries and under each perturbation: rows `plot` (what perturbs), `line` (a method), `value`."""
    columns = {"clean": CLEAN_MEAN}
    for key in scenarios:
        columns[titled(key.perturbation, key.text_perturbation or "")] = mean_of([key])
    if len(scenarios) > 1:
        columns["mean"] = mean_of(scenarios)
    rows = [
        (name, method_label(method), scores.value("recall_at_1", method, column))
        for name, column in columns.items()
        for method in scores.methods
    ]
    return pd.DataFrame(rows, columns=["plot", "line", "value"]).dropna(subset=["value"])


def curves(
    scores: Scores, scenarios: Mapping[str, Sequence[ScenarioKey]], metric: str, model: str = ""
) -> pd.DataFrame:
    """A metric by severity, 0 the clean one: rows `plot` (of `scenarios`), `line`, `x`, `value`, `low`, `high`.

    A line is of a method, with the name of its `model` if there is one; without what was not run.
    """
    rows = []
    for plot, members in scenarios.items():
        at: dict[int, list[ScenarioKey]] = {}
        for scenario in members:
            at.setdefault(scenario.severity or 0, []).append(scenario)
        columns = {0: CLEAN_MEAN, **{severity: mean_of(at[severity]) for severity in sorted(at)}}
        for method in scores.methods:
            line = titled(model, method_label(method))
            estimates = {severity: scores.estimate(metric, method, column) for severity, column in columns.items()}
            known = {severity: own for severity, own in estimates.items() if not np.isnan(own[0])}
            if len(known) > 1 or len(columns) == 1:  # more than the clean value
                for severity, estimate in known.items():
                    rows.append((plot, line, severity, float(estimate[0]), *(spans_of([estimate])[0] or (None, None))))
    return pd.DataFrame(rows, columns=["plot", "line", "x", "value", "low", "high"])
