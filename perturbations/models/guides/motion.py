"""Motion: which pixels of each frame move most, and in which direction."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from perturbations.base import storage
from perturbations.base.progress import Tick, ticking
from perturbations.manifest.rows import AnalysisRow
from perturbations.media.clean_clip import CleanClip
from perturbations.media.clip import uniform_indices
from perturbations.models.analysis import motion_field
from perturbations.models.analysis.motion_field import FrameMotion
from perturbations.models.guides.guide_registry import (
    Analysed,
    Analysis,
    AnalysisRecipe,
    Facts,
    GuideRecipe,
    Known,
    Parameters,
)


def _analyse(
    recipe: AnalysisRecipe, clip: CleanClip, file: Path | None, before: AnalysisRow | None, tick: Tick
) -> Analysed:
    """Write the clip's motion into its file: of `num_frames` sampled frames, or of all."""
    assert file is not None
    only = set(uniform_indices(recipe.num_frames, clip.num_frames)) if recipe.num_frames else None
    about = {"recipe": recipe.text, "source_sha256": clip.sha256}
    with storage.atomic_path(file) as temporary:
        motion_field.write(temporary, _motions(clip, only, tick), about)
        return {"backend": "{}", "bytes": temporary.stat().st_size, "sha256": storage.sha256(temporary)}


def _motions(clip: CleanClip, only: Collection[int] | None, tick: Tick) -> Iterator[tuple[int, FrameMotion]]:
    follower = motion_field.Follower()
    for frame in ticking(clip.frames(follower.needed(only)), tick):
        follower.show(frame.image, frame.position)
        if only is None or frame.position in only:
            yield frame.position, follower(frame.position)


@dataclass(frozen=True, kw_only=True)
class MotionGuide(GuideRecipe):
    """The kernel gets the pixels of a frame that move most, and their direction."""

    summary: ClassVar = "the clip's motion: optical flow, no model"
    on_the_fly: ClassVar = True
    analysed_by: ClassVar = "motion"

    kind: Literal["motion"] = "motion"
    analysis: AnalysisRecipe

    def find(self, item_id: str, known: Known, *, seed: int, draw: float, parameters: Parameters) -> Facts:
        """Empty facts if the clip's motion was analysed: it is too large for a row, and its file can be made again."""
        known.row(item_id)
        return Facts()

    def argument(self, facts: Facts, clip: CleanClip, kept: Path | None) -> object:
        """The function position -> motion, from the analysis's file, or without a file from the frames as they come."""
        return motion_field.Follower() if kept is None else motion_field.reader(kept, clip.height, clip.width)


GUIDES = {"motion": MotionGuide}
ANALYSES = {
    "motion": Analysis(
        name="motion",
        version=2,
        run=_analyse,
        extension=".parquet",
        more=lambda settings: {"num_frames": settings.sampled},
    )
}
