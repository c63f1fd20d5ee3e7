"""The bootstrap over queries: how far recall, or a difference of recalls, would move with other queries.

Percentile intervals (Efron, "Bootstrap methods: another look at the jackknife", Ann. Statist. 7, 1979). Queries are
drawn again with replacement, the captions of one clip together (Davison and Hinkley, "Bootstrap Methods and their
Application", 1997, Sec. 3.8). All runs see the same draws, so differences between runs are paired: what makes a query
hard for all of them cancels.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from perturbations.retrieval.matrices import Scores2D, as_array

_SAMPLES = 1000
"""Resamples of an interval: its ends then move by about a twentieth of its width from seed to seed."""
_TAILS = 0.025, 0.975
"""The quantiles that bound a 95 % interval."""

_BLOCK = 1 << 24  # numbers per operand of a product: temporaries stay below 64 MiB

_DrawCounts = NDArray[np.float32]
Samples = NDArray[np.float64]


def draws(
    queries: int, rng: np.random.Generator, samples: int = _SAMPLES, clusters: NDArray[np.integer] | None = None
) -> _DrawCounts:
    """How often each query is drawn in each resample, whole numbers, float32 (samples, queries).

    Each resample draws as many queries as there are; with `clusters` (of each query its cluster's number, from 0), as
    many clusters as there are, each with all of its queries. Raises ValueError without queries or resamples.
    """
    if queries < 1 or samples < 1:
        raise ValueError(f"{samples} resamples of {queries} queries; at least one of each is needed")
    units = queries if clusters is None else int(clusters.max()) + 1
    counts = np.empty((samples, queries), np.float32)
    for row in counts:
        drawn = np.bincount(rng.integers(0, units, units), minlength=units)
        row[:] = drawn if clusters is None else drawn[clusters]
    return counts


def resampled_recall(counts: _DrawCounts, ranks: Scores2D, k: int) -> Samples:
    """R@k in percent of each run in each resample, float64 (runs, samples).

    Args:
        counts: of `draws`, samples x queries.
        ranks: queries x runs: integers from 1, and 0 where a run does not have the query, which is then left out of it.
        k: how many results count, at least 1.

    NaN where a resample draws none of a run's queries. Runs of equal ranks have exactly equal results: sums of whole
    numbers in float32 are exact up to 16 million draws. Raises ValueError for shapes and ranks that do not fit.
    """
    known = as_array(ranks)
    if known.ndim != 2 or known.dtype.kind not in "iu" or len(known) != counts.shape[1]:
        raise ValueError(f"ranks are {known.dtype} {known.shape}; expected integers, {counts.shape[1]} queries x runs")
    if k < 1 or (known.size and known.min() < 0):
        raise ValueError("k and ranks count from 1; 0 marks a query that a run does not have")
    recall = np.empty((known.shape[1], len(counts)))
    step = max(1, _BLOCK // max(1, len(known)))
    for start in range(0, known.shape[1], step):
        part = known[:, start : start + step]
        present = part > 0
        hits = counts @ (present & (part <= k)).astype(np.float32)
        total = counts.sum(axis=1, keepdims=True) if present.all() else counts @ present.astype(np.float32)
        with np.errstate(invalid="ignore"):
            recall[start : start + step] = (100 * hits.astype(np.float64) / total).T
    return recall


def interval(samples: Samples) -> tuple[Samples, Samples]:
    """The ends of the 95 % interval of resamples along the last axis; NaN where a resample is NaN."""
    low, high = np.quantile(samples, _TAILS, axis=-1)
    return low, high


def samples_for(rows: int) -> int:
    """How many resamples suffice for `separable` to tell one of some rows of a table from all others.

    A p-value is at least one over their number, and the smallest of n has to be below 5 % over n.
    """
    return max(_SAMPLES, math.ceil(rows / (2 * _TAILS[0])))


def separable(differences: Samples, units: int | None = None) -> NDArray[np.bool_]:
    """Which of several differences are significantly not zero, at 5 % for all together, bool (differences,).

    Holm's correction (Scand. J. Statist. 6, 1979) of two-sided p-values: twice the share of resamples (differences x
    samples) on the other side of zero, at least one over their number. A difference with a NaN is not significant.
    `units` is the number of queries, or clusters of them, that resamples draw. A p-value is at least 2 / 2**units, the
    chance that so many signs are alike: resamples of few queries cannot show it.
    """
    count, samples = differences.shape
    tails = np.minimum((differences <= 0).mean(axis=1), (differences >= 0).mean(axis=1))
    least = max(1 / samples, 0.0 if units is None else 2.0 ** (1 - units))
    values = np.where(np.isfinite(differences).all(axis=1), np.maximum(2 * tails, least), 1.0)
    order = np.argsort(values, kind="stable")
    apart = np.zeros(count, np.bool_)
    apart[order] = np.logical_and.accumulate(values[order] <= 2 * _TAILS[0] / np.arange(count, 0, -1))
    return apart


def share_interval(share: float, queries: int) -> tuple[float, float]:
    """The interval of the share of queries that are hits, for a single run, without drawing.

    To draw n queries again and count the hits is to draw from a binomial distribution, whose quantiles are known. Where
    no query is a hit, or every one, that distribution is a point: there it is Clopper's and Pearson's exact interval
    (Biometrika 26, 1934).
    """
    if share in (0, 1):
        far = 1 - _TAILS[0] ** (1 / queries)
        return (0.0, far) if share == 0 else (1 - far, 1.0)
    hits = np.arange(queries + 1)
    chosen = np.concatenate([[0], np.cumsum(np.log((queries - hits[:-1]) / hits[1:]))])  # log of n over k
    mass = np.exp(chosen + hits * np.log(share) + (queries - hits) * np.log1p(-share))
    low, high = np.searchsorted(np.cumsum(mass), _TAILS) / queries
    return float(low), float(high)
