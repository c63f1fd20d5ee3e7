"""What `report` brings to the configuration and the plan."""

from __future__ import annotations

from perturbations.base.features import Feature
from perturbations.report.layout import CAPTION_FILES, CORPUS_FILES, PLACES

FEATURE = Feature(
    summary="pictures and pages of corpora",
    places=PLACES,
    corpus_files=CORPUS_FILES,
    caption_files=CAPTION_FILES,
)
