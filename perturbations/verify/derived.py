"""Manifests whose rows follow from other manifests: their expected rows, and the differences from them."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from perturbations.manifest import files
from perturbations.manifest.kinds import KIND_OF, TEXT_STATISTICS, TextStatisticsRow
from perturbations.manifest.row_groups import StoredRows
from perturbations.verify.findings import Finding, compared, values
from perturbations.verify.manifest_check import ManifestCheck
from perturbations.verify.tree import Manifest, Tree


def load(code: str) -> Callable[..., Any]:
    """The function that a kind of manifest names: `package.module:name`."""
    module, _, name = code.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(f"perturbations.{module}"), name)
    return function


def check_rows(task: ManifestCheck[Any]) -> Iterator[Finding]:
    """A manifest whose rows follow from its neighbours, as far as these are available; of others, each row once."""
    manifest = task.manifest
    task.corrected = expected_rows(task.tree, manifest)
    if task.corrected is not None:
        yield from _differences(manifest, task.corrected)
    elif not manifest.declared.rows:
        yield from doubled(manifest)


def expected_rows(tree: Tree, manifest: Manifest[object]) -> Sequence[object] | None:
    """The rows that follow from a manifest's neighbours; None where a neighbour is not available."""
    declared = manifest.declared
    if not declared.rows:
        return None
    parents = [tree.near(manifest, KIND_OF[parent], parent) for parent in declared.made_from]
    rows = [parent.rows for parent in parents if parent is not None]
    return files.in_order(manifest.kind, load(declared.rows)(*rows)) if len(rows) == len(parents) else None


def _differences(manifest: Manifest[object], expected: Sequence[object]) -> list[Finding]:
    """The differences between a manifest and its expected rows. METEOR is null where WordNet was not installed."""
    statistics = manifest.of(TEXT_STATISTICS)
    if statistics is not None:
        meteors = {values(row, manifest.kind.key): row.meteor for row in statistics.rows}
        expected = [
            _with_meteor(row, meteors.get(values(row, manifest.kind.key)))
            for row in expected
            if isinstance(row, TextStatisticsRow)
        ]
    return compared(manifest.path, manifest.kind, manifest.rows, expected, manifest.unrecorded)


def _with_meteor(row: TextStatisticsRow, meteor: float | None) -> TextStatisticsRow:
    """The expected row, with the manifest's METEOR where one of the two has none."""
    return replace(row, meteor=meteor) if meteor is None or row.meteor is None else row


def doubled(manifest: Manifest[object]) -> Iterator[Finding]:
    """Rows that share one key."""
    keys = (values(row, manifest.kind.key) for row in manifest.rows)
    # The rows of a large manifest follow their keys.
    is_large = isinstance(manifest.rows, StoredRows)
    counts = ((key, len([*group])) for key, group in groupby(keys)) if is_large else Counter(keys).items()
    for key, count in counts:
        if count > 1:
            yield Finding(manifest.path, " ".join(map(str, key)), "the row is there twice")
