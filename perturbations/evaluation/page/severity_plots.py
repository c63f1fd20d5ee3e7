"""The report's figures of R@1 against severity: of each method, and of perturbed queries and a perturbed gallery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from perturbations.evaluation.page import figures
from perturbations.evaluation.page.intervals import CLEAN_COLUMN, Scores, mean_column
from perturbations.evaluation.page.parts import DIRECTIONS, SIDES, PagePart, Panel, Plots, titled
from perturbations.evaluation.page.ranks import ScenarioKey
from perturbations.evaluation.page.views import Views
from perturbations.tta.methods import registry as methods

AXES = "Each small plot is one category, and all plots of a model have the same axes. Severity 0 is clean."


def of_sides(of_directions: Mapping[str, Sequence[Scores]], views: Views) -> list[PagePart]:
    """For each suite and model: R@1 where a category is perturbed in the queries, and where it is in the gallery.

    A modality is the query in one direction and the gallery in the other, so its two lines are of two directions.
    """
    models = [scores for of_direction in of_directions.values() for scores in of_direction]
    dataset, several = models[0].dataset, len({scores.model for scores in models}) > 1
    baseline = methods.baseline()
    parts: list[PagePart] = []
    for name in dict.fromkeys(scores.model for scores in models):
        own = [scores for scores in models if scores.model == name]
        for suite in dict.fromkeys(shown.suite for shown in views.retrievals if shown.suite):
            by_level: dict[str, dict[str, dict[int, float]]] = {}
            for scores in own:
                for side in ("query", "gallery"):
                    for level, scenarios in scores.scenarios(suite, side).items():
                        line = _line(scores, scenarios, baseline.name)
                        by_level.setdefault(level, {})[f"{SIDES.get(side, '')} ({scores.direction})"] = line
            lines = {level: both for level, both in by_level.items() if len(both) > 1}
            if not lines:
                continue
            legend = list(dict.fromkeys(line for both in lines.values() for line in both))
            styles = {line: f"k{place + 1}" for place, line in enumerate(legend)}
            where = titled(dataset, name if several else "", suite)
            plots = Plots(
                f"{where}: R@1 of {baseline.title}, the mean over a category's perturbations, by perturbed side.",
                f"R@1 against severity with perturbed queries and with a perturbed gallery, {'; '.join(lines)}",
                figures.lines(lines, styles),
                "severity",
                "R@1, %",
                [(styles[line], line) for line in legend],
            )
            parts.append(Panel(views.of(dataset, suite=suite), [plots]))
    return parts


def of_methods(models: Sequence[Scores], views: Views) -> list[PagePart]:
    """Mean R@1 of each method against severity: a small plot per category, and for all."""
    parts: list[PagePart] = []
    for scores in models:
        for shown in views.retrievals:
            if shown.direction != scores.direction or not shown.suite:
                continue
            levels = scores.scenarios(shown.suite, shown.side)
            if not levels:
                continue
            every = [scenario for members in levels.values() for scenario in members]
            of_plots = {**levels, **({"all": every} if len(levels) > 1 else {})}
            lines = {
                level: {method: _line(scores, members, method) for method in scores.methods}
                for level, members in of_plots.items()
            }
            name = scores.model if len(models) > 1 else ""
            where = titled(scores.dataset, name, shown.suite, DIRECTIONS[shown.direction], SIDES.get(shown.side, ""))
            styles = {method: f"k{methods.place_of(method) % figures.STYLES}" for method in scores.methods}
            plots = Plots(
                f"{where}: mean R@1 over the perturbations at each severity.",
                f"R@1 of each method against severity, {'; '.join(lines)}; the tables of results hold the numbers",
                figures.lines(lines, styles),
                "severity",
                "R@1, %",
                [(style, methods.title_of(method)) for method, style in styles.items()],
            )
            parts.append(Panel(views.of(scores.dataset, *shown), [plots]))
    return parts


def _line(scores: Scores, scenarios: Sequence[ScenarioKey], method: str) -> dict[int, float]:
    """Mean R@1 of a method by severity, 0 the clean one; without what was not run."""
    at: dict[int, list[ScenarioKey]] = {}
    for scenario in scenarios:
        at.setdefault(scenario.severity or 0, []).append(scenario)
    columns = {0: CLEAN_COLUMN, **{severity: mean_column("", at[severity]) for severity in sorted(at)}}
    values = {severity: scores.value("recall_at_1", method, column) for severity, column in columns.items()}
    return {severity: value for severity, value in values.items() if not np.isnan(value)}
