"""The manifest of clean clips."""

from __future__ import annotations

from dataclasses import dataclass

from perturbations.manifest.kind import ManifestFile, QuarantineStage, RowKind, RowStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """A listed clip. What was measured is empty where it could not be used.

    `sample_aspect_ratio` is a pixel's width over its height, "16/15", and empty where pixels are square.
    `source_losses` names what the video has and no perturbed clip, "PQ, 10 bits, subtitles"; empty where that is
    nothing. A picture is one frame without a clock: its `fps` and `duration_s` are 0.
    """

    dataset: str
    split: str
    item_id: str
    source_video_id: str | None = None
    start_s: float | None = None
    end_s: float | None = None
    path: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    frames_sha256: str | None = None
    codec: str | None = None
    pix_fmt: str | None = None
    width: int | None = None
    height: int | None = None
    fps: float | None = None
    frame_count: int | None = None
    duration_s: float | None = None
    rotation: int | None = None
    sample_aspect_ratio: str | None = None
    source_losses: str | None = None
    status: RowStatus
    stage: QuarantineStage | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteSource(SourceRow):
    """A listed clip that was decoded from its first to its last frame."""

    path: str
    bytes: int
    sha256: str
    frames_sha256: str
    codec: str
    pix_fmt: str
    width: int
    height: int
    fps: float
    frame_count: int
    duration_s: float
    rotation: int


_FILE = ManifestFile(
    path="manifests/{dataset}/sources.parquet",
    exported=True,
)
SOURCES = KIND = RowKind("sources", SourceRow, ("item_id",), CompleteSource, files={"sources": _FILE})
