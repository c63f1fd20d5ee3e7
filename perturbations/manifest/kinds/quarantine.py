"""The manifests of what could not be made."""

from __future__ import annotations

from dataclasses import dataclass

from perturbations.manifest.kind import ManifestFile, QuarantineStage, RowKind, RowStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRow:
    """What could not be made, and why."""

    dataset: str
    item_id: str
    status: RowStatus
    stage: QuarantineStage | None = None
    suite: str | None = None
    perturbation: str | None = None
    severity: int | None = None
    error: str | None = None


QUARANTINE = KIND = RowKind(
    "quarantine",
    QuarantineRow,
    ("item_id", "stage", "suite", "perturbation", "severity", "status", "error"),
    files={
        "quarantine": ManifestFile(
            path="manifests/{dataset}/{suite}/quarantine.parquet",
            exported=True,
        ),
        "captions_quarantine": ManifestFile(path="manifests/{dataset}/captions_quarantine.parquet"),
    },
)
