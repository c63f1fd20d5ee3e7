"""The report's sections of scores: recall, its decrease with severity, robustness scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from perturbations.evaluation.page import figures, overview
from perturbations.evaluation.page.intervals import CLEAN, Column, Scenario, Scores, marks, mean_column, spans_of
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    Cell,
    Folded,
    Line,
    Panel,
    Part,
    Plots,
    Row,
    Section,
    Table,
    Text,
    declared_by,
    label,
    number,
    titled,
)
from perturbations.evaluation.page.views import METRICS, Views
from perturbations.retrieval import aggregate, gamma_a, gamma_r, mmi, robustness_scores
from perturbations.retrieval.bootstrap import Samples
from perturbations.tta.methods import registry as methods

_SCORES = {"gamma_a": "absolute robustness", "gamma_r": "relative robustness", "mmi": "MultiModal Impact"}
_FORMULAS = {"gamma_a": gamma_a, "gamma_r": gamma_r, "mmi": mmi}
_CLEAN = Column("clean", ((CLEAN, 1.0),))


class Sections:
    """The sections of scores; results are added dataset by dataset, as the resamples of all need too much memory."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._recall: list[Part] = []
        self._severity: list[Part] = []
        self._robustness: list[Part] = []

    def add(self, models: Sequence[Scores]) -> None:
        """Add the models of one dataset and direction."""
        several = len(models) > 1
        self._recall += overview.tables(models, self._views)
        self._recall += recall(models, self._views)
        for scores in models:
            name = scores.model if several else ""
            self._severity += severities(scores, name, self._views)
        self._robustness += robustness(models, self._views)

    def done(self) -> list[Section]:
        """The sections."""
        if not self._views.there:
            nothing = "Nothing was evaluated yet: snakemake tta_<dataset>."
            return [
                Section("results", "Results", [nothing]),
                Section("severity", "R@1 against severity", ["No perturbed query yet."]),
                Section("robustness", "Robustness scores", ["No perturbed query yet."]),
            ]
        absent = "This dataset was not evaluated with such queries."
        self._recall += [Panel(self._views.empty, [Text(absent)])] if self._views.empty else []
        text = (
            "Absolute robustness is 1 - (clean - perturbed) / 100, relative robustness 1 - (clean - perturbed) / "
            "clean, MultiModal Impact (clean - perturbed) / clean, of R@1; mean and standard deviation over a "
            "category's perturbations, and the 95 % interval of the mean over queries. A method is compared with its "
            "own clean result."
        )
        axes = "Each small plot is one category, and all plots of a model have the same axes. Severity 0 is clean."
        empty = ["No perturbed query yet."]
        return [
            Section("results", "Results", [], self._recall),
            Section("severity", "R@1 against severity", [axes] if self._severity else empty, self._severity),
            Section("robustness", "Robustness scores", [text] if self._robustness else empty, self._robustness),
        ]


# --- recall per perturbation -----------------------------------------------------------------------------------------


def recall(models: Sequence[Scores], views: Views) -> list[Part]:
    """R@1 of each method under each perturbation, as in the papers' tables, and of mixed queries; folded."""
    first = models[0]
    rows = pd.concat([scores.rows for scores in models])
    parts: list[Part] = []
    perturbed = rows[rows["suite"] != "clean"]
    if perturbed.empty:
        parts.append(Panel(views.of(first.dataset, first.direction), [Folded("All metrics", [_unperturbed(models)])]))
    for suite, of_suite in perturbed.groupby("suite", sort=True):
        folded: list[Part] = []
        plain = of_suite[of_suite["mix"].isna()]
        for severity, at in plain.groupby(plain["severity"].astype(int), sort=True):
            folded.append(_folded(models, f"{suite} at severity {severity}: R@1", _levels(str(suite), at)))
        for mix, mixed in of_suite[of_suite["mix"].notna()].groupby("mix", sort=True):
            spoken = str(mix).replace("_", " ")
            folded.append(_folded(models, f"{suite}, {spoken}: R@1", {spoken: _mixed(mixed)}))
        parts.append(Panel(views.of(first.dataset, first.direction, str(suite)), folded))
    return parts


def _levels(suite: str, rows: pd.DataFrame) -> dict[str, list[Column]]:
    """The perturbations at one severity by category, in the paper's order."""
    places = {entry.name: place for place, entry in enumerate(declared_by(suite))}
    named = sorted(
        zip(rows["perturbation"], rows["level"], rows["severity"], rows["backend"], strict=True),
        key=lambda row: (places.get(row[0], len(places)), row[0]),
    )
    levels: dict[str, dict[str, Column]] = {}
    for name, level, severity, backend in named:
        scenario = (suite, name, int(severity), None, None)
        levels.setdefault(level, {})[name] = Column(label(suite, name, backend), ((scenario, 1.0),))
    return {level: list(columns.values()) for level, columns in levels.items()}


def _mixed(rows: pd.DataFrame) -> list[Column]:
    columns: dict[Scenario, Column] = {}
    for suite, name, severity, mix, share in zip(
        *(rows[column] for column in ("suite", "perturbation", "severity", "mix", "share")), strict=True
    ):
        known = None if pd.isna(share) else float(share)
        scenario = (suite, name, None if pd.isna(severity) else int(severity), mix, known)
        heading = name if known is None else f"{known:.0%} perturbed"
        columns.setdefault(scenario, Column(heading, ((scenario, 1.0),)))
    return list(columns.values())


def _folded(models: Sequence[Scores], title: str, levels: Mapping[str, Sequence[Column]]) -> Folded:
    return Folded(title, [_table(title, models, levels)])


def _table(title: str, models: Sequence[Scores], levels: Mapping[str, Sequence[Column]]) -> Table:
    """Methods x perturbations, grouped by category, with averages; several models one below the other."""
    columns = [_CLEAN]
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
    body: list[Line] = []
    for scores in models:
        marked = [_marked(scores, column) for column in columns]
        body += [Line(scores.model, [])] if len(models) > 1 else []
        body += [
            Line(methods.title_of(method), [cells[place] for cells in marked])
            for place, method in enumerate(scores.methods)
        ]
    return Table(title, [head, second] if levels else [head], body)


def _average(columns: Sequence[Column]) -> Column:
    return Column("average", tuple((column.weights[0][0], 1 / len(columns)) for column in columns))


def _marked(scores: Scores, column: Column, metric: str = "r1", form: str = ".1f") -> list[Cell]:
    """The cells of a column, one per method."""
    values = [scores.value(metric, method, column) for method in scores.methods]
    samples = [scores.samples(metric, method, column) for method in scores.methods]
    marked = marks(values, samples, form, lower=metric in overview.LOWER)
    return [Cell(number(value, form), mark=mark) for value, mark in zip(values, marked, strict=True)]


def _unperturbed(models: Sequence[Scores]) -> Table:
    """Methods x metrics, where only unperturbed queries were asked."""
    body: list[Line] = []
    for scores in models:
        columns = [_marked(scores, _CLEAN, metric=metric, form=overview.form_of(metric)) for metric in METRICS]
        body += [Line(scores.model, [])] if len(models) > 1 else []
        body += [
            Line(methods.title_of(method), [cells[place] for cells in columns])
            for place, method in enumerate(scores.methods)
        ]
    return Table("unperturbed queries", [[Cell("method"), *map(Cell, METRICS.values())]], body)


# --- severity --------------------------------------------------------------------------------------------------------


def severities(scores: Scores, model: str, views: Views) -> list[Part]:
    """Mean R@1 of each method against severity: a small plot per category, and for all."""
    plain = scores.rows[(scores.rows["suite"] != "clean") & scores.rows["mix"].isna()]
    parts: list[Part] = []
    for suite in sorted(map(str, plain["suite"].unique())):
        levels = scores.scenarios(suite)
        every = [scenario for members in levels.values() for scenario in members]
        shown = {**levels, **({"all": every} if len(levels) > 1 else {})}
        lines = {level: _lines(scores, members) for level, members in shown.items()}
        where = titled(scores.dataset, model, suite, DIRECTIONS[scores.direction])
        styles = {method: f"k{methods.place_of(method) % figures.STYLES}" for method in scores.methods}
        plots = Plots(
            f"{where}: mean R@1 over the perturbations at each severity.",
            f"R@1 of each method against severity, {'; '.join(lines)}; the tables of results hold the numbers",
            figures.lines(lines, styles),
            "severity",
            "R@1, %",
            [(style, methods.title_of(method)) for method, style in styles.items()],
        )
        parts.append(Panel(views.of(scores.dataset, scores.direction, suite), [plots]))
    return parts


def _lines(scores: Scores, scenarios: Sequence[Scenario]) -> dict[str, dict[int, float]]:
    """Mean R@1 by severity of each method."""
    at: dict[int, list[Scenario]] = {}
    for scenario in scenarios:
        at.setdefault(scenario[2], []).append(scenario)
    columns = {0: _CLEAN, **{severity: mean_column("", at[severity]) for severity in sorted(at)}}
    values = {
        method: {severity: scores.value("r1", method, column) for severity, column in columns.items()}
        for method in scores.methods
    }
    return {
        method: {severity: value for severity, value in points.items() if not np.isnan(value)}
        for method, points in values.items()
    }


# --- robustness ------------------------------------------------------------------------------------------------------


def robustness(models: Sequence[Scores], views: Views) -> list[Part]:
    """Robustness scores of each method and category: a table per score and model; models stand side by side."""
    first = models[0]
    suites = sorted({str(suite) for scores in models for suite in scores.rows["suite"] if suite != "clean"})
    parts: list[Part] = []
    for suite in suites:
        means = [_means(scores, suite) for scores in models]
        rows: list[Part] = []
        for score, title in _SCORES.items():
            tables: list[Part] = []
            for scores, own in zip(models, means, strict=True):
                name = scores.model if len(models) > 1 else ""
                which = suite if len(suites) > 1 else ""
                where = titled(scores.dataset, name, DIRECTIONS[scores.direction], which)
                tables += [_robustness_table(f"{where}: {title}", scores, suite, score, own)] if own else []
            row = Row(tables)
            rows += [row if not rows else Folded(title[0].upper() + title[1:], [row])] if tables else []
        parts.append(Panel(views.of(first.dataset, first.direction, suite), rows))
    return parts


def _means(scores: Scores, suite: str) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Mean and standard deviation over a category's perturbations, by score, category and method."""
    rows = scores.rows
    scored = robustness_scores(rows[rows["mix"].isna() & rows["suite"].isin(["clean", suite])])
    if scored.empty:
        return {}
    means = aggregate(scored, ["level", "method"])
    return {
        (score, str(level), str(method)): (float(mean), float(spread))
        for score in _SCORES
        for level, method, mean, spread in zip(
            means["level"], means["method"], means[f"{score}_mean"], means[f"{score}_std"], strict=True
        )
    }


def _robustness_table(
    caption: str, scores: Scores, suite: str, score: str, means: Mapping[tuple[str, str, str], tuple[float, float]]
) -> Table:
    levels = scores.scenarios(suite)
    columns = []
    for level, scenarios in levels.items():
        column = mean_column(level, scenarios)
        known = [means.get((score, level, method), (np.nan, np.nan)) for method in scores.methods]
        samples = [_robustness_samples(scores, score, method, column) for method in scores.methods]
        marked = marks([value for value, _ in known], samples, ".2f", lower=score == "mmi")
        columns.append(
            [
                Cell(
                    number(value, ".2f"),
                    mark=mark,
                    spread=number(spread, ".2f"),
                    interval=overview.ends(span, ".2f"),
                )
                for (value, spread), span, mark in zip(known, spans_of(samples), marked, strict=True)
            ]
        )
    head = [Cell("method"), Cell(suite, span=len(levels), first=True)]
    second = [Cell(""), *(Cell(level, first=place == 0) for place, level in enumerate(levels))]
    body = [
        Line(methods.title_of(method), [cells[place] for cells in columns])
        for place, method in enumerate(scores.methods)
    ]
    return Table(caption, [head, second], body, stacked=True)


def _robustness_samples(scores: Scores, score: str, method: str, column: Column) -> Samples | None:
    """A robustness score of a category in each resample: of each seed, then the mean."""
    clean = scores.seed_samples("r1", method, _CLEAN)
    perturbed = scores.seed_samples("r1", method, column)
    if clean is None or perturbed is None:
        return None
    formula = _FORMULAS[score]
    of_seeds = [np.asarray(formula(before, after)) for before, after in zip(clean, perturbed, strict=True)]
    mean: Samples = np.mean(of_seeds, axis=0)
    return mean
