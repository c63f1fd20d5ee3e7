"""Which other clip of a corpus gives frames where any may: never the clip itself, and a long one where there is one."""

from __future__ import annotations

import pytest

from perturbations.base.errors import MediaError
from perturbations.corpus.plan import recipe
from perturbations.corpus.plan.tiers import UNSTORED
from perturbations.manifest.rows import COMPLETE, AnalysisRow
from perturbations.models.guides.backend_settings import Backends
from perturbations.models.guides.donor import RandomDonorGuide
from perturbations.models.guides.guide_registry import Known

ANALYSIS = recipe.analysis("embedding", Backends(), UNSTORED)
GUIDE = RandomDonorGuide(corpus="d", analysis=ANALYSIS)


def row(item_id: str, frame_count: int, file: str = "", frames: str = "") -> AnalysisRow:
    """The row of a clip of 10 frames per second; `file` and `frames` are hashes, by default its own."""
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
        source_sha256=file or item_id,
        source_frames_sha256=frames or item_id,
        status=COMPLETE,
    )


def chosen(draws: list[float], seconds: float, *donors: AnalysisRow) -> list[str]:
    known = Known({"own": row("own", 30)}, donors)
    facts = [GUIDE.find("own", known, seed=0, draw=draw, parameters={"seconds": seconds}) for draw in draws]
    return [each.donor.item_id for each in facts]


def test_the_draw_chooses_among_clips_that_are_long_enough_or_among_all() -> None:
    donors = [row("short", 5), row("exact", 20), row("long", 90)]
    assert chosen([0.0, 0.49, 0.5, 0.99], 2.0, *donors) == ["exact", "exact", "long", "long"]
    assert chosen([0.0, 0.5, 0.99], 99.0, *donors) == ["short", "exact", "long"]


def test_neither_the_clip_nor_one_of_its_file_or_frames_is_chosen() -> None:
    same = [row("own", 30), row("copy", 30, file="own"), row("recoded", 30, frames="own")]
    assert chosen([0.0, 0.99], 0.0, *same, row("other", 30)) == ["other", "other"]
    with pytest.raises(MediaError, match="no other clip"):
        chosen([0.0], 0.0, *same)
