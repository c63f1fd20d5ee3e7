"""Results of many models in one table: no two rows may be of the same run, and a key must be of one model."""

from __future__ import annotations

from collections.abc import Iterable

from perturbations.base.errors import ManifestError
from perturbations.evaluation.rows import ResultRow


def check(rows: Iterable[ResultRow]) -> None:
    """Refuse rows whose means would mix models.

    Raises `ManifestError` when a run (dataset, model, scenario, method, seed) has two rows, or when the rows of one
    model on one dataset have different weights or settings.
    """
    runs: set[tuple[object, ...]] = set()
    models: dict[tuple[str, str], tuple[str, str]] = {}
    for row in rows:
        run = (
            *(row.dataset, row.model_key, row.direction, row.suite, row.perturbation),
            *(row.severity, row.mix, row.share, row.method, row.seed),
        )
        if run in runs:
            raise ManifestError(
                f"the results hold the run {_name(row)} twice: give each manifest of results once, and of a dataset "
                "and model either the adaptation or the evaluation"
            )
        runs.add(run)
        model = (row.checkpoint_sha256, row.settings)
        if models.setdefault((row.dataset, row.model_key), model) != model:
            what = "weights" if models[row.dataset, row.model_key][0] != model[0] else "settings"
            raise ManifestError(
                f"the results of {row.model_key} on {row.dataset} have different {what}, so their means would mix "
                "models: delete them and run snakemake again"
            )


def _name(row: ResultRow) -> str:
    severity = row.severity if row.mix is None else f"{row.mix} {row.share if row.share is not None else ''}".strip()
    scenario = f"{row.direction} {row.suite}/{row.perturbation} {severity}"
    return f"{row.dataset}, {row.model_key}, {scenario}, {row.method}, seed {row.seed}"
