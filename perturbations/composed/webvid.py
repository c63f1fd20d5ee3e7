"""WebVid-CoVR's split (Ventura et al., 2024): each row's video and instruction ask for its other video.

A query retrieves from the targets of all rows without its own video: the gallery `global_targets`.
"""

from __future__ import annotations

import logging
from pathlib import Path

from perturbations.base.errors import AnnotationError
from perturbations.composed.modifications import ComposedQuery, PoolClip, Split
from perturbations.datasets import webvid_covr
from perturbations.datasets.listing import Collector
from perturbations.datasets.parsing import header

_log = logging.getLogger("perturbations")


def is_of(path: Path) -> bool:
    """Whether a CSV has WebVid-CoVR's columns."""
    return {*webvid_covr.TEXTS} <= {*header(path)}


def read(path: Path) -> Split:
    """The split of a CSV. Rows that cannot be used are logged; raises `AnnotationError` where none is left."""
    collector, clips, queries = Collector(path), dict[str, PoolClip](), list[ComposedQuery]()
    for _, row in webvid_covr.rows(path, collector):
        for side in "12":
            name, caption = row[f"pth{side}"], row[f"txt{side}"].strip()
            clips.setdefault(name, PoolClip(clip_id=name, video_id=name, narration=caption))
        queries.append(
            ComposedQuery(
                query_id=f"{len(queries):06d}",
                clip=row["pth1"],
                targets=(row["pth2"],),
                instruction=row["edit"].strip(),
                narration=clips[row["pth1"]].narration,
                target_narration=clips[row["pth2"]].narration,
                instruction_source="official",
            )
        )
    for entry in collector.rejected:
        _log.warning("%s: not a query: %s", path, entry.reason)
    if not queries:
        raise AnnotationError(f"{path} lists no query")
    return Split(tuple(clips.values()), tuple(queries), {})
