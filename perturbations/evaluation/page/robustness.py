"""Robustness scores as papers define them, of results beside published values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from perturbations.evaluation.page.intervals import Estimate, ScenarioMean, Scores, mean_of
from perturbations.evaluation.rows import ScenarioKey
from perturbations.retrieval import gamma_a, gamma_r, mmi

FORMULAS: Mapping[str, tuple[str, Callable[..., object]]] = {
    "gamma_a": ("absolute robustness", gamma_a),
    "gamma_r": ("relative robustness", gamma_r),
    "mmi": ("MMI", mmi),
}


def score_of(
    score: str, metric: str, method: str, members: Sequence[tuple[Scores, ScenarioMean]], seed: int | None = None
) -> tuple[Estimate, float]:
    """The mean score over scenarios, and the sample deviation over them; of each that of a seed, or the mean over all.

    `members` are summed: directions whose queries are drawn apart. Each has the mean that is asked for, of which only
    scenarios that all of them have count. MSRVTT-P does not define its sigma: this gives 24 of the 25 of Tab. 9 for
    videos, and 31 of 32 for captions.
    """
    named = [{_name(key): key for key, _ in column} for _, column in members]
    shared = [key for key, _ in members[0][1] if all(_name(key) in own for own in named)]
    total: Estimate = np.zeros(1) if shared else np.full(1, np.nan)
    cells = []
    for key, weight in mean_of(shared):
        clean, perturbed = (
            _sum(
                scores.of_seeds(name, method, ((own[_name(key)], 1.0),), seed)
                for (scores, _), own in zip(members, named, strict=True)
            )
            for name in (f"clean_{metric}", metric)
        )
        cell = np.mean(np.asarray(FORMULAS[score][1](clean, perturbed)), axis=0)
        cells.append(float(cell[0]))
        total = total + weight * cell
    return total, float(np.std(cells, ddof=1)) if len(cells) > 1 else float("nan")


def _sum(estimates: Iterable[Estimate]) -> Estimate:
    """The sum of the first seeds of each, as many as all of them have."""
    known = list(estimates)
    seeds = min(map(len, known))
    return np.asarray(sum((own[:seeds] for own in known), np.zeros(())))


def _name(key: ScenarioKey) -> tuple[object, ...]:
    """What a scenario has in common with the one of the other direction."""
    return key.perturbation, key.severity, key.text_perturbation
