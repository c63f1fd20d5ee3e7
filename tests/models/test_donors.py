"""Which other clip of a corpus gives frames where any may: never the clip itself, and a long one where there is one."""

from __future__ import annotations

import pytest

from perturbations.base.errors import MediaError
from perturbations.corpus.plan import recipe
from perturbations.corpus.plan.tiers import UNSTORED
from perturbations.manifest.rows import COMPLETE, AnalysisRow
from perturbations.models.guides.backends import Backends
from perturbations.models.guides.donor import RandomDonorGuide
from perturbations.models.guides.guide_registry import Known

ANALYSIS = recipe.analysis("embedding", Backends(), UNSTORED)
GUIDE = RandomDonorGuide(corpus="d", analysis=ANALYSIS)


def row(item_id: str, frame_count: int, **changed: str) -> AnalysisRow:
    """The row of a clip of 10 frames per second."""
    hashes = {"source_sha256": item_id, "source_frames_sha256": item_id, **changed}
    return AnalysisRow(
        dataset="d",
        item_id=item_id,
        analysis="embedding",
        recipe=ANALYSIS.text,
        recipe_id="",
        backend="{}",
        width=8,
        height=8,
        fps=10.0,
        frame_count=frame_count,
        source_path=f"{item_id}.mp4",
        status=COMPLETE,
        **hashes,
    )


def chosen(draws: list[float], seconds: float, *donors: AnalysisRow) -> list[str]:
    known = Known({"own": row("own", 30)}, donors)
    parameters = {"seconds": seconds}
    return [GUIDE.find("own", known, seed=0, draw=draw, parameters=parameters).donor.item_id for draw in draws]


def test_the_draw_chooses_among_clips_that_are_long_enough_or_among_all() -> None:
    donors = [row("short", 5), row("exact", 20), row("long", 90)]
    assert chosen([0.0, 0.49, 0.5, 0.99], 2.0, *donors) == ["exact", "exact", "long", "long"]
    assert chosen([0.0, 0.5, 0.99], 99.0, *donors) == ["short", "exact", "long"]


def test_neither_the_clip_nor_one_of_its_file_or_frames_is_chosen() -> None:
    same = [row("own", 30), row("copy", 30, source_sha256="own"), row("recoded", 30, source_frames_sha256="own")]
    assert chosen([0.0, 0.99], 0.0, *same, row("other", 30)) == ["other", "other"]
    with pytest.raises(MediaError, match="no other clip"):
        chosen([0.0], 0.0, *same)
