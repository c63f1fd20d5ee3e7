"""Robustness: what is left of a result under a perturbation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
