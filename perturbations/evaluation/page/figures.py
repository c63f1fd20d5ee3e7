"""The report's figures: paths of small plots, which the page draws itself, and small pictures in data URLs.

A page may hold a hundred small plots. Drawn by the page, a plot takes 1 KB; as an SVG of matplotlib, 30 KB.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence

import cv2
import numpy as np

from perturbations.evaluation.page.parts import Plot

WIDTH, HEIGHT = 210, 160
"""Pixels of a small plot."""
LEFT, RIGHT, TOP, BOTTOM = 30, 12, 8, 22
"""Pixels around its axes."""
DASHES = (
    ("#1b1d21", ""),
    ("#0072b2", ""),
    ("#d55e00", "6 2"),
    ("#007a5a", "2 2"),
    ("#a8437f", "7 2 2 2"),
    ("#2f8fc9", "4 3"),
    ("#b07a00", "1 2"),
    ("#6b4ba1", "9 3"),
    ("#6f757d", "3 1"),
)
"""Colour and dash of the styles of curves, `k0` to `k8`: Okabe and Ito's colours, dark enough on white."""
MARKERS = (
    "M-2-2H2V2H-2z",
    "M-2.2 0A2.2 2.2 0 1 0 2.2 0 2.2 2.2 0 1 0-2.2 0z",
    "M0-2.8 2.6 2H-2.6z",
    "M0-3 3 0 0 3-3 0z",
    "M0 2.8 2.6-2H-2.6z",
    "M-2-2H2V2H-2z",
    "M-2.2 0A2.2 2.2 0 1 0 2.2 0 2.2 2.2 0 1 0-2.2 0z",
    "M0-2.8 2.6 2H-2.6z",
    "M0-3 3 0 0 3-3 0z",
)
"""Outlines of their markers; every second one is drawn hollow."""
STYLES = len(DASHES)
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 25, 50)


def lines(values: Mapping[str, Mapping[str, Mapping[int, float]]], styles: Mapping[str, str]) -> list[Plot]:
    """One plot per name, with one line per style's name; all plots have the same axes, from least to most."""
    points = [point for of_plot in values.values() for line in of_plot.values() for point in line.items()]
    if not points:
        return []
    low, high, ups = _range([value for _, value in points])
    most = max(max(severity for severity, _ in points), 1)
    severities = sorted({severity for severity, _ in points})
    across = [(_x(severity, 0, most), str(severity)) for severity in severities]
    up = [(_y(value, low, high), f"{value:g}") for value in ups]
    return [
        Plot(
            name,
            [
                (styles[line], _path((_x(at, 0, most), _y(value, low, high)) for at, value in sorted(own.items())))
                for line, own in of_plot.items()
                if own
            ],
            across,
            up,
        )
        for name, of_plot in values.items()
    ]


def histograms(occurrence: Mapping[str, Sequence[float]]) -> list[Plot]:
    """Histograms of how often gallery items are retrieved: one plot per name, with the same axes; log(1 + count)."""
    most = max(1.0, max(float(np.max(counts)) for counts in occurrence.values()))
    edges = np.linspace(0, most, min(31, math.ceil(most) + 2))
    heights = {name: np.histogram(counts, edges)[0] for name, counts in occurrence.items()}
    top = max(int(np.max(height)) for height in heights.values())
    ups = [0, *(10**power for power in range(math.ceil(math.log10(top + 1))))]
    high = math.log1p(top)
    up = [(_y(math.log1p(value), 0, high), f"{value:,}") for value in ups]
    marked = dict.fromkeys((0, math.floor(most / 2), math.floor(most)))
    across = [(_x(value, 0, most), f"{value:g}") for value in marked]
    plots = []
    for place, (name, height) in enumerate(heights.items()):
        steps = [(_x(0, 0, most), _y(0, 0, high))]
        for left, right, count in zip(edges[:-1], edges[1:], height, strict=True):
            level = _y(math.log1p(int(count)), 0, high)
            steps += [(_x(float(left), 0, most), level), (_x(float(right), 0, most), level)]
        steps.append((_x(most, 0, most), _y(0, 0, high)))
        plots.append(Plot(name, [("bars" if place else "bars first", _path(steps))], across, up))
    return plots


def heatmaps(similarities: Mapping[str, Sequence[Sequence[float]]]) -> list[tuple[str, str]]:
    """Similarities: one picture per name, each row with its own scale, from white (least) to black."""
    pictures = []
    for name, values in similarities.items():
        scores = np.asarray(values, np.float64)
        spread = np.ptp(scores, axis=1, keepdims=True)
        scaled = (scores - scores.min(axis=1, keepdims=True)) / np.where(spread == 0, 1, spread)
        levels = 255 - 17 * np.rint(15 * scaled).astype(np.uint8)  # 16 greys, which a PNG packs well
        _, data = cv2.imencode(".png", levels, [cv2.IMWRITE_PNG_COMPRESSION, 9])
        pictures.append(("data:image/png;base64," + base64.b64encode(data.tobytes()).decode(), name))
    return pictures


def _range(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """The ends of an axis that holds the values, and two to five ticks."""
    low, high = min(values), max(values)
    step = next((step for step in _STEPS if (high - low) / step <= 4), 100)
    first, last = math.floor(low / step), math.ceil(high / step)
    last = max(last, first + 1)
    return first * step, last * step, [place * step for place in range(first, last + 1)]


def _x(value: float, low: float, high: float) -> float:
    return round(LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT))


def _y(value: float, low: float, high: float) -> float:
    return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)


def _path(points: Iterable[tuple[float, float]]) -> str:
    """An SVG path in steps from point to point, which need fewer digits than places."""
    tenths = [(round(10 * x), round(10 * y)) for x, y in points]
    (x, y), *others = tenths
    path = f"M{x / 10:g} {y / 10:g}l"
    for next_x, next_y in others:
        across, down = f"{(next_x - x) / 10:g}", f"{(next_y - y) / 10:g}"
        path += (" " if across[0] != "-" else "") + across + (" " if down[0] != "-" else "") + down
        x, y = next_x, next_y
    return path.replace("l ", "l")
