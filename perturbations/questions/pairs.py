"""Paired results of answers: every cell of a model beside its clean answers to the same questions.

Videos are the clusters: resamples draw whole videos, and tests flip the signs of whole videos, because questions about
one video are not independent. All cells and models have the same draws.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perturbations.base import rng
from perturbations.base.records import canonical
from perturbations.manifest.rows import QuestionRow
from perturbations.questions.answer_rows import AnswerResult, AnswerRow, CellKey
from perturbations.retrieval import bootstrap

_log = logging.getLogger("perturbations")

DRAWS = 10_000
_AT_ONCE = 250
_NORMAL = 1.959963984540054 + 0.8416212335729143  # a two-sided test at .05, and a power of .8
_FEWEST = 5
"""With fewer videos no one-sided test is significant at 5 %: by chance, all signs are alike in 1 of 2**4 flips."""
BLANK = CellKey("controls", "blank", 1)

_Truths = NDArray[np.bool_]


@dataclass
class _Cell:
    """The answers of a model in a cell: for every question, whether it is answered and right, and the chosen option."""

    answered: _Truths
    right: _Truths
    options: NDArray[np.int64]


def results(
    rows: Sequence[AnswerRow],
    questions: Sequence[QuestionRow],
    *,
    seed: int = 0,
    draws: int = DRAWS,
    margin: float | None = None,
) -> list[AnswerResult]:
    """A result per model, frame budget and cell, clean cells first. `margin` (of equivalence) is in points of accuracy.

    p is two-sided: by flips of the signs of clusters, by the exact test of McNemar (Psychometrika 12, 1947; assumes
    independent questions), and the first by Holm (Scand. J. Statist. 6, 1979) over all rows that have one.
    """
    place_of = {row.question_id: place for place, row in enumerate(questions)}
    cluster = np.unique([row.cluster for row in questions], return_inverse=True)[1]
    runs: dict[tuple[str, str], dict[CellKey, _Cell]] = defaultdict(dict)
    for row in rows:
        key, cells = row.key, runs[row.model, row.budget]
        if key not in cells:
            empty = np.zeros(len(questions), bool)
            cells[key] = _Cell(empty, empty.copy(), np.full(len(questions), -1))
        place = place_of[row.question_id]
        cells[key].answered[place] = True
        cells[key].right[place] = row.correct
        cells[key].options[place] = -1 if row.parsed is None else row.parsed
    _say_unpaired(runs)
    rows_of_cells, measured = [], []
    for (model, budget), cells in sorted(runs.items()):
        for key, cell in sorted(cells.items(), key=lambda own: (own[0] != CellKey(), own[0])):
            clean = cells.get(CellKey())
            counts, columns = _counted(cell, clean, cells.get(BLANK), questions, cluster)
            rows_of_cells.append(
                AnswerResult(
                    model=model, budget=budget, **key._asdict(), cell=key.name, draws=draws, seed=seed, **counts
                )
            )
            measured.append(columns)
    return _with_p(_with_intervals(rows_of_cells, np.array(measured), seed, draws, margin))


def _say_unpaired(runs: Mapping[tuple[str, str], Mapping[CellKey, _Cell]]) -> None:
    """Report the runs without clean answers, also where clean answers of another frame budget exist."""
    for (model, budget), cells in runs.items():
        if CellKey() in cells:
            continue
        others = [other or "not stated" for name, other in runs if name == model and CellKey() in runs[name, other]]
        hint = f"; its clean answers are of other frames ({', '.join(others)})" if others else ""
        _log.warning(
            "%s (frames: %s) has no clean answers for %s, so no drop: run the clean cell, too%s",
            *(model, budget or "not stated", ", ".join(key.name for key in cells), hint),
        )


# --- counts -----------------------------------------------------------------------------------------------------------

_MEASURED = ("pairs", "clean", "right", "shared", "clean_seen", "right_seen")
"""The sums per cluster: the number of pairs, and the right answers of both cells.

For questions that were also answered on the blank clip: their number, and both cells' right answers minus the blank
clip's.
"""


def _counted(
    cell: _Cell, clean: _Cell | None, blank: _Cell | None, questions: Sequence[QuestionRow], cluster: NDArray[np.int64]
) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """The counted columns of a row, and the sums per cluster."""
    is_paired = clean is not None and clean is not cell
    pair = cell.answered & clean.answered if clean is not None and is_paired else cell.answered
    n = int(pair.sum())
    before, after = (clean or cell).right & pair, cell.right & pair
    categories: dict[str, list[int]] = defaultdict(list)
    for place in np.flatnonzero(pair).tolist():
        categories[questions[place].category or ""].append(place)
    by_category = {
        name: {
            "n": len(places),
            "accuracy": _percent(after[places].sum(), len(places)),
            **({"clean_accuracy": _percent(before[places].sum(), len(places))} if clean is not None else {}),
        }
        for name, places in sorted(categories.items())
        if name
    }
    row: dict[str, Any] = {
        "n": n,
        "missing": len(questions) - n,
        "unparsed": int((pair & (cell.options < 0)).sum()),
        "accuracy": _percent(after.sum(), n),
        "clean_accuracy": None if clean is None else _percent(before.sum(), n),
        "by_category": canonical(by_category),
        "clusters": len({*cluster[pair].tolist()}),
    }
    if clean is not None and is_paired and n:
        n11, n10, n01 = (int(own.sum()) for own in (before & after, before & ~after, after & ~before))
        row |= {"n11": n11, "n10": n10, "n01": n01, "n00": n - n11 - n10 - n01}
        row["delta"] = 100 * (n01 - n10) / n
        row["same_answer"] = float((cell.options == clean.options)[pair].mean())
        row["harmful_flips"], row["beneficial_flips"] = n10 / n, n01 / n
        row["resist_rate"] = n11 / (n11 + n10) if n11 + n10 else None
        row["p_mcnemar"] = mcnemar(n10, n01)
        row["smallest_drop"] = 100 * _NORMAL * sqrt((n10 + n01) / n / n)
    seen = pair & blank.answered if blank is not None else np.zeros_like(pair)
    on_blank = (blank.right if blank is not None else seen).astype(float)
    sums = (pair, before, after, seen, seen * (before - on_blank), seen * (after - on_blank))
    size = int(cluster.max()) + 1
    return row, np.array([np.bincount(cluster, own.astype(float), size) for own in sums])


def _percent(right: int, n: int) -> float | None:
    return 100 * int(right) / n if n else None


def mcnemar(n10: int, n01: int) -> float:
    """The exact two-sided p of the numbers of flips to wrong and to right, if both are equally likely."""
    flips, fewer = n10 + n01, min(n10, n01)
    total: int = 2**flips
    return min(1.0, 2 * sum(comb(flips, k) for k in range(fewer + 1)) / total)


# --- draws ------------------------------------------------------------------------------------------------------------


def _with_intervals(
    rows: list[AnswerResult], measured: NDArray[np.float64], seed: int, draws: int, margin: float | None
) -> list[AnswerResult]:
    """The rows with intervals and p by flips. `measured` is rows x `_MEASURED` x clusters."""
    measured = measured[:, :, (measured[:, 0] > 0).any(axis=0)]
    count, columns, clusters = measured.shape
    flat = measured.reshape(count * columns, clusters).T.astype(np.float32)  # whole numbers: sums are exact
    change = (measured[:, 2] - measured[:, 1]).T.astype(np.float32)
    observed = np.abs(change.sum(axis=0))
    drawing, flipping = (rng.generator(seed, "", "", f"questions/{what}") for what in ("resamples", "flips"))
    drawn, farther = [], np.zeros(count, np.int64)
    for first in range(0, draws, _AT_ONCE):
        size = min(_AT_ONCE, draws - first)
        drawn.append(bootstrap.draws(clusters, drawing, size) @ flat)
        signs = flipping.integers(0, 2, (size, clusters)).astype(np.float32) * 2 - 1
        farther += (np.abs(signs @ change) >= observed).sum(axis=0)
    samples = np.concatenate(drawn).reshape(draws, count, columns).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        n, before, after, seen, clean_seen, right_seen = np.moveaxis(samples, 2, 0)
        accuracy, delta = 100 * after / n, 100 * (after - before) / n
        share, base = right_seen / clean_seen, clean_seen / seen
    completed = []
    for at, row in enumerate(rows):
        low, high = _ends(accuracy[:, at])
        if low == high and low in (0, 100):  # no answer varies: the exact interval, as of a recall
            low, high = (100 * end for end in bootstrap.share_interval(low / 100, row.clusters))
        row = replace(row, accuracy_low=low, accuracy_high=high)
        if row.delta is not None:
            low, high = _ends(delta[:, at])
            row = replace(row, low=low, high=high, p_flip=(1 + int(farther[at])) / (draws + 1))
            if margin is not None:
                inner = np.nanquantile(delta[:, at], (0.05, 0.95))  # two one-sided tests at 5 %
                is_within = bool(-margin < inner[0] and inner[1] < margin)
                row = replace(row, equivalent=is_within and row.clusters >= _FEWEST)
            total = measured[at].sum(axis=1)
            # No share where the denominator may be 0.
            if total[4] > 0 and np.nanquantile(base[:, at], 0.025) > 0:
                low, high = _ends(share[:, at])
                row = replace(row, visual_share=float(total[5] / total[4]), visual_low=low, visual_high=high)
        completed.append(row)
    return completed


def _ends(samples: bootstrap.Samples) -> tuple[float | None, float | None]:
    known = samples[np.isfinite(samples)]
    if not len(known):
        return None, None
    low, high = bootstrap.interval(known)
    return float(low), float(high)


def _with_p(rows: list[AnswerResult]) -> list[AnswerResult]:
    """The rows with `p_holm`."""
    values = {at: row.p_flip for at, row in enumerate(rows) if row.p_flip is not None}
    most = 0.0
    for rank, at in enumerate(sorted(values, key=lambda own: values[own])):
        most = max(most, min(1.0, values[at] * (len(values) - rank)))
        rows[at] = replace(rows[at], p_holm=most)
    return rows
