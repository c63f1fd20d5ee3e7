"""A perturbed clip: what is decided before a frame of it is made, and how each kind of kernel makes its frames."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import cv2
import numpy as np

from perturbations.base.arrays import SAMPLED, Image
from perturbations.base.progress import Tick, no_tick, ticking
from perturbations.engine import clean_clips
from perturbations.engine.planned import PlannedClip, Realizations, Seen, check_length
from perturbations.media.clip import Frame
from perturbations.media.footage import CleanClip
from perturbations.plan.recipe import VideoRecipe
from perturbations.plan.tiers import StoredFrames
from perturbations.video.kernel import Batched, Function, Shape

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
        recipe, whole, kernel = self.recipe, self.source.whole, self.recipe.entry.kernel
        guide = clean_clips.arguments(recipe, self.source)
        given = *guide, whole.num_frames, whole.height, whole.width
        apply = None if recipe.draw == "frame" else kernel(self.drawn.of_clip, *given, **recipe.params)
        clean = self._clean_frames(only, tick, _follower(*guide))
        while group := list(islice(clean, apply.size if isinstance(apply, Batched) else 1)):
            images: Iterable[Image]
            if isinstance(apply, Batched):
                images = apply.apply(np.stack([frame.image for frame, _, _ in group]))
            else:
                index = self.source.first + group[0][0].position
                of_frame = apply or kernel(self.drawn.of_frame(index), *given, **recipe.params)
                assert not isinstance(of_frame, Batched), f"{recipe.key} changes batches, and cannot draw per frame"
                images = [of_frame(group[0][0].image, index)]
            for (frame, pts, position), image in zip(group, images, strict=True):
                perturbed = Frame(image, pts, position)
                if seen is not None and self.sees_clean:
                    seen(frame, perturbed)
                yield perturbed

    def _clean_frames(
        self, only: Collection[int] | None, tick: Tick, follower: Follower | None
    ) -> Iterator[tuple[Frame, int, int]]:
        """The clean frame of each perturbed one, by its position in the clip, and the time and place of that one."""
        source, order = self.source, self.order
        if order is None:
            for frame in ticking(source.frames(only if follower is None else follower.needed(only)), tick):
                if follower is not None:  # it sees each frame before the kernel does
                    follower.show(frame.image, frame.position)
                if only is None or frame.position in only:
                    yield frame, frame.pts, frame.position
            return
        assert follower is None, f"the guide of {self.recipe.key} sees every frame, so none may be lost"
        from perturbations.engine.frame_orders import frames_at

        places = [place for place in range(len(order)) if only is None or place in only]
        kept = frames_at(source.whole, [order[place] for place in places], tick)
        for place, frame in zip(places, kept, strict=True):
            yield frame._replace(position=frame.position - source.first), place, place


def _follower(guide: object = None) -> Follower | None:
    """The guide, where it watches the frames."""
    if guide is None:
        return None
    from perturbations.analysis.motion import Follower

    return guide if isinstance(guide, Follower) else None


# --- order ------------------------------------------------------------------------------------------------------------


def _temporal_clip(recipe: VideoRecipe, source: CleanClip) -> PlannedClip:
    drawn, entry = Realizations(recipe, source), recipe.entry
    guide = clean_clips.arguments(recipe, source)

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
        frames = arranged(
            self.order, source, lambda: clean_clips.other_clip(source.facts), only, tick, antialiased=smooth
        )
        return at_clean_times(frames, source) if self.is_aligned else frames
