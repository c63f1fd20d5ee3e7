"""Hubness: how unevenly a gallery's items are retrieved.

Definitions are those of scikit-hubness (Feldbauer et al., "Fast approximate hubness reduction for large
high-dimensional data", ICBK 2018), which the metrics of HAT-VTR's App. C.3, Tab. 13, are named after. Of that table,
skew, atkinson, robin and anti fit these definitions; "trunc" and "hub" reach values (5.05, 10.25) that no definition
in print gives, so those two columns do not compare.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from perturbations.retrieval.matrices import Scores2D, as_array, as_scores, blocks

_HUB_SIZE = 2  # a hub is retrieved at least this many times as often as the average item


def hubness(similarities: Scores2D, k: int = 15) -> dict[str, float]:
    """Hubness of the k-occurrence of a queries x gallery matrix (array or tensor). All are 0 without hubness.

    Returns
        `skewness`: third standardized moment of the k-occurrence (Radovanovic et al. 2010); 0 for a constant one.
        `truncated_skewness`: third moment of a standard normal distribution that is cut off where the k-occurrence is
            0, E[Z^3 | Z >= -mean / std], std with n - 1. A k-occurrence has no negative side. At most 1.6.
        `atkinson`: Atkinson index with inequality aversion 0.5, 0 (all alike) to 1.
        `robin_hood`: share of all retrievals that would have to move to other items for all to be alike, 0 to 1.
        `antihub_rate`: share of the gallery that is never retrieved, 0 to 1.
        `hub_occurrence`: share of all retrievals that go to hubs, 0 to 1. A hub is retrieved at least twice as often as
            the average item; with as many queries as items that is 2k times, as in scikit-hubness.

    Raises ValueError for anything that is not a matrix, or k < 1. A k beyond the gallery counts as the gallery's size.
    """
    return hubness_of(k_occurrence(similarities, k))


def k_occurrence(similarities: Scores2D, k: int = 15) -> NDArray[np.float64]:
    """How often each gallery item is among a query's k best, float64 (gallery,). Arguments and errors as in `hubness`.

    The sum is queries x k. Items that tie for the last places share them in equal parts, so that the result does not
    depend on the items' order and a constant matrix has no hubs; without ties all numbers are whole. NaN is the worst
    score.
    """
    scores = as_scores(similarities)
    if k < 1:
        raise ValueError(f"k is {k}; it must be at least 1")
    gallery = scores.shape[1]
    k = min(k, gallery)
    counts = np.zeros(gallery)
    for _, block in blocks(scores):
        least = np.partition(block, gallery - k, axis=1)[:, gallery - k, None]
        above, tied = block > least, block == least
        share = (k - above.sum(axis=1)) / tied.sum(axis=1)
        counts += above.sum(axis=0) + share @ tied
    return counts


def hubness_of(occurrence: Scores2D) -> dict[str, float]:
    """The results of `hubness` for a known k-occurrence: counts from 0, (gallery,)."""
    counts = as_array(occurrence).astype(np.float64)
    if counts.ndim != 1 or not counts.size or not counts.min() >= 0 or not counts.sum() > 0:
        raise ValueError("a k-occurrence is a row of counts from 0 on, one for each gallery item, not all 0")
    mean = counts.mean()
    # Shares of ties add up with rounding errors, which alone would give a constant row a skewness.
    even = np.ptp(counts) <= 1e-9 * mean
    deviations = counts - mean
    return {
        # By hand, because to import scipy.stats takes every job of an evaluation more than a second.
        "skewness": 0.0 if even else float(np.mean(deviations**3) / np.mean(deviations**2) ** 1.5),
        "truncated_skewness": 0.0 if even else _truncated_skewness(mean, counts.std(ddof=1)),
        "atkinson": 0.0 if even else float(1 - np.mean(np.sqrt(counts)) ** 2 / mean),
        "robin_hood": 0.0 if even else float(np.abs(deviations).sum() / (2 * counts.sum())),
        "antihub_rate": float(np.mean(counts == 0)),
        "hub_occurrence": float(counts[counts >= _HUB_SIZE * mean].sum() / counts.sum()),
    }


def _truncated_skewness(mean: float, deviation: float) -> float:
    # Closed form of scipy.stats.truncnorm(lowest, inf).moment(3): the density, divided by the part that is left.
    lowest = -float(mean) / float(deviation)
    density = math.exp(-(lowest**2) / 2) / math.sqrt(2 * math.pi)
    return (lowest**2 + 2) * density / (math.erfc(lowest / math.sqrt(2)) / 2)
