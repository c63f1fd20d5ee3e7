"""The manifest of which clips answer a caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perturbations.manifest.kind import COMPLETE, ManifestFile, RowKind
from perturbations.manifest.kinds.captions import CaptionRow
from perturbations.manifest.kinds.sources import SourceRow


@dataclass(frozen=True, slots=True, kw_only=True)
class QrelRow:
    """Which clip answers a caption."""

    query_id: str
    corpus_id: str
    score: int


def of_captions(captions: Sequence[CaptionRow], sources: Sequence[SourceRow]) -> list[QrelRow]:
    """The clip of each caption, where it is complete."""
    complete = {row.item_id for row in sources if row.status == COMPLETE}
    return [
        QrelRow(query_id=row.caption_id, corpus_id=row.item_id, score=1) for row in captions if row.item_id in complete
    ]


_FILE = ManifestFile(
    path="manifests/{dataset}/qrels.parquet",
    exported=True,
)
QRELS = KIND = RowKind("qrels", QrelRow, ("query_id", "corpus_id"), files={"qrels": _FILE})
