"""Which values of a column are marked: bold, underlined, or not separable from the best; and the ends of intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perturbations.evaluation.page.page_tables import number
from perturbations.retrieval.bootstrap import interval, separable

Estimate = NDArray[np.float64]
"""The last axis holds the value and, where ranks are known, the value in each resample."""

IntervalSpan = tuple[float, float]
"""The ends of a 95 % interval."""


def span_of(estimate: Estimate) -> IntervalSpan | None:
    """The interval of an estimate; None without resamples, or where a resample is undefined."""
    if len(estimate) == 1 or not np.isfinite(estimate).all():
        return None
    low, high = interval(estimate[1:])
    return float(low), float(high)


def is_seen(form: str, *values: float) -> bool:
    """Whether a value is not 0 when it is written in this form."""
    return any(value == value and float(format(value, form)) for value in values)


def ends_of(span: IntervalSpan | None, form: str) -> dict[str, float | None]:
    """The ends of an interval as parts of a cell; empty where both are written as 0."""
    return dict(zip(("low", "high"), span, strict=True)) if span and is_seen(form, *span) else {}


def marks(estimates: Estimate, form: str = ".1f", *, lower: bool = False, units: int | None = None) -> list[str]:
    """The mark of each value of a column (methods, 1 or more): "best", "second", "tie", or "".

    With resamples, the best value is "best" if it differs significantly from every other value (Holm's correction).
    Otherwise it is a "tie", and so is each value that it does not differ from significantly. Without, the best value is
    "best". Values with the same text are ties; no value is marked where all texts are the same, or all are ties.
    `units` is the number of queries, or clusters of them, that resamples draw (`separable`).
    """
    values = estimates[:, 0]
    texts = ["" if value != value else number(value, form) for value in values]
    places = sorted({float(text) for text in texts if text}, reverse=not lower)
    if len(places) < 2:
        return [""] * len(texts)
    present = [place for place, text in enumerate(texts) if text]
    leader = (min if lower else max)(present, key=lambda place: values[place])
    inseparable = {leader}
    if estimates.shape[1] > 1:  # a value without resamples does not differ significantly
        others = [place for place in present if place != leader]
        apart = separable(estimates[leader, 1:] - estimates[others, 1:], units)
        inseparable |= {place for place, is_apart in zip(others, apart, strict=True) if not is_apart}
        inseparable |= {place for place in others if texts[place] == texts[leader]}
    if len(inseparable) == len(present):
        return [""] * len(texts)
    if len(inseparable) > 1:
        return ["tie" if place in inseparable else "" for place in range(len(texts))]
    names = {places[0]: "best", places[1]: "second"}
    return [names.get(float(text), "") if text else "" for text in texts]
