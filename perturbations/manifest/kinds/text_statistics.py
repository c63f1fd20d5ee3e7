"""The manifest of what became of all captions under a perturbation."""

from __future__ import annotations

from dataclasses import dataclass

from perturbations.manifest.kind import ManifestFile, RowKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStatisticsRow:
    """What became of all captions under one perturbation at one severity."""

    dataset: str
    suite: str
    perturbation: str
    severity: int
    level: str
    variant: str
    backend: str
    captions: int
    changed: int
    effectively_changed: int
    accepted: int
    similarity_mean: float | None = None
    similarity_min: float | None = None
    fluency_change_mean: float | None = None
    attempts_mean: float | None = None
    attempts_max: int
    bleu4: float | None = None
    meteor: float | None = None
    rouge1: float | None = None


_FILE = ManifestFile(
    path="manifests/{dataset}/{suite}/caption_statistics.parquet",
    exported=True,
)
TEXT_STATISTICS = KIND = RowKind(
    "text_statistics", TextStatisticsRow, ("perturbation", "severity"), files={"text_statistics": _FILE}
)
