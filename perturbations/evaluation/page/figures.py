"""The report's figures: small plots with the same axes, side by side, as matplotlib draws them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES = (
    ("#1b1d21", "-", "s"),
    ("#0072b2", "-", "o"),
    ("#d55e00", "--", "^"),
    ("#007a5a", ":", "D"),
    ("#a8437f", "-.", "v"),
    ("#2f8fc9", "--", "s"),
    ("#b07a00", ":", "o"),
    ("#6b4ba1", "-.", "^"),
    ("#6f757d", "--", "D"),
)
"""Colour, dash and marker (of the last point) of lines: Okabe and Ito's colours, dark enough on white."""
_ACROSS = 5  # plots in a row
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
    "lines.linewidth": 1.2,
    "lines.markersize": 3,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "report",  # the same figure is the same text
    "text.parse_math": False,  # names may hold any character
    "xtick.major.size": 0,
    "ytick.major.size": 0,
}


def lines(values: Mapping[str, Mapping[str, Mapping[int, float]]], styles: Mapping[str, int], up: str) -> str:
    """One plot per name against severity, with one line per name of `styles`: its place among the styles."""
    severities = sorted({at for of_plot in values.values() for line in of_plot.values() for at in line})

    def draw(axes: Axes, name: str) -> None:
        for line, own in values[name].items():
            colour, dash, marker = _LINES[styles[line] % len(_LINES)]
            axes.plot(list(own), list(own.values()), dash, color=colour, marker=marker, markevery=[-1], label=line)
        axes.set_xticks(severities)
        axes.grid(axis="y")

    return _drawn(list(values), draw, "severity", up)


def histograms(occurrence: Mapping[str, Sequence[float]]) -> str:
    """Histograms of how often gallery items are retrieved, one plot per name; the first one is dark."""
    most = max(1.0, max(float(np.max(counts)) for counts in occurrence.values()))
    edges = np.linspace(0, most, min(31, int(np.ceil(most)) + 2))

    def draw(axes: Axes, name: str) -> None:
        colour = "#1b1d21" if name == next(iter(occurrence)) else "#8b929c"
        axes.stairs(np.histogram(occurrence[name], edges)[0], edges, fill=True, color=colour)
        axes.set_yscale("symlog", linthresh=1)
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.grid(axis="y")

    return _drawn(list(occurrence), draw, "times among the top 15", "gallery items")


def heatmaps(similarities: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """Similarities: one picture per name, each row with its own scale, from white (least) to black."""

    def draw(axes: Axes, name: str) -> None:
        scores = np.asarray(similarities[name], np.float64)
        spread = np.ptp(scores, axis=1, keepdims=True)
        scaled = (scores - scores.min(axis=1, keepdims=True)) / np.where(spread == 0, 1, spread)
        axes.imshow(np.rint(15 * scaled), cmap="gray_r", vmin=0, vmax=15, interpolation="none")
        axes.set(xticks=[], yticks=[])

    return _drawn(list(similarities), draw, "gallery items", "queries")


def _drawn(names: Sequence[str], draw: Callable[[Axes, str], None], across: str, up: str) -> str:
    """A plot per name, as the address of an SVG picture."""
    from matplotlib import rc_context  # late: it takes a second to load
    from matplotlib.figure import Figure

    columns = min(len(names), _ACROSS)
    rows = -(-len(names) // columns)
    with rc_context(_STYLE):
        wide, tall = 0.6 + 2.1 * columns, 0.7 + 1.6 * rows
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
            figure.legend(handles.values(), handles, loc="upper left", ncols=2 * columns, columnspacing=1)
        figure.subplots_adjust(0.55 / wide, 0.4 / tall, 1 - 0.05 / wide, 1 - 0.55 / tall, wspace=0.12, hspace=0.35)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = " ".join(text.getvalue().partition("<svg")[2].split())
    return "data:image/svg+xml," + quote(f"<svg {svg}", safe=" /:=,;'()!@$*+?{}[]|~")
