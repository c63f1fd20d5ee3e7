"""Ranks and recall of a retrieval, with several targets a query and ties that never help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perturbations.retrieval.arrays import as_array, as_scores, blocks

RECALLS = (1, 5, 10, 50, 100)


def recall_at_k(similarities: Any, relevant: Any, k: int) -> float:
    """R@k: how many of the queries have a target among their first k results, in percent (0 to 100).

    Args:
        similarities: queries x gallery, the larger the more similar; array or tensor.
        relevant: each query's target: an int, or a sequence of ints of which any counts, or a boolean queries x
            gallery matrix. `range(n)` says that query i's target is item i.
        k: how many results are looked at, at least 1; a k beyond the gallery gives 100.

    Ties are broken against the model, see `ranks`: a constant matrix gives 0 until k reaches the gallery's size, never
    more than chance.

    Raises ValueError for shapes that do not fit, a query without a target, or a target outside the gallery.
    """
    return _recall(ranks(similarities, relevant), k)


def ranks(similarities: Any, relevant: Any) -> NDArray[np.int64]:
    """The rank of each query's best target, 1 first, int64 (queries,). Arguments and errors as in `recall_at_k`.

    rank = 1 + the number of items that are no target and score at least as high as the best-scored target. So a tie
    between a target and another item counts as if the other stood before it: a model that says the same of everything
    is not rewarded. Other targets of the query never stand in the way. NaN is the worst score there is: a target of NaN
    stands behind the whole gallery.
    """
    scores = as_scores(similarities)
    starts, columns = _targets(relevant, *scores.shape)
    found = np.empty(len(scores), np.int64)
    for rows, block in blocks(scores):
        bounds = starts[rows.start : rows.start + len(block) + 1]
        first, last = bounds[0], bounds[-1]
        row_of = np.repeat(np.arange(len(block)), np.diff(bounds))
        of_targets = block[row_of, columns[first:last]]
        best = np.maximum.reduceat(of_targets, bounds[:-1] - first)
        as_high = (block >= best[:, None]).sum(axis=1)
        targets_as_high = np.add.reduceat((of_targets >= best[row_of]).astype(np.int64), bounds[:-1] - first)
        found[rows] = 1 + as_high - targets_as_high
    return found


def summary(similarities: Any, relevant: Any) -> dict[str, float]:
    """Everything the papers' tables report of one retrieval. Arguments and errors as in `recall_at_k`.

    Returns `r1`, `r5`, `r10`, `r50`, `r100` in percent, `median_rank` and `mean_rank` (1 is perfect), and `rsum`,
    which is r1 + r5 + r10 (0 to 300).
    """
    return summary_of_ranks(ranks(similarities, relevant))


def summary_of_ranks(ranks: Any) -> dict[str, float]:
    """`summary` of ranks that are known already: integers from 1, (queries,)."""
    found = as_array(ranks)
    if found.ndim != 1 or not found.size or found.min() < 1:
        raise ValueError("ranks are a row of integers from 1 on, one for each query, and at least one")
    result = {f"r{k}": _recall(found, k) for k in RECALLS}
    result["median_rank"] = float(np.median(found))
    result["mean_rank"] = float(np.mean(found))
    result["rsum"] = result["r1"] + result["r5"] + result["r10"]
    return result


def _recall(found: NDArray[Any], k: int) -> float:
    if k < 1:
        raise ValueError(f"k is {k}; it must be at least 1")
    return 100 * float(np.count_nonzero(found <= k)) / found.size


def _targets(relevant: Any, queries: int, gallery: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each query's targets start in the list of all targets (queries + 1 numbers), and that list."""
    if not isinstance(relevant, Sequence):
        relevant = as_array(relevant)
    if len(relevant) != queries:
        raise ValueError(f"relevant says something of {len(relevant)} queries; the similarities have {queries}")
    if isinstance(relevant, range) or (isinstance(relevant, np.ndarray) and relevant.shape == (queries,)):
        relevant = np.asarray(relevant)[:, None]
    each = [_targets_of(number, one, gallery) for number, one in enumerate(relevant)]
    starts = np.concatenate([[0], np.cumsum([one.size for one in each])]).astype(np.int64)
    return starts, np.concatenate(each)


def _targets_of(query: int, relevant: Any, gallery: int) -> NDArray[np.int64]:
    found = as_array(relevant)
    if found.dtype == bool:
        if found.shape != (gallery,):
            raise ValueError(
                f"query {query}: a boolean row has shape {found.shape}; expected ({gallery},), the gallery"
            )
        found = np.flatnonzero(found)
    if not found.size:
        raise ValueError(f"query {query} has no target; leave it out of the similarities")
    if found.ndim > 1 or found.dtype.kind not in "iu":
        raise ValueError(f"query {query}: targets are {found.dtype} {found.shape}; expected an int or a row of ints")
    found = np.unique(found).astype(np.int64)
    if found[0] < 0 or found[-1] >= gallery:
        raise ValueError(f"query {query} has a target outside the gallery of {gallery}: {found[found < 0]}{found[-1:]}")
    return found
