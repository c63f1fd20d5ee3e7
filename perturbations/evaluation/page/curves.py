"""Figures as SVG: the loss under each perturbation as bars, and R@1 against severity as curves, a plot per category.

Each figure is drawn twice, for wide and for narrow screens, because its letters shrink with it.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import pandas as pd

from perturbations.base import shown
from perturbations.evaluation.page.displayed_names import RetrievalChoice, in_order, needs_all_queries, row_names
from perturbations.evaluation.page.marks import span_of
from perturbations.evaluation.page.page_tables import Figure
from perturbations.evaluation.page.scores import Scores, mean_of
from perturbations.tta.methods.method_registry import baseline

_COLOURS = ("#1b1d21", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b07a00", "#6b4ba1", "#8b929c")
_MARKERS = "so^DvPX<*"
"""Nine colours (Okabe's and Ito's, dark enough on white) and nine markers."""
_DASHES = ("-", "--", ":", "-.", (0, (8, 2)), (0, (5, 1.5, 1, 1.5, 1, 1.5)))
_MOST = 12  # lines that are told apart
_OTHER: dict[str, Any] = {"color": "#d3d6dc", "linewidth": 0.8, "zorder": 1}
_ACROSS = 5  # plots in a row
_WIDE, _NARROW, _BARS = 11.0, 3.65, 7.0  # inches: at 96 pixels each, letters are 10.7 pixels high
_LETTERS = 17  # of an inch of the legend
_LEAST_SPAN = 20.0  # percent points: smaller differences are no more than they look
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
    """The figure of a retrieval: R@1 of each model and method against severity; empty where nothing is perturbed."""
    frame = pd.DataFrame(
        [row for scores in models for row in _points(scores, scores.perturbed(choice.suite, choice.side))],
        columns=["model", "plot", "method", "x", "value"],
    )
    if frame.empty:
        return
    plots = "; ".join(dict.fromkeys(frame["plot"]))
    yield Figure(
        _drawn(frame, _WIDE),
        _drawn(frame, _NARROW),
        f"R@1 of each method against severity, 0 is clean; {plots}; the table holds the numbers",
        f"{choice.title(models[0].dataset)}: R@1 against severity, 0 is clean.",
    )


def losses_of(models: Sequence[Scores], choice: RetrievalChoice) -> Iterator[Figure]:
    """The figure of each model's loss without adaptation under each perturbation; empty for a single perturbation."""
    frame = pd.DataFrame(
        [row for scores in models for row in _losses(scores, scores.perturbed(choice.suite, choice.side))],
        columns=["model", "name", "loss", "low", "high"],
    )
    if frame["name"].nunique() < 2:
        return
    worst = frame.groupby("name")["loss"].mean().sort_values(kind="stable")
    where = choice.title(models[0].dataset)
    yield Figure(
        _bars(frame, [*worst.index], _BARS),
        _bars(frame, [*worst.index], _NARROW),
        f"R@1 lost under each perturbation, the worst first: {', '.join(reversed([*worst.index]))}",
        f"{where}: R@1 lost under each perturbation, in points, the worst first"
        f"{'' if frame['low'].isna().all() else '; lines: 95 % intervals'}.",
    )


def _losses(scores: Scores, scenarios: pd.DataFrame) -> Iterator[tuple[str, str, float, float, float]]:
    """The losses of models without adaptation: model, perturbation, loss, and the ends of its interval or NaN."""
    for name, own in scenarios.groupby("name", sort=False):
        loss = scores.loss(scores.reference, mean_of(own))
        if loss[0] == loss[0]:
            yield scores.model, str(name), float(loss[0]), *(span_of(loss) or (math.nan, math.nan))


def _bars(frame: pd.DataFrame, names: Sequence[str], wide: float) -> str:
    """The SVG of the rows of `_losses`: perturbations from bottom to top, each with a bar per model."""
    models = list(dict.fromkeys(frame["model"]))
    columns, thick = _columns(models, wide), 0.8 / len(models)
    tall = 0.6 + len(names) * max(0.2, 0.14 * len(models)) + 0.16 * -(-len(models) // columns)
    with _figure(wide, tall) as figure:
        axes = figure.subplots()
        axes.grid(visible=False, axis="y")
        axes.grid(axis="x")
        for place, (model, own) in enumerate(frame.groupby("model", sort=False)):
            at = [names.index(name) + 0.4 - thick * (place + 0.5) for name in own["name"]]
            ends = (own["loss"] - own["low"], own["high"] - own["loss"])
            errors = None if own["low"].isna().all() else [end.clip(lower=0) for end in ends]
            colour = _COLOURS[1:][place % (len(_COLOURS) - 1)]
            look = {"color": colour, "ecolor": "#1b1d21", "error_kw": {"linewidth": 0.8}}
            bars = axes.barh(at, own["loss"], thick * 0.9, xerr=errors, label=_legend(str(model)), **look)
            axes.bar_label(bars, fmt="%.1f", padding=2)
        axes.set_yticks(range(len(names)), [shown.line(name) for name in names])
        axes.axvline(0, color="#1b1d21", linewidth=0.8)
        axes.margins(x=0.2 if wide == _NARROW else 0.12, y=0.01)
        axes.set_axisbelow(True)
        axes.set_xlabel("R@1 lost, points")
        if len(models) > 1:
            figure.legend(loc="outside upper left", ncols=columns)
        return _svg(figure)


@contextmanager
def _figure(wide: float, tall: float) -> Iterator[Any]:
    """A figure of a size in inches, in the style of all figures."""
    from matplotlib import rc_context  # late: it takes a second to load
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Plots

    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has the font
        figure = Plots(figsize=(wide, tall), dpi=72, layout="constrained")  # SVG's points
        FigureCanvasSVG(figure)  # whose letters the layout measures
        yield figure


def _columns(labels: Iterable[str], wide: float) -> int:
    """How many names of a legend a line has room for."""
    return max(1, int(wide * _LETTERS) // (14 + max(map(len, labels))))


def _legend(name: str) -> str:
    """A name in the legend. A space is put before a name that begins with "_": matplotlib would leave it out."""
    return shown.line(f" {name}" if name.startswith("_") else name)


def _svg(figure: Any) -> str:
    svg = io.StringIO()
    # Without a layout of its own, `savefig` would draw everything twice.
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine(None)
    figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return f"<svg {' '.join(svg.getvalue().partition('<svg')[2].split())}\n"


def _points(scores: Scores, scenarios: pd.DataFrame) -> Iterator[tuple[str, str, str, int, float]]:
    """R@1 of a model by severity (0: clean), for each category and for all: model, plot, method, x and value."""
    plots = {str(category): own for category, own in scenarios.groupby("category", sort=False)}
    for plot, members in (plots | {"all": scenarios} if len(plots) > 1 else plots).items():
        of_severities = members.groupby(members["severity"].fillna(0).astype(int))
        columns = {0: scores.clean, **{severity: mean_of(own) for severity, own in of_severities}}
        for method in scores.methods:
            values = {
                severity: scores.estimate("recall_at_1", method, column)[0] for severity, column in columns.items()
            }
            known = [(scores.model, plot, method, x, value) for x, value in values.items() if value == value]
            yield from known if len(known) > 1 else []  # more than the clean value


def _drawn(frame: pd.DataFrame, wide: float) -> str:
    """The SVG of the rows of `_points`: each method and model has a look of its own; of many methods some are grey."""
    names, models = (list(dict.fromkeys(frame[name])) for name in ("plot", "model"))
    methods = _told_apart(frame, min(len(_COLOURS), max(2, _MOST // len(models))))
    across = min(len(names), _ACROSS if wide == _WIDE else 1)
    rows = -(-len(names) // across)
    runs = list(product(models, methods))
    labels = dict(zip(runs, map(_legend, row_names(runs)[1]), strict=True))
    columns = _columns(labels.values(), wide)
    with _figure(wide, 0.6 + 0.16 * -(-len(labels) // columns) + 1.9 * rows) as figure:
        plots = figure.subplots(rows, across, sharex=True, sharey=True, squeeze=False).ravel()
        lines: dict[str, Any] = {}
        for axes, name in zip(plots, names, strict=False):
            axes.set_title(shown.line(name), loc="left", weight="bold")
            for (model, method), own in frame[frame["plot"] == name].groupby(["model", "method"], sort=False):
                look = _OTHER
                if method in methods:
                    look = _look(models.index(model), methods.index(method), is_single=len(methods) == 1)
                (line,) = axes.plot(own["x"], own["value"], clip_on=False, **look)
                lines[labels.get((model, method), "other methods")] = line
            axes.set_xticks(sorted(set(frame["x"])))
            axes.set_ylim(*_bounds(frame["value"]))
        for axes in plots[len(names) :]:
            axes.set_axis_off()
        figure.supxlabel("severity", size="medium")
        figure.supylabel("R@1, %", size="medium")
        figure.legend(lines.values(), lines, loc="outside upper left", ncols=columns)
        return _svg(figure)


def _look(model: int, method: int, *, is_single: bool) -> dict[str, Any]:
    """Colour, marker and dashes of a line, which no line of another model or method has.

    Each method has a colour, and each model dashes; where dashes run out, models have other markers. With a single
    method, two colours alternate.
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
    """The methods whose lines have looks of their own: no adaptation, and the best that answer batch by batch."""
    means = frame.groupby("method")["value"].mean()
    plain = baseline().name
    best = sorted(means.index, key=lambda name: (name != plain, needs_all_queries(name), -means[name]))
    return in_order(best[:most])


def _bounds(values: pd.Series) -> tuple[float, float]:
    """The ends of an axis of percentages: within 0 and 100 where the values are, and at least `_LEAST_SPAN` apart."""
    low, high = float(values.min()), float(values.max())
    wide = max((high - low) * 1.1, _LEAST_SPAN)
    low = max(min(0.0, low), min((low + high - wide) / 2, 100 - wide))
    return low, low + wide
