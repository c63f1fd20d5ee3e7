"""R@1 against severity as SVG: a plot per category side by side, a line per model and method."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pandas as pd

from perturbations.base import shown
from perturbations.evaluation.page.displayed_names import RetrievalChoice, in_order, needs_all_queries, row_names
from perturbations.evaluation.page.page_tables import Figure
from perturbations.evaluation.page.scores import Scores, mean_of
from perturbations.tta.methods.method_registry import baseline

_COLOURS = ("#1b1d21", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b07a00", "#6b4ba1", "#8b929c")
_MARKERS = "so^DvPX<*"
"""Nine of each, of Okabe's and Ito's colours, dark enough on white."""
_DASHES = ("-", "--", ":", "-.", (0, (8, 2)), (0, (5, 1.5, 1, 1.5, 1, 1.5)))
_MOST = 12  # lines that are told apart
_OTHER: dict[str, Any] = {"color": "#d3d6dc", "linewidth": 0.8, "zorder": 1}
_ACROSS = 5  # plots in a row
_LETTERS = 190  # of a line of the legend
_LEAST_SPAN = 10.0  # percent points: smaller differences are no more than they look
_STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "grid.color": "#e4e6ea",
    "legend.frameon": False,
    "legend.handlelength": 3,  # that dashes are seen
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "report",  # the same figure is the same text
    "text.parse_math": False,  # names may hold any character
}


def of_models(models: Sequence[Scores], choice: RetrievalChoice) -> Iterator[Figure]:
    """The figure of a retrieval: R@1 of each model and method against severity; none where nothing is perturbed."""
    frame = pd.DataFrame(
        [row for scores in models for row in _points(scores, scores.perturbed(choice.suite, choice.side))],
        columns=["model", "plot", "method", "x", "value"],
    )
    if frame.empty:
        return
    plots = "; ".join(dict.fromkeys(frame["plot"]))
    yield Figure(
        _drawn(frame),
        f"R@1 of each method against severity, 0 is clean; {plots}; the table holds the numbers",
        f"{choice.title(models[0].dataset)}: R@1 against severity, 0 is clean.",
    )


def _points(scores: Scores, scenarios: pd.DataFrame) -> Iterator[tuple[str, str, str, int, float]]:
    """R@1 of a model by severity, 0 the clean one, of each category and of all: model, plot, method, x and value."""
    plots = {str(category): own for category, own in scenarios.groupby("category", sort=False)}
    for plot, members in (plots | {"all": scenarios} if len(plots) > 1 else plots).items():
        of_severities = members.groupby(members["severity"].fillna(0).astype(int))
        columns = {0: scores.clean, **{severity: mean_of(own) for severity, own in of_severities}}
        for method in scores.methods:
            values = {severity: scores.value("recall_at_1", method, column) for severity, column in columns.items()}
            known = [(scores.model, plot, method, x, value) for x, value in values.items() if value == value]
            yield from known if len(known) > 1 else []  # more than the clean value


def _drawn(frame: pd.DataFrame) -> str:
    """The SVG of the rows of `_points`: a line of its own look per method and model; of many methods some are grey."""
    from matplotlib import rc_context  # late: it takes a second to load
    from matplotlib.figure import Figure as Plots

    names, models = (list(dict.fromkeys(frame[name])) for name in ("plot", "model"))
    methods = _told_apart(frame, min(len(_COLOURS), max(2, _MOST // len(models))))
    across = min(len(names), _ACROSS)
    rows = -(-len(names) // across)
    runs = list(product(models, methods))
    # A space, as matplotlib leaves out what begins with an underscore.
    named = (shown.line(f" {name}" if name.startswith("_") else name) for name in row_names(runs)[1])
    labels = dict(zip(runs, named, strict=True))
    columns = max(1, _LETTERS // (14 + max(map(len, labels.values()))))
    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has the font
        figure = Plots(figsize=(11, 0.6 + 0.16 * -(-len(labels) // columns) + 1.9 * rows), layout="constrained")
        plots = figure.subplots(rows, across, sharex=True, sharey=True, squeeze=False).ravel()
        lines: dict[str, Any] = {}
        for axes, name in zip(plots, names, strict=False):
            axes.set_title(shown.line(name), loc="left", weight="bold")
            for (model, method), own in frame[frame["plot"] == name].groupby(["model", "method"], sort=False):
                look = _OTHER
                if method in methods:
                    look = _look(models.index(model), methods.index(method), is_single=len(methods) == 1)
                (line,) = axes.plot(own["x"], own["value"], **look)
                lines[labels.get((model, method), "other methods")] = line
            axes.set_xticks(sorted(set(frame["x"])))
            axes.set_ylim(*_bounds(frame["value"]))
        for axes in plots[len(names) :]:
            axes.set_axis_off()
        figure.supxlabel("severity", size="medium")
        figure.supylabel("R@1, %", size="medium")
        figure.legend(lines.values(), lines, loc="outside upper left", ncols=columns)
        svg = io.StringIO()
        figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return f"<svg {' '.join(svg.getvalue().partition('<svg')[2].split())}\n"


def _look(model: int, method: int, *, is_single: bool) -> dict[str, Any]:
    """Colour, marker and dashes of a line, which no line of another model or method has.

    A method has its colour, and a model its dashes; models beyond those dashes have other markers. Of a single method
    two colours alternate.
    """
    if is_single:
        block, place = divmod(model, 2 * len(_DASHES))
        colour, dash, marker = 2 * block + place % 2, place // 2, model
    else:
        colour, dash, marker = method, model % len(_DASHES), method + model // len(_DASHES)
    return {
        "color": _COLOURS[colour % len(_COLOURS)],
        "linestyle": _DASHES[dash],
        "marker": _MARKERS[marker % len(_MARKERS)],
    }


def _told_apart(frame: pd.DataFrame, most: int) -> list[str]:
    """The methods whose lines have looks of their own: the model as it is, and the best that answer each batch."""
    means = frame.groupby("method")["value"].mean()
    plain = baseline().name
    best = sorted(means.index, key=lambda name: (name != plain, needs_all_queries(name), -means[name]))
    return in_order(best[:most])


def _bounds(values: pd.Series) -> tuple[float, float]:
    """The ends of an axis of percentages: within 0 and 100 where the values are, and at least `_LEAST_SPAN` apart."""
    low, high = float(values.min()), float(values.max())
    wide = max((high - low) * 1.1, _LEAST_SPAN)
    low = max(min(0.0, low), min((low + high - wide) / 2, 101 - wide))
    return low - 0.02 * wide, low + 1.02 * wide
