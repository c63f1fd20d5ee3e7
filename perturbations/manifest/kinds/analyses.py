"""The manifests of analyses, one per analysis."""

from __future__ import annotations

from dataclasses import dataclass

from perturbations.manifest.kind import ManifestFile, QuarantineStage, RowKind, RowStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisRow:
    """What an analysis found about one clip."""

    dataset: str
    item_id: str
    analysis: str
    recipe: str
    recipe_id: str
    backend: str | None = None
    result: str | None = None
    vector: tuple[float, ...] | None = None
    path: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    width: int
    height: int
    fps: float
    frame_count: int
    source_path: str
    source_sha256: str
    source_frames_sha256: str
    start_s: float | None = None
    end_s: float | None = None
    status: RowStatus
    stage: QuarantineStage | None = None
    error: str | None = None


_FILE = ManifestFile(path="manifests/{dataset}/{analysis}.parquet")
ANALYSES = KIND = RowKind("analyses", AnalysisRow, ("analysis", "item_id"), files={"analyses": _FILE})
