"""Robustness: what is left of a result under a perturbation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd

_Score = np.float64 | NDArray[np.float64]
"""A number for numbers, an array for arrays."""

# What a scenario's clean counterpart shares with it.
_SAME = ("dataset", "setting", "direction", "model", "model_key", "checkpoint_sha256", "method", "seed")
_SCORES = ("gamma_a", "gamma_r", "mmi")


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


def robustness_scores(results: pd.DataFrame, metric: str = "recall_at_1") -> pd.DataFrame:
    """The perturbed rows of `results` with `clean`, `gamma_a`, `gamma_r` and `mmi` of `metric`, a percentage or "rsum".

    A row's clean result is that of the same queries: its own column `clean_<metric>`, or, where that is not there, the
    row of severity 0 with the same dataset, setting, direction, model, method and seed (as far as `results` has these
    columns) if that has as many queries. Otherwise the scores are NaN: another method's clean result does not count.

    Raises ValueError where a column is missing or a scenario has two clean results.
    """
    missing = {"severity", "method", metric} - set(results.columns)
    if missing:
        raise ValueError(f"the results have no column {', '.join(sorted(missing))}; there are {list(results.columns)}")
    same = [name for name in _SAME if name in results.columns]
    counts = ["queries"] if "queries" in results.columns else []
    clean = results[results["severity"] == 0]
    # Each suite of a dataset may hold the same clean run.
    clean = clean[[*same, metric, *counts]].drop_duplicates()
    clean = clean.rename(columns={metric: "clean", "queries": "clean_queries"})
    if clean.duplicated(same).any():
        twice = clean[clean.duplicated(same)].iloc[0][same].to_dict()
        raise ValueError(f"two different clean results ({metric}) for {twice}; keep one")
    scored = results[results["severity"] != 0].merge(clean, on=same, how="left")
    if counts:
        scored["clean"] = scored["clean"].where(scored["queries"] == scored.pop("clean_queries"))
    own = [f"clean_recall_at_{k}" for k in (1, 5, 10)] if metric == "rsum" else [f"clean_{metric}"]
    if set(own) <= set(scored.columns):
        scored["clean"] = scored[own].astype(float).sum(axis=1, skipna=False).fillna(scored["clean"])
    return scored.assign(
        gamma_a=gamma_a(scored["clean"], scored[metric]),
        gamma_r=gamma_r(scored["clean"], scored[metric]),
        mmi=mmi(scored["clean"], scored[metric]),
    )


def aggregate(
    scored: pd.DataFrame,
    by: Sequence[str],
    *,
    over: Sequence[str] = ("side", "suite", "perturbation", "text_perturbation"),
    scores: Sequence[str] = _SCORES,
) -> pd.DataFrame:
    """Mean of `scores` over perturbations, and their deviation over perturbations and severities, per group of `by`.

    As in MSRVTT-P, Sec. 4.3: a perturbation's score is the mean over its severities (and seeds); a group's score is the
    mean over its perturbations. Sigma, which the paper does not define, is the sample deviation (divided by n - 1) over
    all perturbations x severities: it gives 24 of the 25 sigmas of Tab. 9 for videos and 31 of 32 for captions from
    those of Tab. 2, 3, 7 and 8; dividing by n over perturbations' means gives 20 and 23. NaN for one cell.

    Args:
        scored: one row per scenario (and seed), as `robustness_scores` gives it.
        by: columns whose combinations are the groups, such as model, method and category.
        over: columns that tell perturbations apart; columns that `scored` lacks are left out.
        scores: columns that are aggregated. NaN is left out, as if the scenario had not been run.

    Returns `by`, then `<score>_mean` and `<score>_std` of each score, then `perturbations`, how many there are.
    """
    import pandas as pd

    each = [name for name in over if name in scored.columns and name not in by]
    strengths = [name for name in ("severity", "text_severity") if name in scored.columns and name not in by]
    names = list(scores)
    cells = scored.groupby([*by, *each, *strengths], sort=False, dropna=False)[names].mean()
    of_group = list(range(len(by)))
    of_perturbation = cells.groupby(level=[*of_group, *range(len(by), len(by) + len(each))], sort=False, dropna=False)
    groups = of_perturbation.mean().groupby(level=of_group, sort=False, dropna=False)
    deviation = cells.groupby(level=of_group, sort=False, dropna=False).std(ddof=1).add_suffix("_std")
    mean = groups.mean().add_suffix("_mean")
    table = pd.concat([mean, deviation], axis=1)
    table = table[[f"{name}_{what}" for name in names for what in ("mean", "std")]]
    return table.assign(perturbations=groups.size()).reset_index()
