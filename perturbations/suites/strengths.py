"""From mild to strong: one number, a kernel's strength, that decides all of its parameters. Standard library only.

The five severities of a published table are not evenly spaced. To put a severity at a chosen distortion, calibration
needs one way through a kernel's parameters, from 0 (mild) to 1 (strong). A perturbation may declare such a path.
Without one, the path leads through the published table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ParameterValue = bool | int | float | str | list[str] | list[int]
"""A parameter of a kernel. A caption's kernel may take lists: tags of words, positions in a sentence."""

_DIGITS = 4  # of a number with a fraction: people read the tables, and more would not be seen in a frame


@dataclass(frozen=True)
class Axis:
    """A number that goes from `mild` to `strong`.

    Geometrically, in whole steps of `step`, and no farther than `most`, where that is set.
    """

    mild: float
    strong: float
    geometric: bool = False
    step: int | None = None
    most: float | None = None

    def at(self, strength: float) -> float | int:
        """The number at a strength in [0, 1]."""
        value = self.mild + strength * (self.strong - self.mild)
        if self.geometric:
            value = math.exp((1 - strength) * math.log(self.mild) + strength * math.log(self.strong))
        if self.most is not None:
            value = min(value, self.most)
        if self.step is not None:
            return round(self.mild + self.step * round((value - self.mild) / self.step))
        return float(f"{value:.{_DIGITS}g}")


@dataclass(frozen=True)
class Stages:
    """One of several values, each for an equal part of the strengths."""

    values: tuple[ParameterValue, ...]

    def at(self, strength: float) -> ParameterValue:
        """The value at a strength in [0, 1]."""
        return self.values[min(int(strength * len(self.values)), len(self.values) - 1)]


Path = Mapping[str, Axis | Stages | float | int]
"""Parameter -> how it moves, or the number that it keeps. A parameter that is not named keeps what severity 1 has."""


def along(path: Path, first: Mapping[str, ParameterValue], strength: float) -> dict[str, ParameterValue]:
    """The parameters at a strength in [0, 1]; `first` are those of severity 1."""
    moved = {name: rule.at(strength) if isinstance(rule, Axis | Stages) else rule for name, rule in path.items()}
    return {**first, **moved}


def between(table: Sequence[Mapping[str, ParameterValue]], strength: float) -> dict[str, ParameterValue]:
    """The parameters at a strength in [0, 1], between the severities of a published table.

    Numbers are interpolated, whole ones rounded; what is no number is that of the nearer severity.
    """
    place = strength * (len(table) - 1)
    low, high = table[math.floor(place)], table[math.ceil(place)]
    share = place - math.floor(place)
    return {name: _mixed(value, high[name], share) for name, value in low.items()}


def _mixed(low: ParameterValue, high: ParameterValue, share: float) -> ParameterValue:
    if isinstance(low, bool | str | list) or isinstance(high, bool | str | list):
        return low if share < 0.5 else high
    value = low + share * (high - low)
    return round(value) if isinstance(low, int) and isinstance(high, int) else float(f"{value:.{_DIGITS}g}")


def geometric(mild: float, strong: float) -> Axis:
    """A number whose every step is the same factor."""
    return Axis(mild, strong, geometric=True)


def whole(mild: int, strong: int, step: int = 1) -> Axis:
    """A whole number."""
    return Axis(mild, strong, step=step)


def whole_geometric(mild: int, strong: int) -> Axis:
    """A whole number whose every step is about the same factor."""
    return Axis(mild, strong, geometric=True, step=1)
