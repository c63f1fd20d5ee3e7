"""Results of mteb on exported tasks, as rows beside those of evaluations.

`tasks.py` of an export writes into mteb's results which scenario a subset is. mteb keeps no ranks: these rows have no
median rank, no intervals and no hubness.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perturbations.base import storage
from perturbations.base.errors import ManifestError, PerturbationError, short
from perturbations.base.records import canonical, digest
from perturbations.evaluation.plan.method_settings import AS_IT_IS, parameters_of
from perturbations.evaluation.plan.planned_runs import category_of
from perturbations.evaluation.result_rows import (
    RESULTS,
    WHOLE_GALLERY,
    ResultRow,
    ScenarioKey,
    key_of,
    run_of_named_model,
)
from perturbations.evaluation.result_sets import with_clean
from perturbations.manifest.columns import row_from
from perturbations.tta.methods import method_registry as methods

_log = logging.getLogger("perturbations")

_ABOUT_MODEL = "model_meta.json"
_DIRECTIONS = {"V2T": "v2t", "I2T": "v2t", "T2V": "t2v", "T2I": "t2v"}
"""The direction, by the end of a task's name. Other tasks have no leaderboard here."""


def is_mteb_result(path: Path) -> bool:
    """Whether a path of results is a result file of mteb."""
    return path.suffix == ".json"


def read(paths: Sequence[Path]) -> list[ResultRow]:
    """The rows of mteb's files `results/MODEL/REVISION/TASK.json`; `model_meta.json` beside them gives no rows.

    A scenario that several tasks share with the same result, such as the clean scenario, is one row. Raises
    `ManifestError` for another file, and for results of other tasks than those of `perturb export`.
    """
    rows: dict[tuple[object, ...], ResultRow] = {}
    for path in paths:
        for row in _of_task(path) if path.name != _ABOUT_MODEL else ():
            figures = row.queries, row.gallery, row.recall_at_1, row.recall_at_5, row.recall_at_10
            rows.setdefault((key_of(row), *figures), row)
    return with_clean([*rows.values()], ())


def _of_task(path: Path) -> list[ResultRow]:
    results = _object(path)
    try:
        direction = _DIRECTIONS.get(str(results["task_name"])[-3:])
        if direction is None:
            _log.warning("%s: %s has no place in the report", path, results["task_name"])
            return []
        return [*_rows(path, direction, results, _object(path.with_name(_ABOUT_MODEL)))]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ManifestError(
            f"{path}: no results of mteb on tasks of `perturb export --format mteb`: {error!r}"
        ) from error
    except PerturbationError as error:
        raise ManifestError(f"{path}: {error}") from error


def _object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ManifestError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(content, dict):
        raise ManifestError(f"{path}: an object of mteb, not {short(content)}")
    return content


def _rows(path: Path, direction: str, results: Mapping[str, Any], model: Mapping[str, Any]) -> Iterator[ResultRow]:
    name = str(model["name"])
    settings = {"model": name, "revision": model.get("revision"), "tasks": results.get("dataset_revision")}
    of_file = storage.sha256(path)
    for scores in results["scores"]["test"]:
        perturbed = scores["perturbed"]
        scenario = ScenarioKey(**{key: perturbed.get(key) for key in ScenarioKey._fields})
        about = {
            "gallery_name": WHOLE_GALLERY,
            "method": AS_IT_IS,
            "label": methods.title_of(AS_IT_IS),
            "parameters": parameters_of(AS_IT_IS, {}, direction),
        }
        run = run_of_named_model(str(perturbed["dataset"]), name, scenario, direction, "mteb", **about)
        recalls = {f"recall_at_{k}": 100 * scores[f"r_at_{k}"] for k in (1, 3, 5, 10, 50, 100)}
        columns = {
            **run.columns(),
            **recalls,
            "rsum": sum(recalls[f"recall_at_{k}"] for k in (1, 5, 10)),
            "median_rank": math.nan,
            "mean_rank": math.nan,
            "category": category_of(run),
            "queries": scores["queries"],
            "gallery": scores["gallery"],
            "settings": canonical(settings),
            "backend": canonical({"retrieval": "mteb"}),
            "tools": canonical({"mteb": results.get("mteb_version")}),
            "recipe_id": digest([run.columns(), of_file]),
            **dict.fromkeys(("queries_sha256", "manifest_sha256"), of_file),
            **dict.fromkeys(("missing_queries", "updates", "empty", "non_finite"), 0),
        }
        yield row_from(RESULTS, columns)
