"""All kinds of manifests, and all manifests: those of this shelf, and those of features."""

from __future__ import annotations

from typing import Any

from perturbations.base import features, shelf
from perturbations.manifest.kind import ManifestFeature, ManifestFile, RowKind

_DECLARED: list[RowKind[Any]] = [
    *shelf.things("perturbations.manifest.kinds", "KIND", RowKind).values(),
    *(kind for feature in features.of(ManifestFeature) for kind in feature.kinds()),
]

KINDS: dict[str, RowKind[Any]] = {kind.name: kind for kind in reversed(_DECLARED)}
"""By name. A feature may declare further manifests of a kind of others: of a feature that it needs."""

FILES: dict[str, ManifestFile] = {name: file for kind in _DECLARED for name, file in kind.files.items()}
"""Every manifest, by its name in `manifest.layout`."""

KIND_OF: dict[str, RowKind[Any]] = {name: KINDS[kind.name] for kind in _DECLARED for name in kind.files}
"""The kind of every manifest."""
