"""What `perturb verify` expects of the manifests of composed retrieval."""

from __future__ import annotations

from collections.abc import Sequence

from perturbations.composed.manifests import qrels
from perturbations.composed.rows import COMPOSED_QUERIES
from perturbations.manifest.kinds import QRELS, QrelRow
from perturbations.verify.tree import Manifest, Tree


def expected_rows(tree: Tree, manifest: Manifest[object]) -> Sequence[QrelRow] | None:
    """Which clips answer the queries beside a manifest of qrels; None for every other manifest."""
    if manifest.kind.name != QRELS.name:
        return None
    queries = tree.neighbour(manifest.path.with_name("queries.parquet"), COMPOSED_QUERIES)
    return None if queries is None else qrels(queries.rows)
