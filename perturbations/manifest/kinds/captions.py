"""The manifest of listed captions."""

from __future__ import annotations

from dataclasses import dataclass

from perturbations.manifest.kind import ManifestFile, RowKind


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionRow:
    """A listed caption."""

    dataset: str
    caption_id: str
    item_id: str
    text: str


_FILE = ManifestFile(
    path="manifests/{dataset}/captions.parquet",
    exported=True,
)
CAPTIONS = KIND = RowKind("captions", CaptionRow, ("caption_id",), files={"captions": _FILE})
