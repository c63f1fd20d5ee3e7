"""The report's figures of R@1 against severity: of each method, and of perturbed queries and a perturbed gallery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from perturbations.evaluation.page import figures
from perturbations.evaluation.page.intervals import CLEAN_COLUMN, Scores, mean_column
from perturbations.evaluation.page.parts import DIRECTIONS, SIDES, Figure, Group, PagePart, titled
from perturbations.evaluation.page.ranks import ScenarioKey
from perturbations.evaluation.page.views import Views
from perturbations.tta.methods import registry as methods

AXES = "Each small plot is one category, and all plots of a figure have the same axes. Severity 0 is clean."


def of_sides(of_directions: Mapping[str, Sequence[Scores]], views: Views) -> list[PagePart]:
    """For each suite and model: R@1 where a category is perturbed in the queries, and where it is in the gallery.

    A modality is the query in one direction and the gallery in the other, so its two lines are of two directions.
    """
    models = [scores for of_direction in of_directions.values() for scores in of_direction]
    dataset, several = models[0].dataset, len({scores.model for scores in models}) > 1
    baseline = methods.baseline()
    parts: list[PagePart] = []
    for model in dict.fromkeys(scores.model for scores in models):
        for suite in dict.fromkeys(retrieval.suite for retrieval in views.retrievals if retrieval.suite):
            lines: dict[str, dict[str, dict[int, float]]] = {}
            for scores in (scores for scores in models if scores.model == model):
                for side in ("query", "gallery"):
                    for category, scenarios in scores.scenarios(suite, side).items():
                        line = _line(scores, scenarios, baseline.name)
                        lines.setdefault(category, {})[f"{SIDES[side]} ({scores.direction})"] = line
            lines = {category: both for category, both in lines.items() if len(both) > 1}
            if lines:
                where = titled(dataset, model if several else "", suite)
                names = dict.fromkeys(name for both in lines.values() for name in both)
                figure = Figure(
                    figures.lines(lines, {name: place + 1 for place, name in enumerate(names)}, "R@1, %"),
                    f"R@1 against severity with perturbed queries and with a perturbed gallery, {'; '.join(lines)}",
                    f"{where}: R@1 of {baseline.title}, the mean over a category's perturbations, by perturbed side.",
                )
                parts.append(Group([figure], views=views.of(dataset, suite=suite)))
    return parts


def of_methods(models: Sequence[Scores], views: Views) -> list[PagePart]:
    """Mean R@1 of each method against severity: a small plot per category, and for all."""
    parts: list[PagePart] = []
    for scores in models:
        for retrieval in views.retrievals:
            categories = scores.scenarios(retrieval.suite, retrieval.side)
            if retrieval.direction != scores.direction or not categories:
                continue
            every = {"all": scores.every(retrieval.suite, retrieval.side)} if len(categories) > 1 else {}
            lines = {
                category: {methods.title_of(method): _line(scores, members, method) for method in scores.methods}
                for category, members in {**categories, **every}.items()
            }
            styles = {methods.title_of(method): methods.place_of(method) for method in scores.methods}
            name = scores.model if len(models) > 1 else ""
            side = SIDES.get(retrieval.side, "")
            where = titled(scores.dataset, name, retrieval.suite, DIRECTIONS[retrieval.direction], side)
            figure = Figure(
                figures.lines(lines, styles, "R@1, %"),
                f"R@1 of each method against severity, {'; '.join(lines)}; the tables of results hold the numbers",
                f"{where}: mean R@1 over the perturbations at each severity.",
            )
            parts.append(Group([figure], views=views.of(scores.dataset, *retrieval)))
    return parts


def _line(scores: Scores, scenarios: Sequence[ScenarioKey], method: str) -> dict[int, float]:
    """Mean R@1 of a method by severity, 0 the clean one; without what was not run."""
    at: dict[int, list[ScenarioKey]] = {}
    for scenario in scenarios:
        at.setdefault(scenario.severity or 0, []).append(scenario)
    columns = {0: CLEAN_COLUMN, **{severity: mean_column("", at[severity]) for severity in sorted(at)}}
    values = {severity: scores.value("recall_at_1", method, column) for severity, column in columns.items()}
    return {severity: value for severity, value in values.items() if not np.isnan(value)}
