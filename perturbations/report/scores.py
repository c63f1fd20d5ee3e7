"""The report's sections of scores: recall, its decrease with severity, robustness scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from perturbations.report import figures
from perturbations.report.parts import (
    DIRECTIONS,
    Cell,
    Figure,
    Heading,
    Line,
    Part,
    Section,
    Table,
    groups,
    label,
    of_models,
    order,
    titled,
)
from perturbations.retrieval import aggregate, robustness_scores
from perturbations.suites import registry
from perturbations.tta.methods import registry as methods

_KINDS = {"v2t": "video", "t2v": "text"}
_SCORES = {"gamma_a": "absolute robustness", "gamma_r": "relative robustness", "mmi": "MultiModal Impact"}


def recall(frame: pd.DataFrame) -> Section:
    """R@1 of each method under each perturbation, as in the papers' tables, and of mixed queries."""
    parts: list[Part] = []
    for (dataset, direction), group in groups(frame, "dataset", "direction"):
        parts.append(Heading(f"{dataset}: {DIRECTIONS[direction]}"))
        clean = group[group["suite"] == "clean"]
        plain = group[(group["suite"] != "clean") & group["mix"].isna()]
        if plain.empty:
            parts.append(_table("unperturbed queries", {}, clean, pd.DataFrame()))
        for (suite,), of_suite in groups(plain, "suite"):
            for severity, scenario in of_suite.groupby(of_suite["severity"].astype(int), sort=True):
                players = dict(zip(scenario["perturbation"], scenario["backend"], strict=True))
                labels = {name: label(suite, name, backend) for name, backend in players.items()}
                levels = {
                    level: [labels[name] for name in names]
                    for level, names in _levels(suite, _KINDS[direction], set(labels)).items()
                }
                title = f"{suite} at severity {severity}: R@1"
                parts.append(_table(title, levels, clean, scenario.assign(column=scenario["perturbation"].map(labels))))
        for (suite, mix), mixed in groups(group[group["mix"].notna()], "suite", "mix"):
            named = [
                f"{share:.0%} perturbed" if pd.notna(share) else name
                for name, share in zip(mixed["perturbation"], mixed["share"], strict=True)
            ]
            levels = {mix.replace("_", " "): list(dict.fromkeys(named))}
            parts.append(_table(f"{suite}, {mix.replace('_', ' ')}: R@1", levels, clean, mixed.assign(column=named)))
    texts = [] if parts else ["Nothing was evaluated yet: snakemake tta_<dataset>."]
    return Section("results", "Results", texts, parts)


def _levels(suite: str, kind: str, names: set[str]) -> dict[str, list[str]]:
    """The named perturbations of a suite by category, in the paper's order."""
    levels: dict[str, list[str]] = {}
    for entry in registry.suite(suite).perturbations:
        if entry.kind == kind and entry.name in names:
            levels.setdefault(entry.level, []).append(entry.name)
    return levels


def _table(title: str, levels: dict[str, list[str]], clean: pd.DataFrame, scenario: pd.DataFrame) -> Table:
    """Methods x perturbations, grouped by category, with averages; several models one below the other."""
    keys = ["model_name", "method"]
    both = pd.concat([clean, scenario])[keys] if len(scenario) else clean[keys]
    names = sorted(dict.fromkeys(both.itertuples(index=False, name=None)), key=lambda name: name[0])
    columns: list[tuple[pd.Series, bool]] = [(clean.groupby(keys)["r1"].mean(), False)]
    head, second = [Cell("method"), Cell("clean")], [Cell(""), Cell("")]
    table = scenario.groupby([*keys, "column"])["r1"].mean().unstack() if len(scenario) else pd.DataFrame()
    for level, members in levels.items():
        several = len(members) > 1
        head.append(Cell(level, span=len(members) + several))
        for name in members:
            columns.append((table[name], False))
            second.append(Cell(name))
        if several:
            columns.append((table[members].mean(axis=1, skipna=False), True))
            second.append(Cell("average", average=True))
    if len(levels) > 1:
        head.append(Cell("all"))
        second.append(Cell("average", average=True))
        columns.append(
            (table[[name for members in levels.values() for name in members]].mean(axis=1, skipna=False), True)
        )
    body: list[Line] = []
    models = list(dict.fromkeys(model for model, _ in names))
    for model in models:
        own = [name for name in names if name[0] == model]
        marked = [_marks([values.get(name, np.nan) for name in own], average) for values, average in columns]
        body += [Line(model, [])] if len(models) > 1 else []
        body += [
            Line(methods.title_of(method), [cells[place] for cells in marked]) for place, (_, method) in enumerate(own)
        ]
    return Table(title, [head, second] if levels else [head], body)


def _marks(values: Sequence[float], average: bool = False) -> list[Cell]:
    """The cells of a column. Values with the same text are ties; no cell is marked where all texts are the same."""
    shown = ["" if pd.isna(value) else f"{value:.1f}" for value in values]
    places = sorted({float(text) for text in shown if text}, reverse=True)
    several = len(places) > 1
    return [
        Cell(
            text,
            best=several and bool(text) and float(text) == places[0],
            second=several and bool(text) and float(text) == places[1],
            average=average,
        )
        for text in shown
    ]


def severities(frame: pd.DataFrame) -> Section:
    """Mean R@1 of each method against severity, as figures."""
    parts: list[Part] = []
    plain = frame[frame["mix"].isna() & (frame["suite"] != "clean")]
    for (dataset, direction, suite), of_suite in groups(plain, "dataset", "direction", "suite"):
        clean = frame[(frame["dataset"] == dataset) & (frame["direction"] == direction) & (frame["suite"] == "clean")]
        for model, group in of_models(of_suite):
            lines = _lines(group, clean[clean["model_key"].isin(group["model_key"])])
            where = titled(dataset, model, suite, DIRECTIONS[direction])
            parts.append(
                Figure(
                    figures.lines(lines, "severity (0: clean)", "R@1, %"),
                    f"R@1 of each method against severity: {_spoken(lines)}",
                    f"{where}: mean R@1 over the perturbations at each severity.",
                    640,
                )
            )
    return Section("severity", "R@1 against severity", [] if parts else ["No perturbed query yet."], parts)


def _lines(group: pd.DataFrame, clean: pd.DataFrame) -> dict[str, dict[int, float]]:
    """Mean R@1 by severity of each method of one model."""
    lines = {}
    for method in dict.fromkeys(group["method"]):
        at = group[group["method"] == method].groupby("severity")["r1"].mean()
        start = clean[clean["method"] == method]["r1"].mean()
        means = {int(severity): float(value) for severity, value in at.items()}
        lines[methods.title_of(method)] = {0: float(start), **means}
    return lines


def _spoken(lines: dict[str, dict[int, float]]) -> str:
    return "; ".join(
        f"{method} " + ", ".join(f"{value:.1f} at {severity}" for severity, value in values.items())
        for method, values in lines.items()
    )


def robustness(frame: pd.DataFrame) -> Section:
    """Robustness scores of each method and category."""
    text = (
        "Absolute robustness is 1 - (clean - perturbed) / 100, relative robustness 1 - (clean - perturbed) / clean, "
        "MultiModal Impact (clean - perturbed) / clean, of R@1; "
        "mean and standard deviation over a category's perturbations. A method is compared with its own clean result."
    )
    plain = frame[frame["mix"].isna()]
    parts: list[Part] = []
    for (dataset, direction), of_dataset in groups(plain, "dataset", "direction"):
        for model, group in of_models(of_dataset):
            scored = robustness_scores(group)
            if not scored.empty:
                parts += _robustness_tables(titled(dataset, model, DIRECTIONS[direction]), scored)
    return Section("robustness", "Robustness scores", [text] if parts else ["No perturbed query yet."], parts)


def _robustness_tables(where: str, scored: pd.DataFrame) -> list[Table]:
    """One table per score: methods x categories."""
    scores = aggregate(scored, ["suite", "level", "method"])
    scored_columns = set(scores[["suite", "level"]].itertuples(index=False, name=None))
    columns = [
        column
        for suite in sorted({suite for suite, _ in scored_columns})
        for column in dict.fromkeys((suite, entry.level) for entry in registry.suite(suite).perturbations)
        if column in scored_columns
    ]
    suites = list(dict.fromkeys(suite for suite, _ in columns))
    head = [Cell("method"), *(Cell(name, span=sum(suite == name for suite, _ in columns)) for name in suites)]
    second = [Cell(""), *(Cell(level) for _, level in columns)]
    tables = []
    for score, title in _SCORES.items():
        body = []
        for method, own in scores.sort_values("method", key=order, kind="stable").groupby("method", sort=False):
            cell = {
                (row["suite"], row["level"]): f"{row[f'{score}_mean']:.2f} ± {row[f'{score}_std']:.2f}"
                for row in own.to_dict("records")
            }
            body.append(Line(methods.title_of(str(method)), [Cell(cell.get(column, "")) for column in columns]))
        tables.append(Table(f"{where}: {title}", [head, second], body))
    return tables
