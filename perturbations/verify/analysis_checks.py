"""Checks the manifests of analyses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from perturbations.base.errors import ManifestError, MediaError
from perturbations.engine import clip_rows
from perturbations.engine.source import source_of
from perturbations.guides import registry as guides
from perturbations.guides.analyses import AnalysisRecipe, Work
from perturbations.guides.registry import parse_analysis
from perturbations.manifest import locations
from perturbations.manifest.kinds import COMPLETE, SOURCES, AnalysisRow, CompleteSource
from perturbations.verify.derived import doubled
from perturbations.verify.findings import Finding, differences
from perturbations.verify.manifest_check import ManifestCheck


def check_analyses(task: ManifestCheck[AnalysisRow]) -> Iterator[Finding]:
    """An analysis: one row per complete clip; made again where it is offline, unless fast."""
    manifest = task.manifest
    yield from doubled(manifest)
    sources = task.tree.near(manifest, SOURCES)
    complete = {row.item_id: row for row in (sources.rows if sources else []) if isinstance(row, CompleteSource)}
    for item_id in sorted(set(complete) - {row.item_id for row in manifest.rows}):
        yield Finding(manifest.path, item_id, "the row is missing")
    texts = Counter(row.recipe for row in manifest.rows)
    if not texts:
        return
    try:
        recipe = parse_analysis(texts.most_common(1)[0][0])
    except ManifestError as error:
        yield Finding(manifest.path, "", str(error))
        return
    if recipe.analysis != manifest.path.stem:
        yield Finding(manifest.path, "", f"it holds the analysis {recipe.analysis}")
    declared = guides.analysis(recipe.analysis)
    is_repeatable = declared.extension is None and declared.after is None and recipe.is_offline
    if other := guides.other_version(recipe):
        is_repeatable = False
        task.summary.remarks[f"not recomputed: {other}"] = len(manifest.rows)
    for row in manifest.rows:
        source = complete.get(row.item_id)
        if source is None:
            if sources is not None:
                yield Finding(manifest.path, row.item_id, "the row is unexpected: its clip is not complete")
            continue
        expected = clip_rows.expected_analysis(recipe, source, row.path)
        unknown = ("backend", "result", "vector", "bytes", "sha256", "status", "stage", "error")
        problems = [*differences(row, expected, unknown), *_emptiness_problems(row, recipe)]
        if is_repeatable and not task.options.fast:
            problems += _analysed_again(row, source, recipe, manifest.root)
        for problem in problems:
            yield Finding(manifest.path, row.item_id, problem)


def _emptiness_problems(row: AnalysisRow, recipe: AnalysisRecipe) -> list[str]:
    """The cells that are wrongly empty or wrongly filled, by the row's status and the analysis's files."""
    reasons, results, of_file = ("stage", "error"), ("backend", "result", "vector"), ("path", "bytes", "sha256")
    filled: tuple[str, ...] = ("backend", *of_file)
    empty: tuple[str, ...] = reasons
    if row.status != COMPLETE:
        filled, empty = reasons, (*results, *of_file)
    elif guides.analysis(recipe.analysis).extension is None:
        filled, empty = ("backend",), (*reasons, *of_file)
    problems = [f"{name} must be filled in a row that is {row.status}" for name in filled if getattr(row, name) is None]
    return problems + [f"{name} must be empty" for name in empty if getattr(row, name) is not None]


def _analysed_again(row: AnalysisRow, source: CompleteSource, recipe: AnalysisRecipe, root: Path) -> list[str]:
    try:
        clip = source_of(locations.located(source, root))
        (outcome,) = guides.analysis(recipe.analysis).run(recipe, [clip], Work(files=[None]))
    except MediaError:
        return []  # a finding of the sources manifest
    if row.status != COMPLETE:
        return [] if isinstance(outcome, MediaError) else [f"it is {row.status}, but can be analysed: `perturb retry`"]
    if isinstance(outcome, MediaError):
        return [f"it is complete, but fails now: {outcome}"]
    problems = [name for name in ("backend", "result") if getattr(row, name) != getattr(outcome, name)]
    as_stored = None if outcome.vector is None else tuple(np.asarray(outcome.vector, np.float32).tolist())
    problems += [] if row.vector == as_stored else ["vector"]
    return [f"{name} is not what the analysis finds" for name in problems]
