"""All kinds of manifests: those that `manifest.rows` declares, and those of `base.features`."""

from __future__ import annotations

from typing import Any

from perturbations.base import features
from perturbations.manifest import rows

_DECLARED: list[rows.RowKind[Any]] = [
    *(kind for kind in vars(rows).values() if isinstance(kind, rows.RowKind)),
    *features.kinds(),
]

KINDS: dict[str, rows.RowKind[Any]] = {kind.name: kind for kind in reversed(_DECLARED)}
"""By name. Further manifests may be declared of a kind that there is."""

FILES: dict[str, str] = {name: path for kind in _DECLARED for name, path in kind.files.items()}
"""The path of every manifest, with fields in braces, by its name in `manifest.manifest_paths`."""
