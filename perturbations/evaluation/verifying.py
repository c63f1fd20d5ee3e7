"""What `perturb verify` checks of the manifests of evaluations."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from perturbations.evaluation.result_sets import RANDOM, RECALLS, run_of, with_clean
from perturbations.evaluation.rows import RANKS, RankRow, ResultRow
from perturbations.manifest import layout
from perturbations.verify.derived import doubled
from perturbations.verify.findings import Finding, name_of, values
from perturbations.verify.manifest_check import ManifestCheck

_TOP = (1, 5, 10, 50, 100)


def check_results(task: ManifestCheck[ResultRow]) -> Iterator[Finding]:
    """Results, compared with the ranks manifest: recall, ranks and the number of queries."""
    manifest = task.manifest
    yield from doubled(manifest)
    ranks = task.tree.neighbour(manifest.path.with_name(layout.name(RANKS.name)), RANKS)
    if ranks is None:
        return
    names = manifest.kind.key
    cleaned = [f"clean_recall_at_{k}" for k in RECALLS]
    empty: dict[str, Any] = dict.fromkeys(cleaned)
    paired = {
        run_of(row): {name: getattr(row, name) for name in cleaned if getattr(row, name) is not None}
        for row in with_clean([replace(row, **empty) for row in manifest.rows], ranks.rows)
    }
    by_run: dict[tuple[object, ...], list[RankRow]] = defaultdict(list)
    for row in ranks.rows:
        by_run[values(row, names)].append(row)
    for result in manifest.rows:
        members = by_run.pop(values(result, names), [])
        subject = name_of(result, manifest.kind.key)
        if not members and result.method == RANDOM:
            continue
        if not members:
            yield Finding(manifest.path, subject, "its ranks are missing")
            continue
        places = np.array([row.rank for row in members])
        expected = {f"recall_at_{k}": 100 * float(np.mean(places <= k)) for k in _TOP}
        expected["rsum"] = sum(expected[f"recall_at_{k}"] for k in _TOP[:3])
        expected |= {"median_rank": float(np.median(places)), "mean_rank": float(np.mean(places))}
        expected["queries"] = len(members)
        for name, wanted in [*expected.items(), *paired.get(run_of(result), {}).items()]:
            held = getattr(result, name)
            if held is not None and not math.isclose(held, wanted, rel_tol=1e-9):
                yield Finding(manifest.path, subject, f"{name} is {held}, and the ranks give {wanted}")
        if int(places.min()) < 1 or int(places.max()) > result.gallery:
            yield Finding(ranks.path, subject, f"a rank is not within 1 and {result.gallery}")
    for key in by_run:
        yield Finding(ranks.path, " ".join(map(str, key)), "ranks of no result")
