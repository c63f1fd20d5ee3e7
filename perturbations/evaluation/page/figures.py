"""Figures as SVG: small plots with the same axes, side by side, as matplotlib draws them from frames of data."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES = (
    ("#1b1d21", "-", "s"),
    ("#0072b2", "-", "o"),
    ("#d55e00", "--", "^"),
    ("#009e73", ":", "D"),
    ("#cc79a7", "-.", "v"),
    ("#56b4e9", "--", "P"),
    ("#b07a00", ":", "X"),
    ("#6b4ba1", "-.", "<"),
    ("#8b929c", "--", "*"),
)
"""Colour, dash and marker of lines: nine that differ in each, of Okabe's and Ito's colours, dark enough on white."""
_WIDTH = 11.0  # inches of a row of plots: a page's width
_LEAST_SPAN = 10.0  # percent points: smaller differences are no more than they look
_ACROSS = 5  # plots in a row
_TICKS = 8
_LEGEND_INCHES, _LETTER_INCHES = 0.6, 0.062
"""Of an entry of the legend without its text, and of a letter."""
_STYLE: dict[Any, Any] = {
    "axes.edgecolor": "#5d636c",
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


def curves(frame: pd.DataFrame, across: str, up: str, styles: Sequence[str] = ()) -> str:
    """Lines of rows `plot`, `line`, `x`, `value`, and `low` and `high` where they are known: a plot per `plot`.

    `styles` are names of lines in their order; by default as they come.
    """
    places = _places(frame, styles)
    banded = "low" in frame

    def draw(axes: Axes, name: str) -> None:
        for line, own in frame[frame["plot"] == name].groupby("line", sort=False):
            colour, dash, marker = _LINES[places[str(line)] % len(_LINES)]
            axes.plot(own["x"], own["value"], dash, color=colour, marker=marker, label=line)
            if banded:
                bounds = own[["low", "high"]].to_numpy(np.float64, na_value=np.nan)
                axes.fill_between(own["x"], *bounds.T, color=colour, alpha=0.12, linewidth=0)
        if frame["x"].nunique() <= _TICKS:
            axes.set_xticks(sorted(frame["x"].unique()))
        axes.grid(axis="y")
        if up.endswith("%"):
            axes.set_ylim(*_bounds(frame["value"]))

    return _drawn(list(dict.fromkeys(frame["plot"])), draw, across, up, lines=list(places))


def dots(frame: pd.DataFrame, across: str, styles: Sequence[str] = ()) -> str:
    """A row of markers per `plot` of rows `plot`, `line`, `value` in percent, from top to bottom as they come."""
    places = _places(frame, styles)
    names = list(dict.fromkeys(frame["plot"]))

    def draw(axes: Axes, _: str) -> None:
        lines = list(dict.fromkeys(frame["line"]))
        for place, line in enumerate(lines):
            own = frame[frame["line"] == line]
            colour, _, marker = _LINES[places[line] % len(_LINES)]
            # Side by side, as equal values would hide each other.
            rows = [names.index(name) + 0.6 * ((place + 0.5) / len(lines) - 0.5) for name in own["plot"]]
            axes.plot(own["value"], rows, marker, color=colour, label=line)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlim(*_bounds(frame["value"]))
        axes.grid(axis="x")

    tall = 1.2 + 0.42 * len(names)
    left = 0.3 + 0.075 * max(map(len, names))
    return _drawn([""], draw, across, "", lines=list(places), size=(_WIDTH, tall), margins=(left, 0.5))


def _places(frame: pd.DataFrame, styles: Sequence[str]) -> dict[str, int]:
    """The place of each line in `_LINES`: in the order of `styles`, then as they come."""
    present = dict.fromkeys(frame["line"])
    known = [line for line in styles if line in present]
    return {line: place for place, line in enumerate(dict.fromkeys([*known, *present]))}


def _bounds(values: pd.Series) -> tuple[float, float]:
    """The ends of an axis of percentages: within 0 and 100 where the values are, and at least `_LEAST_SPAN` apart."""
    low, high = float(values.min()), float(values.max())
    wide = max((high - low) * 1.1, _LEAST_SPAN)
    low = max(min(0.0, low), min((low + high - wide) / 2, 101 - wide))
    return low - 0.02 * wide, low + 1.02 * wide


def address(svg: str) -> str:
    """A figure as the address of its data, for pages."""
    return "data:image/svg+xml," + quote(svg, safe=" /:=,;'()!@$*+?{}[]|~")


def _drawn(
    names: Sequence[str],
    draw: Callable[[Axes, str], None],
    across: str,
    up: str,
    *,
    lines: Sequence[str],
    size: tuple[float, float] | None = None,
    margins: tuple[float, float] = (0.55, 0.4),
) -> str:
    """A plot per name, and a legend of `lines`; `size` and the margins (left, below) are in inches."""
    from matplotlib import rc_context  # late: it takes a second to load
    from matplotlib.figure import Figure

    columns = min(len(names), _ACROSS)
    rows = -(-len(names) // columns)
    wide, tall = size or (_WIDTH, 0.7 + max(1.6, min(2.6, 5 / columns)) * rows)
    across_legend = max(1, int(wide / (_LEGEND_INCHES + _LETTER_INCHES * max(map(len, lines), default=0))))
    above = 0.37 + 0.18 * max(1, -(-len(lines) // across_legend))  # inches of the legend and the titles
    tall += above - 0.55
    with rc_context(_STYLE):
        figure = Figure(figsize=(wide, tall))
        plots = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, name in zip(plots, names, strict=False):
            axes.set_title(name, y=1.02)
            draw(axes, name)
        for axes in plots[len(names) :]:
            axes.set_axis_off()
        figure.text(0.5, 0.05 / tall, across, ha="center", va="bottom")
        figure.text(0.05 / wide, 0.5, up, rotation=90, va="center")
        handles = {text: line for axes in plots for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}
        if handles:
            figure.legend(handles.values(), handles, loc="upper left", ncols=across_legend, columnspacing=1)
        left, below = margins
        figure.subplots_adjust(left / wide, below / tall, 1 - 0.05 / wide, 1 - above / tall, wspace=0.12, hspace=0.35)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return f"<svg {' '.join(text.getvalue().partition('<svg')[2].split())}\n"
