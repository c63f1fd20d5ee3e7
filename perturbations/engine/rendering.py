"""The frames of a perturbed clip whose kernel changes pixels or the order of frames, and the plan of any clip."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import cv2
import numpy as np

from perturbations.base.arrays import SAMPLED, Image
from perturbations.base.progress import Tick, no_tick, ticking
from perturbations.engine import guided
from perturbations.engine.planned import PlannedClip, Realizations, Seen, check_length
from perturbations.media.clip import Frame
from perturbations.media.footage import CleanClip
from perturbations.plan.recipe import VideoRecipe
from perturbations.plan.tiers import StoredFrames
from perturbations.video.kernel import Batched, FrameFunction, Function, Shape

if TYPE_CHECKING:
    from perturbations.analysis.motion import Follower

cv2.setNumThreads(1)  # the jobs already use all cores; threads within a kernel would only slow them down


def planned_clip(recipe: VideoRecipe, source: CleanClip) -> PlannedClip:
    """All that is decided about a clip under a recipe. Raises `MediaError` where no frame is left of it."""
    if recipe.entry.encodes:
        from perturbations.engine.codec_clips import codec_clip  # loaded where a codec perturbs

        return codec_clip(recipe, source)
    return (_temporal_clip if recipe.entry.moves_frames else _pixel_clip)(recipe, source)


# --- pixels -----------------------------------------------------------------------------------------------------------


def _pixel_clip(recipe: VideoRecipe, source: CleanClip) -> PlannedClip:
    drawn, whole = Realizations(recipe, source), source.whole
    shape, order = Shape(source.height, source.width), None
    if recipe.entry.shape is not None:
        shape = recipe.entry.shape(drawn.for_shape, whole.num_frames, source.height, source.width, **recipe.params)
    if shape.kept is not None:
        check_length(recipe, len(shape.kept))
        # The video is cut after it was perturbed, so what it lost moves all that follows.
        order = shape.kept[source.first : source.first + source.num_frames]
        check_length(recipe, len(order))
    num_frames = source.num_frames if order is None else len(order)
    return _PixelClip(
        recipe=recipe,
        source=source,
        drawn=drawn,
        height=shape.height,
        width=shape.width,
        num_frames=num_frames,
        full_length=num_frames,
        order=order,
        is_aligned=order is None,
        keeps_sound=order is None,
    )


@dataclass(frozen=True, kw_only=True)
class _PixelClip(PlannedClip):
    """Each frame changed by itself, by what is drawn for the clip or for the frame, and by a guide where it has one."""

    @property
    def sees_clean(self) -> bool:
        return self.order is None

    def frames(
        self, *, only: Collection[int] | None = None, tick: Tick = no_tick, seen: Seen | None = None
    ) -> Iterator[Frame]:
        source, order = self.source, self.order
        guide = guided.arguments(self.recipe, source)
        follower = _follower(*guide)
        if order is None:
            clean = ticking(source.frames(only if follower is None else follower.needed(only)), tick)
            clean = clean if follower is None else _shown(clean, follower, only)
            for frame, image in self._applied(clean, *guide):
                if seen is not None:
                    seen(frame, image)
                yield frame._replace(image=image)
            return
        assert follower is None, f"the guide of {self.recipe.key} sees every frame, so none may be lost"
        places = [place for place in range(len(order)) if only is None or place in only]
        from perturbations.engine.frame_orders import frames_at

        kept = frames_at(source.whole, [order[place] for place in places], tick)
        in_clip = (frame._replace(position=frame.position - source.first) for frame in kept)
        for place, (_, image) in zip(places, self._applied(in_clip, *guide), strict=True):
            yield Frame(image, place, place)

    def _applied(self, frames: Iterator[Frame], *guide: object) -> Iterator[tuple[Frame, Image]]:
        per_frame = self.recipe.draw == "frame"
        kernel = None if per_frame else self._bound(self.drawn.of_clip, *guide)
        if isinstance(kernel, Batched):
            while group := list(islice(frames, kernel.size)):
                yield from zip(group, kernel.apply(np.stack([frame.image for frame in group])), strict=True)
            return
        for frame in frames:
            index = self.source.first + frame.position
            apply = kernel or self._bound(self.drawn.of_frame(index), *guide)
            assert not isinstance(apply, Batched), f"{self.recipe.key} changes batches, and cannot draw per frame"
            yield frame, apply(frame.image, index)

    def _bound(self, realization: object, *guide: object) -> FrameFunction:
        whole, kernel = self.source.whole, self.recipe.entry.kernel
        size = whole.num_frames, whole.height, whole.width
        bound: FrameFunction = kernel(realization, *guide, *size, **self.recipe.params)
        return bound


def _follower(guide: object = None) -> Follower | None:
    """The guide, where it watches the frames."""
    if guide is None:
        return None
    from perturbations.analysis.motion import Follower

    return guide if isinstance(guide, Follower) else None


def _shown(frames: Iterable[Frame], follower: Follower, only: Collection[int] | None) -> Iterator[Frame]:
    """Those of the frames that are wanted; the guide sees each before the kernel does."""
    for frame in frames:
        follower.show(frame.image, frame.position)
        if only is None or frame.position in only:
            yield frame


# --- order ------------------------------------------------------------------------------------------------------------


def _temporal_clip(recipe: VideoRecipe, source: CleanClip) -> PlannedClip:
    drawn, entry = Realizations(recipe, source), recipe.entry
    guide = guided.arguments(recipe, source)

    def order_by(kernel: Function) -> list[int]:
        order: list[int] = kernel(drawn.of_clip, *guide, source.whole.num_frames, **recipe.params).tolist()
        order = order if source.cut is None else order[source.first : source.first + source.num_frames]
        check_length(recipe, len(order))
        return order

    full = order = order_by(entry.kernel)
    if entry.sampled is not None and _is_read_by_models(recipe):
        order = order_by(entry.sampled)
    return _TemporalClip(
        recipe=recipe,
        source=source,
        drawn=drawn,
        height=source.height,
        width=source.width,
        num_frames=len(order),
        full_length=len(full),
        order=order,
        is_aligned=recipe.guide is not None and recipe.guide.keeps_times,
        keeps_sound=False,
    )


def _is_read_by_models(recipe: VideoRecipe) -> bool:
    """Whether as many frames are stored as the authors' models read, which they do not sample uniformly."""
    stored = recipe.storage
    return isinstance(stored, StoredFrames) and stored.num_frames == SAMPLED and not recipe.whole_videos


@dataclass(frozen=True, kw_only=True)
class _TemporalClip(PlannedClip):
    """Frames of the clip, or of another one, in another order."""

    def frames(
        self, *, only: Collection[int] | None = None, tick: Tick = no_tick, seen: Seen | None = None
    ) -> Iterator[Frame]:
        from perturbations.engine.codec_clips import at_clean_times
        from perturbations.engine.frame_orders import arranged

        assert self.order is not None
        recipe, source = self.recipe, self.source
        smooth = recipe.antialiases_donors
        frames = arranged(self.order, source, lambda: guided.other_clip(source.facts), only, tick, antialiased=smooth)
        return at_clean_times(frames, source) if self.is_aligned else frames
