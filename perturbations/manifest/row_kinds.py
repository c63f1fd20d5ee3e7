"""All kinds of manifests: those that `manifest.rows` declares, and those of `base.features`."""

from __future__ import annotations

from typing import Any

from perturbations.base import features
from perturbations.manifest import rows

_DECLARED: list[rows.RowKind[Any]] = [kind for kind in vars(rows).values() if isinstance(kind, rows.RowKind)]

KINDS: dict[str, rows.RowKind[Any]] = {kind.name: kind for kind in (*_DECLARED, *features.kinds())}
"""By name."""
