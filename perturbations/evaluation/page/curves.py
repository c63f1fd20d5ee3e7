"""R@1 against severity as SVG: a plot per category side by side, a line per model and method."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from perturbations.evaluation.page.intervals import CLEAN_MEAN, Scores, mean_of
from perturbations.evaluation.page.names import RetrievalChoice, in_order, method_label, titled
from perturbations.evaluation.page.tables import Figure
from perturbations.evaluation.rows import ScenarioKey

_METHODS = (
    ("#1b1d21", "s"),
    ("#0072b2", "o"),
    ("#d55e00", "^"),
    ("#009e73", "D"),
    ("#cc79a7", "v"),
    ("#56b4e9", "P"),
    ("#b07a00", "X"),
    ("#6b4ba1", "<"),
    ("#8b929c", "*"),
)
"""Colour and marker of a method: nine that differ in each, of Okabe's and Ito's colours, dark enough on white."""
_MODELS = ("-", "--", ":", "-.")
_WIDTH = 11.0  # inches of a row of plots: a page's width
_LEAST_SPAN = 10.0  # percent points: smaller differences are no more than they look
_ACROSS = 5  # plots in a row
_ENTRY_INCHES, _LETTER_INCHES = 0.6, 0.062
"""Of an entry of the legend without its text, and of a letter."""
_STYLE: dict[Any, Any] = {
    "axes.edgecolor": "#5d636c",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 9,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "grid.color": "#e4e6ea",
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "report",  # the same figure is the same text
    "text.parse_math": False,  # names may hold any character
    "xtick.major.size": 0,
    "ytick.major.size": 0,
}


def of_models(models: Sequence[Scores], retrieval: RetrievalChoice) -> Iterator[Figure]:
    """The figure of a retrieval: R@1 of each model and method against severity; none where nothing is perturbed."""
    frames = [points(own, own.scenarios(retrieval.suite, retrieval.side)) for own in models]
    frame = pd.concat([own.assign(model=scores.model) for own, scores in zip(frames, models, strict=True)])
    if frame.empty:
        return
    plots = "; ".join(dict.fromkeys(frame["plot"]))
    yield Figure(
        drawn(frame),
        f"R@1 of each method against severity, 0 is clean; {plots}; the table holds the numbers",
        f"{retrieval.title(models[0].dataset)}: R@1 against severity, 0 is clean.",
    )


def points(scores: Scores, categories: Mapping[str, Sequence[ScenarioKey]]) -> pd.DataFrame:
    """R@1 by severity, 0 the clean one: rows `plot` (a category, or all), `method`, `x`, `value`."""
    every = {"all": [key for members in categories.values() for key in members]} if len(categories) > 1 else {}
    rows = []
    for plot, members in {**categories, **every}.items():
        at: dict[int, list[ScenarioKey]] = {}
        for scenario in members:
            at.setdefault(scenario.severity or 0, []).append(scenario)
        columns = {0: CLEAN_MEAN, **{severity: mean_of(at[severity]) for severity in sorted(at)}}
        for method in scores.methods:
            values = {severity: scores.value("recall_at_1", method, column) for severity, column in columns.items()}
            known = [(plot, method, severity, value) for severity, value in values.items() if value == value]
            rows += known if len(known) > 1 else []  # more than the clean value
    return pd.DataFrame(rows, columns=["plot", "method", "x", "value"])


def drawn(frame: pd.DataFrame) -> str:
    """The SVG of rows `model` and those of `points`: colours and markers tell methods apart, dashes models."""
    from matplotlib import rc_context  # late: it takes a second to load
    from matplotlib.figure import Figure as Plots

    names, methods, models = (list(dict.fromkeys(frame[name])) for name in ("plot", "method", "model"))
    methods = in_order(methods)
    across = min(len(names), _ACROSS)
    rows = -(-len(names) // across)
    labels = {
        (model, method): titled(model if len(models) > 1 else "", method_label(method))
        for model in models
        for method in methods
    }
    across_legend = max(1, int(_WIDTH / (_ENTRY_INCHES + _LETTER_INCHES * max(map(len, labels.values())))))
    above = 0.37 + 0.18 * -(-len(labels) // across_legend)  # inches of the legend and the titles
    tall = 0.15 + above + max(1.6, min(2.6, 5 / across)) * rows
    with rc_context(_STYLE):
        figure = Plots(figsize=(_WIDTH, tall))
        plots = figure.subplots(rows, across, sharex=True, sharey=True, squeeze=False).ravel()
        lines: dict[str, Any] = {}
        for axes, name in zip(plots, names, strict=False):
            axes.set_title(name, y=1.02)
            for (model, method), own in frame[frame["plot"] == name].groupby(["model", "method"], sort=False):
                colour, marker = _METHODS[methods.index(method) % len(_METHODS)]
                dash = _MODELS[models.index(model) % len(_MODELS)]
                text = labels[model, method]
                (lines[text],) = axes.plot(own["x"], own["value"], dash, color=colour, marker=marker, label=text)
            axes.set_xticks(sorted(set(frame["x"])))
            axes.set_ylim(*_bounds(frame["value"]))
        for axes in plots[len(names) :]:
            axes.set_axis_off()
        figure.text(0.5, 0.05 / tall, "severity", ha="center", va="bottom")
        figure.text(0.05 / _WIDTH, 0.5, "R@1, %", rotation=90, va="center")
        figure.legend(lines.values(), lines, loc="upper left", ncols=across_legend, columnspacing=1)
        margins = {"left": 0.55 / _WIDTH, "right": 1 - 0.05 / _WIDTH, "bottom": 0.4 / tall, "top": 1 - above / tall}
        figure.subplots_adjust(**margins, wspace=0.12, hspace=0.35)
        svg = io.StringIO()
        figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return f"<svg {' '.join(svg.getvalue().partition('<svg')[2].split())}\n"


def _bounds(values: pd.Series) -> tuple[float, float]:
    """The ends of an axis of percentages: within 0 and 100 where the values are, and at least `_LEAST_SPAN` apart."""
    low, high = float(values.min()), float(values.max())
    wide = max((high - low) * 1.1, _LEAST_SPAN)
    low = max(min(0.0, low), min((low + high - wide) / 2, 101 - wide))
    return low - 0.02 * wide, low + 1.02 * wide
