"""The mixed manifests: views of the videos manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perturbations.manifest.kind import ManifestFile, RowKind
from perturbations.manifest.kinds.videos import ClipRow


@dataclass(frozen=True, slots=True, kw_only=True)
class MixRow(ClipRow):
    """A row of a mixed manifest: a row of the videos manifest, or a clean clip, and why it is there."""

    mix: Literal["mixed_severity", "mixed_types"]
    share: float | None = None


MIXES = KIND = RowKind(
    "mixes",
    MixRow,
    ("mix", "share", "perturbation", "item_id"),
    files={
        "mixed_severity": ManifestFile(
            path="manifests/{dataset}/{suite}/mixed_severity.parquet",
            exported=True,
        ),
        "mixed_types": ManifestFile(
            path="manifests/{dataset}/{suite}/mixed_types.parquet",
            exported=True,
        ),
    },
)
