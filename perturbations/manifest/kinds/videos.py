"""The manifest of perturbed clips: the corpus."""

from __future__ import annotations

from dataclasses import dataclass

from perturbations.manifest.kind import ManifestFile, QuarantineStage, RowKind, RowStatus

SOURCE_STORAGE = "source"
"""What the column `storage` says of a clean clip in a mixed manifest: it lies where the dataset has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipRow:
    """A clip as the manifests of videos and of mixes have it.

    What a perturbation's row says of its recipe is empty of a clean clip (severity 0), and what was measured is empty
    where nothing could be made.
    """

    dataset: str
    item_id: str
    suite: str
    perturbation: str | None = None
    severity: int
    level: str | None = None
    variant: str | None = None
    draw: str | None = None
    params: str | None = None
    backend: str | None = None
    guide: str | None = None
    donor_id: str | None = None
    donor_similarity: float | None = None
    seed: int
    recipe: str | None = None
    recipe_id: str | None = None
    path: str | None = None
    storage: str
    codec: str | None = None
    pix_fmt: str | None = None
    width: int
    height: int
    sample_aspect_ratio: str | None = None
    fps: float
    frame_count: int
    stored_frames: int | None = None
    duration_s: float
    bytes: int | None = None
    bitrate_bps: float | None = None
    audio: str | None = None
    sha256: str | None = None
    frames_sha256: str | None = None
    storage_psnr_db: float | None = None
    psnr_db: float | None = None
    ssim: float | None = None
    source_path: str
    source_sha256: str
    source_frame_count: int
    start_s: float | None = None
    end_s: float | None = None
    cut: str | None = None
    status: RowStatus
    stage: QuarantineStage | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoRow(ClipRow):
    """A clip under one perturbation at one severity."""

    perturbation: str
    level: str
    variant: str
    draw: str
    params: str
    backend: str
    recipe: str
    recipe_id: str


_FILE = ManifestFile(
    path="manifests/{dataset}/{suite}/videos.parquet",
    exported=True,
)
VIDEOS = KIND = RowKind("videos", VideoRow, ("item_id", "suite", "perturbation", "severity"), files={"videos": _FILE})
