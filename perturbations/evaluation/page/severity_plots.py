"""The report's figures of R@1 against severity, and the data of such curves of any metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from perturbations.evaluation.page import figures
from perturbations.evaluation.page.intervals import CLEAN_COLUMN, Scores, mean_column, spans_of
from perturbations.evaluation.page.parts import DIRECTIONS, SIDES, Figure, Group, PagePart, method_label, titled
from perturbations.evaluation.page.ranks import ScenarioKey
from perturbations.evaluation.page.views import Views
from perturbations.tta.methods import registry as methods

AXES = "Each small plot is one category, and all plots of a figure have the same axes. Severity 0 is clean."


def of_methods(models: Sequence[Scores], views: Views) -> list[PagePart]:
    """Mean R@1 of each method against severity: a small plot per category, and for all."""
    parts: list[PagePart] = []
    for scores in models:
        for retrieval in views.retrievals:
            categories = scores.scenarios(retrieval.suite, retrieval.side)
            if retrieval.direction != scores.direction or not categories:
                continue
            every = {"all": scores.every(retrieval.suite, retrieval.side)} if len(categories) > 1 else {}
            frame = curves(scores, {**categories, **every}, "recall_at_1").drop(columns=["low", "high"])
            name = scores.model if len(models) > 1 else ""
            side = SIDES.get(retrieval.side, "")
            where = titled(scores.dataset, name, retrieval.suite, DIRECTIONS[retrieval.direction], side)
            figure = Figure(
                figures.address(figures.curves(frame, "severity", "R@1, %", [*map(method_label, methods.methods())])),
                f"R@1 of each method against severity, {'; '.join(dict.fromkeys(frame['plot']))}; "
                "the tables of results hold the numbers",
                f"{where}: mean R@1 over the perturbations at each severity.",
            )
            parts.append(Group([figure], views=views.of(scores.dataset, *retrieval)))
    return parts


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
        columns = {0: CLEAN_COLUMN, **{severity: mean_column("", at[severity]) for severity in sorted(at)}}
        for method in scores.methods:
            line = titled(model, method_label(method))
            estimates = {severity: scores.estimate(metric, method, column) for severity, column in columns.items()}
            known = {severity: own for severity, own in estimates.items() if not np.isnan(own[0])}
            if len(known) > 1 or len(columns) == 1:  # more than the clean value
                for severity, estimate in known.items():
                    rows.append((plot, line, severity, float(estimate[0]), *(spans_of([estimate])[0] or (None, None))))
    return pd.DataFrame(rows, columns=["plot", "line", "x", "value", "low", "high"])
