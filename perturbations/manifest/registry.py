"""All kinds of manifests: those of this package, and those that features bring."""

from __future__ import annotations

from typing import Any

from perturbations.base import features
from perturbations.manifest import kinds

_DECLARED: list[kinds.RowKind[Any]] = [
    *(kinds.SOURCES, kinds.CAPTIONS, kinds.QRELS, kinds.ANALYSES, kinds.VIDEOS, kinds.MIXES, kinds.TEXTS),
    *(kinds.MULTIMODAL, kinds.TEXT_STATISTICS, kinds.QUARANTINE),
    *(kind for feature in features.features().values() for kind in feature.kinds()),
]

KINDS: dict[str, kinds.RowKind[Any]] = {kind.name: kind for kind in reversed(_DECLARED)}
"""By name. A feature may declare further manifests of a kind of others: of a feature that it needs."""

FILES: dict[str, str] = {name: path for kind in _DECLARED for name, path in kind.files.items()}
"""The path of every manifest, with fields in braces, by its name in `manifest.layout`."""
