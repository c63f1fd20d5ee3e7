"""The report's first table: every method on clean queries, on each category of a suite, and on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perturbations.evaluation.page.intervals import CLEAN, Column, Scenario, Scores, Span, marks, mean_column, spans_of
from perturbations.evaluation.page.parts import DIRECTIONS, Cell, Line, Panel, Part, Table, Text, number, titled
from perturbations.evaluation.page.views import METRICS, Views
from perturbations.tta.methods import registry as methods

_FORMS = {"median_rank": ".1f", "hub_skewness": ".2f"}
_NAMES = {"median_rank": "median rank", "hub_skewness": "Hubness (skewness of the k-occurrence)"}
LOWER = ("median_rank", "hub_skewness")
"""The metrics of which the lowest value is the best."""

WITH_INTERVALS = (
    "Small: change against {baseline}, and its 95 % interval (paired bootstrap over queries); of {baseline}, the "
    "interval of the value. Bold: best, its difference to every other method is off zero. ≈: best, and methods that "
    "are not separable from it. Underlined: second best."
)
WITHOUT_INTERVALS = "Small: change against {baseline}. Bold: best; underlined: second best; without intervals."


@dataclass(frozen=True)
class _Model:
    """The columns of one model: None where it was not asked a category."""

    scores: Scores
    columns: Sequence[Column | None]


def tables(models: Sequence[Scores], views: Views) -> list[Part]:
    """The first table of each view of a dataset and direction, once per metric; models stand side by side."""
    first = models[0]
    parts: list[Part] = []
    suites = [suite for direction, suite in views.queries if direction == first.direction]
    for suite in suites:
        shown = views.of(first.dataset, first.direction, suite)
        scenarios = [scores.scenarios(suite) if suite else {} for scores in models]
        names, own = _columns(models, scenarios)
        for metric in METRICS:
            table = _table(models, suite, metric, names, own, scenarios)
            parts.append(Panel(shown, [table], metric))
        notes = _notes(models, suite, scenarios)
        parts += [Panel(shown, [Text(note) for note in notes])] if notes else []
    return parts


def _columns(
    models: Sequence[Scores], scenarios: Sequence[dict[str, list[Scenario]]]
) -> tuple[list[str], list[_Model]]:
    """The headings, and each model's columns."""
    levels = list(dict.fromkeys(level for of_model in scenarios for level in of_model))
    names = ["clean", *levels, *(["all"] if len(levels) > 1 else [])]
    own = []
    for scores, of_model in zip(models, scenarios, strict=True):
        means = [mean_column(level, of_model[level]) if level in of_model else None for level in levels]
        every = [scenario for members in of_model.values() for scenario in members]
        total = [mean_column("all", every) if every else None] if len(levels) > 1 else []
        own.append(_Model(scores, [Column("clean", ((CLEAN, 1.0),)), *means, *total]))
    return names, own


def _table(
    models: Sequence[Scores],
    suite: str,
    metric: str,
    names: Sequence[str],
    own: Sequence[_Model],
    scenarios: Sequence[dict[str, list[Scenario]]],
) -> Table:
    first = models[0]
    sampled = any(scores.sampled for scores in models) and metric not in LOWER
    wording = WITH_INTERVALS if sampled else WITHOUT_INTERVALS
    severities = _severities(scenarios)
    where = titled(first.dataset, DIRECTIONS[first.direction], suite, severities)
    several = len(models) > 1
    last = len(names) - 1 if names[-1] == "all" else -1
    titles = [
        Cell(name, first=place == 0 and several, average=place == last)
        for _ in models
        for place, name in enumerate(names)
    ]
    head = [[Cell("method"), *titles]]
    if several:
        head = [[Cell(""), *(Cell(scores.model, span=len(names), first=True) for scores in models)], *head]
    every = sorted(
        {name for scores in models for name in scores.methods}, key=lambda name: (methods.place_of(name), name)
    )
    columns = [_cells(model.scores, column, metric, every) for model in own for column in model.columns]
    body = [Line(methods.title_of(method), [cells[place] for cells in columns]) for place, method in enumerate(every)]
    return Table(
        f"{_NAMES.get(metric, METRICS[metric])}: {where}",
        head,
        body,
        stacked=True,
        grouped="model" if several else "",
        note=wording.format(baseline=methods.baseline().title),
    )


def _cells(scores: Scores, column: Column | None, metric: str, every: Sequence[str]) -> list[Cell]:
    """The cells of a column, one per method of `every`."""
    if column is None:
        return [Cell("") for _ in every]
    form = form_of(metric)
    values = [scores.value(metric, method, column) for method in every]
    samples = [scores.samples(metric, method, column) for method in every]
    marked = marks(values, samples, form, lower=metric in LOWER)
    baseline = methods.baseline().name
    changes = [None if method == baseline else scores.change(metric, method, column) for method in every]
    spans = spans_of([own if change is None else change[1] for own, change in zip(samples, changes, strict=True)])
    cells = []
    for value, change, span, mark in zip(values, changes, spans, marked, strict=True):
        shown = "" if change is None else number(change[0], f"+{form}")
        cells.append(Cell(number(value, form), mark=mark, change=shown, interval=ends(span, form)))
    return cells


def form_of(metric: str) -> str:
    """How a metric's values are written."""
    return _FORMS.get(metric, ".1f")


def ends(span: Span | None, form: str) -> tuple[str, str] | tuple[()]:
    """The ends of an interval as text."""
    return () if span is None else (number(span.low, form), number(span.high, form))


def _severities(scenarios: Sequence[dict[str, list[Scenario]]]) -> str:
    """The severities over which the columns are means."""
    severities = sorted(
        {entry[2] for of_model in scenarios for level in of_model.values() for entry in level if entry[2]}
    )
    if not severities:
        return "unperturbed queries"
    if len(severities) > 2 and severities == list(range(severities[0], severities[-1] + 1)):
        return f"mean over severities {severities[0]} to {severities[-1]}"
    return (
        f"severity {severities[0]}"
        if len(severities) == 1
        else f"mean over severities {', '.join(map(str, severities))}"
    )


def _notes(models: Sequence[Scores], suite: str, scenarios: Sequence[dict[str, list[Scenario]]]) -> list[str]:
    """What a reader must know before comparing models, or without intervals."""
    notes = []
    entries = [{entry for level in of_model.values() for entry in level} for of_model in scenarios]
    if any(other != entries[0] for other in entries):
        counts = "; ".join(f"{scores.model}: {len(own)}" for scores, own in zip(models, entries, strict=True))
        notes.append(f"The models were not asked the same scenarios of {suite} ({counts}): their means do not compare.")
    missing = [scores.model for scores in models if not scores.sampled]
    if missing:
        notes.append(
            f"No intervals for {', '.join(missing)}: no ranks.parquet was given beside its results. Run its evaluation "
            "again for one."
        )
    return notes
