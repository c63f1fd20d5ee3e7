"""All kinds of manifests: those of this package, and those of `base.features`."""

from __future__ import annotations

from typing import Any

from perturbations.base import features
from perturbations.manifest import kinds

_DECLARED: list[kinds.RowKind[Any]] = [
    *(
        kinds.SOURCES,
        kinds.CAPTIONS,
        kinds.QUESTIONS,
        kinds.QRELS,
        kinds.ANALYSES,
        kinds.VIDEOS,
        kinds.MIXES,
        kinds.TEXTS,
    ),
    *(kinds.MULTIMODAL, kinds.TEXT_STATISTICS, kinds.QUARANTINE),
    *features.kinds(),
]

KINDS: dict[str, kinds.RowKind[Any]] = {kind.name: kind for kind in reversed(_DECLARED)}
"""By name. Further manifests may be declared of a kind that there is."""

FILES: dict[str, str] = {name: path for kind in _DECLARED for name, path in kind.files.items()}
"""The path of every manifest, with fields in braces, by its name in `manifest.layout`."""
