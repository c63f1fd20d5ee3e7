"""Motion: which pixels of each frame move most, and in which direction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from perturbations.base import storage
from perturbations.base.progress import Tick, ticking
from perturbations.guides.analyses import Analysed, Analysis, AnalysisRecipe, GuideSettings, Results, Work
from perturbations.guides.registry import ClipShape, Facts, FactsRequest, Guide, GuideRecipe

if TYPE_CHECKING:
    from perturbations.analysis.motion import FrameMotion
    from perturbations.media.footage import CleanClip


class _MotionAnalysis(AnalysisRecipe):
    """The motion of `num_frames` sampled frames; None: of all frames."""

    analysis: Literal["motion"] = "motion"
    version: int = 2
    num_frames: int | None = None


class _MotionGuide(GuideRecipe):
    """The kernel gets the pixels of a frame that move most, and their direction."""

    kind: Literal["motion"] = "motion"
    analysis: _MotionAnalysis


def _settle_analysis(settings: GuideSettings) -> _MotionAnalysis:
    """The recipe for the motion of the stored frames: all, or the sampled ones."""
    return _MotionAnalysis(num_frames=settings.sampled)


def _settle(settings: GuideSettings) -> _MotionGuide:
    """The recipe for the motion of the clip, from the configuration."""
    return _MotionGuide(analysis=_settle_analysis(settings))


def run(recipe: AnalysisRecipe, clips: Sequence[CleanClip], work: Work) -> Results:
    """Write each clip's motion into its file."""
    assert isinstance(recipe, _MotionAnalysis)
    return [_analysed(recipe, clip, path, work.tick) for clip, path in zip(clips, work.files, strict=True)]


def _analysed(recipe: _MotionAnalysis, clip: CleanClip, target: Path | None, tick: Tick) -> Analysed:
    from perturbations.analysis import motion
    from perturbations.media.clip import uniform_indices

    assert target is not None
    only = set(uniform_indices(recipe.num_frames, clip.num_frames)) if recipe.num_frames else None
    about = {"recipe": recipe.text, "source_sha256": clip.sha256}
    with storage.atomic_path(target) as temporary:
        motion.write(temporary, _motions(clip, only, tick), about)
        return Analysed(backend="{}", bytes=temporary.stat().st_size, sha256=storage.sha256(temporary))


def _motions(clip: CleanClip, only: Collection[int] | None, tick: Tick) -> Iterator[tuple[int, FrameMotion]]:
    from perturbations.analysis import motion

    follower = motion.Follower()
    for frame in ticking(clip.frames(follower.needed(only)), tick):
        follower.show(frame.image, frame.position)
        if only is None or frame.position in only:
            yield frame.position, follower(frame.position)


def _find(request: FactsRequest) -> Facts:
    """Empty facts, if the clip's motion was analysed: it is too large for a row, and its file can be made again."""
    request.analysed_row()
    return Facts()


def _make(recipe: GuideRecipe, facts: Facts, shape: ClipShape) -> object:
    """The function position -> motion: from the analysis's file, or without one from the frames as they come."""
    from perturbations.analysis import motion

    return motion.Follower() if shape.kept is None else motion.reader(shape.kept, shape.height, shape.width)


GUIDE = Guide(
    name="motion",
    summary="the clip's motion: optical flow, no model",
    recipe=_MotionGuide,
    settle=_settle,
    find=_find,
    make=_make,
    analyses=(
        Analysis(
            name="motion", recipe=_MotionAnalysis, settle=_settle_analysis, run=run, extension=".parquet", seconds=0.2
        ),
    ),
    on_the_fly=True,
)
