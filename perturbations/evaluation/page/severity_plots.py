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
    """R@1 of each model and method: against severity, a plot per category; of one severity by perturbation."""
    parts: list[PagePart] = []
    first, several = models[0], len(models) > 1
    in_order = [
        titled(own.model if several else "", method_label(name)) for own in models for name in methods.methods()
    ]
    for retrieval in views.retrievals:
        known = [own for own in models if own.every(retrieval.suite, retrieval.side)]
        if retrieval.direction != first.direction or not known:
            continue
        side = SIDES.get(retrieval.side, "")
        where = titled(first.dataset, retrieval.suite, DIRECTIONS[retrieval.direction], side)
        every = [key for own in known for key in own.every(retrieval.suite, retrieval.side)]
        by_severity = len({scenario.severity for scenario in every}) > 1
        frames = []
        for own in known:
            name = own.model if several else ""
            categories = own.scenarios(retrieval.suite, retrieval.side)
            members = [key for category in categories.values() for key in category]
            if by_severity:
                plots = {**categories, **({"all": members} if len(categories) > 1 else {})}
                frames.append(curves(own, plots, "recall_at_1", name).drop(columns=["low", "high"]))
            else:
                frames.append(_by_perturbation(own, members, name))
        frame = pd.concat(frames)
        if frame.empty:
            continue
        if by_severity:
            drawn, what = figures.curves(frame, "severity", "R@1, %", in_order), "against severity, 0 is clean"
        else:
            drawn, what = figures.dots(frame, "R@1, %", in_order), "by perturbation"
        figure = Figure(
            drawn,
            f"R@1 of each method {what}; {'; '.join(dict.fromkeys(frame['plot']))}; the table holds the numbers",
            f"{where}: R@1 {what}.",
        )
        parts.append(Group([figure], views=views.of(first.dataset, *retrieval)))
    return parts


def _by_perturbation(scores: Scores, scenarios: Sequence[ScenarioKey], model: str) -> pd.DataFrame:
    """R@1 of clean queries and under each perturbation: rows `plot` (what perturbs), `line` (a method), `value`."""
    columns = {"clean": CLEAN_MEAN}
    for key in scenarios:
        columns[titled(key.perturbation, key.text_perturbation or "")] = mean_of([key])
    if len(scenarios) > 1:
        columns["mean"] = mean_of(scenarios)
    rows = [
        (name, titled(model, method_label(method)), scores.value("recall_at_1", method, column))
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
