"""Ranks and recall of a retrieval, with several targets per query and ties that never help; robustness scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perturbations.base.records import canonical
from perturbations.retrieval.matrices import Numbers, Scores2D, as_array, as_scores, blocks

_RECALLS = (1, 5, 10, 50, 100)

_Targets = int | Sequence[int] | Numbers
"""A query's targets: positions in the gallery, or a boolean per gallery item."""
Relevant: TypeAlias = Sequence[_Targets] | Any
"""The targets of each query, also as an array or a tensor."""


def recall_at_k(similarities: Scores2D, relevant: Relevant, k: int) -> float:
    """R@k: how many of the queries have a target among their first k results, in percent (0 to 100).

    Args:
        similarities: queries x gallery, the larger the more similar; array or tensor.
        relevant: each query's target: an int, or a sequence of ints, where any of them counts, or a boolean queries x
            gallery matrix. `range(n)` means that query i's target is item i.
        k: how many results count, at least 1; a k beyond the gallery gives 100.

    Ties are broken against the model, see `ranks`: a constant matrix gives 0 until k reaches the gallery's size, never
    more than chance.

    Raises ValueError for shapes that do not fit, a query without a target, or a target outside the gallery.
    """
    return _recall(ranks(similarities, relevant), k)


def ranks(similarities: Scores2D, relevant: Relevant) -> NDArray[np.int64]:
    """The rank of each query's best target, 1 first, int64 (queries,). Arguments and errors as in `recall_at_k`.

    rank = 1 + the number of items that are not a target and score at least as high as the best-scored target. So an
    item that ties with a target counts as ranked before it: a model with the same score for every item is not
    rewarded. Other targets of the query do not count. NaN is the worst score: a target with NaN comes after the whole
    gallery.
    """
    scores = as_scores(similarities)
    starts, columns = _targets(relevant, *scores.shape)
    best_ranks = np.empty(len(scores), np.int64)
    for rows, block in blocks(scores):
        bounds = starts[rows.start : rows.start + len(block) + 1]
        first, last = bounds[0], bounds[-1]
        row_of = np.repeat(np.arange(len(block)), np.diff(bounds))
        of_targets = block[row_of, columns[first:last]]
        best = np.maximum.reduceat(of_targets, bounds[:-1] - first)
        as_high = (block >= best[:, None]).sum(axis=1)
        targets_as_high = np.add.reduceat((of_targets >= best[row_of]).astype(np.int64), bounds[:-1] - first)
        best_ranks[rows] = 1 + as_high - targets_as_high
    return best_ranks


def first_places(similarities: Scores2D, k: int) -> NDArray[np.int64]:
    """The places of each query's k best items, the best first, int64 queries x min(k, gallery).

    Of items with equal scores, the first in the gallery comes first; NaN is the worst score.
    """
    scores = as_scores(similarities)
    parts = [np.argsort(-block.astype(np.float64), axis=1, kind="stable")[:, :k] for _, block in blocks(scores)]
    return np.concatenate(parts)


_DIGITS = 6  # of scores


def retrieved_first(similarities: NDArray[np.number], gallery: Sequence[str], k: int) -> list[str]:
    """The first k items of each query as JSON, [id, score], the best first; a score that is not finite is null."""
    return [
        canonical(
            [[gallery[place], round(float(row[place]), _DIGITS) if np.isfinite(row[place]) else None] for place in own]
        )
        for row, own in zip(similarities, first_places(similarities, k).tolist(), strict=True)
    ]


def summary(similarities: Scores2D, relevant: Relevant) -> dict[str, float]:
    """Every metric of one retrieval that the papers' tables report. Arguments and errors as in `recall_at_k`.

    Returns `recall_at_1`, `_5`, `_10`, `_50`, `_100` in percent, `median_rank` and `mean_rank` (1 is perfect), and
    `rsum`, the sum of recall at 1, 5 and 10 (0 to 300).
    """
    return summary_of_ranks(ranks(similarities, relevant))


def summary_of_ranks(ranks: Scores2D) -> dict[str, float]:
    """`summary` of known ranks: integers from 1, (queries,)."""
    known = as_array(ranks)
    if known.ndim != 1 or not known.size or known.min() < 1:
        raise ValueError("ranks are a row of integers from 1 on, one for each query, and at least one")
    result = {f"recall_at_{k}": _recall(known, k) for k in _RECALLS}
    result["median_rank"] = float(np.median(known))
    result["mean_rank"] = float(np.mean(known))
    result["rsum"] = sum(result[f"recall_at_{k}"] for k in _RECALLS[:3])
    return result


def _recall(ranks: Numbers, k: int) -> float:
    if k < 1:
        raise ValueError(f"k is {k}; it must be at least 1")
    return 100 * float(np.count_nonzero(ranks <= k)) / ranks.size


def _targets(relevant: Relevant, queries: int, gallery: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each query's targets start in the list of all targets (queries + 1 numbers), and that list."""
    rows = relevant if isinstance(relevant, Sequence) else as_array(relevant)
    if len(rows) != queries:
        raise ValueError(f"relevant has the targets of {len(rows)} queries; the similarities have {queries}")
    if isinstance(rows, range) or (isinstance(rows, np.ndarray) and rows.shape == (queries,)):
        rows = np.asarray(rows)[:, None]
    per_query = [_targets_of(number, row, gallery) for number, row in enumerate(rows)]
    starts = np.concatenate([[0], np.cumsum([targets.size for targets in per_query])]).astype(np.int64)
    return starts, np.concatenate(per_query)


def _targets_of(query: int, relevant: _Targets, gallery: int) -> NDArray[np.int64]:
    targets = as_array(relevant)
    if targets.dtype == bool:
        if targets.shape != (gallery,):
            raise ValueError(
                f"query {query}: a boolean row has shape {targets.shape}; expected ({gallery},), the gallery"
            )
        targets = np.flatnonzero(targets)
    if not targets.size:
        raise ValueError(f"query {query} has no target; leave it out of the similarities")
    if targets.ndim > 1 or targets.dtype.kind not in "iu":
        raise ValueError(
            f"query {query}: targets are {targets.dtype} {targets.shape}; expected an int or a row of ints"
        )
    places = np.unique(targets).astype(np.int64)
    if places[0] < 0 or places[-1] >= gallery:
        outside = f"{places[places < 0]}{places[-1:]}"
        raise ValueError(f"query {query} has a target outside the gallery of {gallery}: {outside}")
    return places


# --- robustness: what is left of a result under a perturbation --------------------------------------------------------

_Score = np.float64 | NDArray[np.float64]
"""A number for numbers, an array for arrays."""


def gamma_a(clean: ArrayLike, perturbed: ArrayLike) -> _Score:
    """Absolute robustness, 1 - (clean - perturbed) / 100, of results in percent; numbers or arrays.

    1 is robust, above 1 the perturbation helped (MSRVTT-P, Sec. 4.3).
    """
    score: _Score = 1 - (np.asarray(clean, np.float64) - np.asarray(perturbed, np.float64))[()] / 100
    return score


def gamma_r(clean: ArrayLike, perturbed: ArrayLike) -> _Score:
    """Relative robustness, 1 - (clean - perturbed) / clean; numbers or arrays; NaN where `clean` is 0.

    0 is not robust, 1 is, above 1 the perturbation helped (MSRVTT-P, Sec. 4.3).
    """
    return 1 - mmi(clean, perturbed)


def mmi(clean: ArrayLike, perturbed: ArrayLike) -> _Score:
    """MultiModal Impact score, (clean - perturbed) / clean; numbers or arrays; NaN where `clean` is 0.

    The share of the result that the perturbation costs: 0 is robust (Qiu et al., Sec. 3).
    """
    before, after = np.asarray(clean, np.float64), np.asarray(perturbed, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        score: _Score = np.where(before == 0, np.nan, (before - after) / before)[()]
    return score
