"""The manifest of pairs: a perturbed caption with its perturbed video."""

from __future__ import annotations

from dataclasses import dataclass

from perturbations.manifest.kind import ManifestFile, RowKind
from perturbations.manifest.kinds.videos import VideoRow


@dataclass(frozen=True, slots=True, kw_only=True)
class MultimodalRow(VideoRow):
    """A perturbed caption with its perturbed video: the columns of the video after those of the caption."""

    caption_id: str
    text_perturbation: str
    text_severity: int
    text: str
    changed: bool
    similarity: float | None = None
    attempts: int
    accepted: bool
    text_backend: str
    text_recipe_id: str


_FILE = ManifestFile(
    path="manifests/{dataset}/{suite}/multimodal.parquet",
    exported=True,
)
MULTIMODAL = KIND = RowKind(
    "multimodal",
    MultimodalRow,
    ("perturbation", "severity", "text_perturbation", "caption_id", "item_id"),
    files={"multimodal": _FILE},
)
