"""What parameters may be: numbers in a range, words of a list. Standard library only.

Bounds are what a kernel can compute with, far wider than what is published: no division by zero, no sum that leaves its
type, no table or padding that fills the memory. They belong to the declarations, `Perturbation.bounds`; here are the
types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perturbations.base.errors import short


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included; `above` leaves `low` out, `whole` every fraction."""

    low: float
    high: float
    above: bool = False
    whole: bool = False

    def allows(self, value: object) -> bool:
        """Whether `value` is such a number. A bool is none, nor is NaN or infinity."""
        kinds = (int,) if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            return False
        return self.low <= value <= self.high and not (self.above and value == self.low)

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} {'above' if self.above else 'from'} {self.low} {'and up ' if self.above else ''}to {self.high}"


@dataclass(frozen=True)
class Choice:
    """One of some words, or of False and True."""

    values: tuple[str | bool, ...]

    def allows(self, value: object) -> bool:
        """Whether `value` is one of them, of the same type: 1 is not True."""
        return any(type(value) is type(allowed) and value == allowed for allowed in self.values)

    def __str__(self) -> str:
        return f"one of {', '.join(map(repr, self.values))}" if len(self.values) > 1 else repr(self.values[0])


@dataclass(frozen=True)
class Several:
    """A list of 1 to `most` values."""

    of: Range | Choice
    most: int

    def allows(self, value: object) -> bool:
        """Whether `value` is a list whose every member is allowed."""
        return isinstance(value, list | tuple) and 0 < len(value) <= self.most and all(map(self.of.allows, value))

    def __str__(self) -> str:
        return f"a list of at most {self.most}, each {self.of}"


Bound = Range | Choice | Several
Bounds = Mapping[str, Bound]


@dataclass(frozen=True)
class Joint:
    """What parameters must fulfil together, each within its own bound.

    `parameter` is the one that messages name, `fits` is given all of them, `rule` says what it asks.
    """

    parameter: str
    fits: Callable[[Mapping[str, Any]], bool]
    rule: str


def problem_of(bound: Bound, value: object) -> str | None:
    """What is wrong with a value, as `must be ..., not ...`; None where nothing is."""
    return None if bound.allows(value) else f"must be {bound}, not {short(value)}"


def whole(low: int, high: int) -> Range:
    """Whole numbers from `low` to `high`."""
    return Range(low, high, whole=True)


SEEDS = whole(0, 2**63 - 1)
"""What a seed may be: Parquet stores it as a 64-bit integer."""

SHARE = Range(0, 1)
"""A share of something: of a clip, of words, of the way to a style."""

SIGMA_OF_TAPS = Range(0.01, 1000)
"""Standard deviation of a Gaussian in pixels. Smaller ones divide by zero, and one tap is left long before that."""

REACH = whole(0, 200)
"""Radius of a blur in pixels."""
