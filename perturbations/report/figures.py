"""The report's figures as SVG in data URLs. Lines differ in marker and dash, not only in colour."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (5, 5)), (0, (8, 2, 2, 2)))
_COLOURS = (
    "#1b1d21",
    "#0b4a9e",
    "#b5471b",
    "#2c7a3f",
    "#8a2f8f",
    "#b8860b",
    "#0f7f86",
    "#7a1f2b",
    "#5a5f68",
)  # dark on white
_MOST_COLUMNS = 4


def lines(values: Mapping[str, Mapping[int, float]], x: str, y: str) -> str:
    """One line per name."""
    figure, axes = _figure(7.2, 3.8, 1, 1)
    (axis,) = axes
    for place, (name, points) in enumerate(values.items()):
        axis.plot(
            list(points),
            list(points.values()),
            label=name,
            marker=_MARKERS[place % len(_MARKERS)],
            ls=_DASHES[place % len(_DASHES)],
            color=_COLOURS[place % len(_COLOURS)],
            markerfacecolor="white" if place % 2 else None,
        )
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.set_ylim(0, None)
    axis.set_xticks(sorted({x_value for points in values.values() for x_value in points}))
    axis.grid(True, lw=0.4)
    axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return _address(figure)


def histograms(occurrence: Mapping[str, Sequence[float]]) -> str:
    """Histograms of how often gallery items are retrieved: one panel per name, all with the same axes."""
    rows, columns = _grid(len(occurrence))
    figure, axes = _figure(2.4 * columns, 1.9 * rows, rows, columns, shared=True)
    most = max(1.0, max(float(np.max(counts)) for counts in occurrence.values()))
    edges = np.linspace(0, most, min(31, math.ceil(most) + 2)).tolist()
    for place, (axis, (name, counts)) in enumerate(zip(axes, occurrence.items(), strict=False)):
        axis.hist(
            counts,
            bins=edges,
            color="#5a5f68" if place else "#1b1d21",
            hatch=None if place else "///",
            edgecolor="white",
            lw=0.3,
        )
        axis.set_title(name, fontsize=9)
        axis.set_yscale("symlog", linthresh=1)
        axis.grid(True, axis="y", lw=0.3)
    _unused(axes, len(occurrence))
    figure.supxlabel("times among the top 15", fontsize=9)
    figure.supylabel("gallery items", fontsize=9)
    return _address(figure)


def heatmaps(similarities: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """Similarities: one square per name, each row with its own scale, from white (least) to black."""
    rows, columns = _grid(len(similarities))
    figure, axes = _figure(2.3 * columns, 2.4 * rows, rows, columns)
    for axis, (name, values) in zip(axes, similarities.items(), strict=False):
        scores = np.asarray(values, np.float64)
        spread = np.ptp(scores, axis=1, keepdims=True)
        scaled = (scores - scores.min(axis=1, keepdims=True)) / np.where(spread == 0, 1, spread)
        axis.imshow(scaled, cmap="Greys", interpolation="nearest", aspect="auto", vmin=0, vmax=1)
        axis.set_title(name, fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
    _unused(axes, len(similarities))
    figure.supxlabel("gallery items", fontsize=9)
    figure.supylabel("queries", fontsize=9)
    return _address(figure)


def _grid(number: int) -> tuple[int, int]:
    columns = min(number, _MOST_COLUMNS)
    return math.ceil(number / columns), columns


def _figure(width: float, height: float, rows: int, columns: int, *, shared: bool = False) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure  # late: it takes a second to load

    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, sharex=shared, sharey=shared).ravel())


def _unused(axes: Sequence[Axes], used: int) -> None:
    for axis in axes[used:]:
        axis.set_axis_off()


def _address(figure: Figure) -> str:
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "perturbations", "svg.fonttype": "path"}):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()
