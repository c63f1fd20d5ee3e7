"""A perturbed clip: what is decided before a frame of it is made, and how each kind of kernel makes its frames."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

import cv2
import numpy as np

from perturbations.base.arrays import SAMPLED, Image
from perturbations.base.errors import MediaError
from perturbations.base.kernel import Batched, Function, Shape
from perturbations.base.progress import Tick, no_tick, ticking
from perturbations.corpus.plan import tiers
from perturbations.corpus.plan.recipe import VideoRecipe
from perturbations.corpus.render.planned_clip import PlannedClip, Seen, realizations
from perturbations.media.clean_clip import CleanClip
from perturbations.media.clip import Frame, MediaClip
from perturbations.models.analysis.motion_field import Follower
from perturbations.models.guides.guide_registry import Facts

cv2.setNumThreads(1)  # the jobs already use all cores; threads within a kernel would only slow them down


def planned_clip(recipe: VideoRecipe, source: CleanClip) -> PlannedClip:
    """The plan of a clip under a recipe. Raises `MediaError` where the recipe leaves no frame of the clip."""
    if recipe.entry.encodes:
        from perturbations.corpus.render.codec_clips import codec_clip  # loaded where a codec perturbs

        return codec_clip(recipe, source)
    return (_temporal_clip if recipe.entry.moves_frames else _pixel_clip)(recipe, source)


def _guide_of(recipe: VideoRecipe, source: CleanClip) -> tuple[object, ...]:
    """The guide, which a guided kernel takes beside its other arguments; empty where the recipe is not guided."""
    if recipe.guide_recipe is None:
        return ()
    assert isinstance(source.facts, Facts)
    return (recipe.guide_recipe.argument(source.facts, source, source.kept),)


def _check_length(recipe: VideoRecipe, num_frames: int) -> None:
    if not num_frames:
        raise MediaError(f"{recipe.key} at severity {recipe.severity} leaves no frame of this clip")


# --- pixels -----------------------------------------------------------------------------------------------------------


def _pixel_clip(recipe: VideoRecipe, source: CleanClip) -> PlannedClip:
    """Each frame changed by itself, by what is drawn for the clip or for the frame, and by a guide where it has one."""
    drawn, whole, entry = realizations(recipe, source), source.whole, recipe.entry
    shape, order = Shape(source.height, source.width), None
    if entry.shape is not None:
        places = range(whole.num_frames) if recipe.draw == "frame" else [None]
        shape = entry.shape([*map(drawn, places)], whole.num_frames, source.height, source.width, **recipe.params)
    if shape.kept is not None:
        _check_length(recipe, len(shape.kept))
        # The video is cut after it was perturbed, so frames that it lost move all later frames.
        order = shape.kept[source.first : source.first + source.num_frames]
        _check_length(recipe, len(order))

    def frames(
        *, only: Collection[int] | None = None, tick: Tick = no_tick, seen: Seen | None = None
    ) -> Iterator[Frame]:
        guide = _guide_of(recipe, source)
        given = *guide, whole.num_frames, whole.height, whole.width
        apply = None if recipe.draw == "frame" else entry.kernel(drawn(None), *given, **recipe.params)
        follower = next((own for own in guide if isinstance(own, Follower)), None)
        clean = _clean_frames(source, order, only, tick, follower)
        while group := list(islice(clean, apply.size if isinstance(apply, Batched) else 1)):
            images: Iterable[Image]
            if isinstance(apply, Batched):
                images = apply.apply(np.stack([frame.image for frame, _, _ in group]))
            else:
                index = source.first + group[0][0].position
                of_frame = apply or entry.kernel(drawn(index), *given, **recipe.params)
                assert not isinstance(of_frame, Batched), f"{recipe.key} changes batches, and cannot draw per frame"
                images = [of_frame(group[0][0].image, index)]
            for (frame, pts, position), image in zip(group, images, strict=True):
                if seen is not None:
                    seen(frame)
                yield Frame(image, pts, position)

    num_frames = source.num_frames if order is None else len(order)
    return PlannedClip(
        recipe=recipe,
        source=source,
        frames=frames,
        height=shape.height,
        width=shape.width,
        num_frames=num_frames,
        full_length=num_frames,
        order=order,
        is_aligned=order is None,
        keeps_sound=order is None,
    )


def _clean_frames(
    source: CleanClip,
    order: Sequence[int] | None,
    only: Collection[int] | None,
    tick: Tick,
    follower: Follower | None,
) -> Iterator[tuple[Frame, int, int]]:
    """For each perturbed frame: the clean frame with its position in the clip, the perturbed frame's time and place."""
    if order is None:
        for frame in ticking(source.frames(only if follower is None else follower.needed(only)), tick):
            if follower is not None:  # it sees each frame before the kernel does
                follower.show(frame.image, frame.position)
            if only is None or frame.position in only:
                yield frame, frame.pts, frame.position
        return
    assert follower is None, "a guide that watches sees every frame, so none may be lost"
    from perturbations.corpus.render.frame_orders import frames_at

    places = [place for place in range(len(order)) if only is None or place in only]
    kept = frames_at(source.whole, [order[place] for place in places], tick)
    for place, frame in zip(places, kept, strict=True):
        yield frame._replace(position=frame.position - source.first), place, place


# --- order ------------------------------------------------------------------------------------------------------------


def _temporal_clip(recipe: VideoRecipe, source: CleanClip) -> PlannedClip:
    """Frames of the clip, or of another one, in another order."""
    drawn, entry = realizations(recipe, source)(None), recipe.entry
    guide = _guide_of(recipe, source)

    def order_by(kernel: Function) -> list[int]:
        order: list[int] = kernel(drawn, *guide, source.whole.num_frames, **recipe.params).tolist()
        order = order if source.cut is None else order[source.first : source.first + source.num_frames]
        _check_length(recipe, len(order))
        return order

    full = order = order_by(entry.kernel)
    # Where as many frames are stored as the authors' models read, store the same ones: their sampling is not uniform.
    if entry.sampled is not None and tiers.sampled(recipe.storage) == SAMPLED and not recipe.whole_videos:
        order = order_by(entry.sampled)
    is_aligned = recipe.guide_recipe is not None and recipe.guide_recipe.keeps_times

    def other_clip() -> MediaClip:
        assert isinstance(source.facts, Facts), "the plan names frames of another clip, and the clip has no guide"
        return source.facts.other_clip()

    def frames(
        *, only: Collection[int] | None = None, tick: Tick = no_tick, seen: Seen | None = None
    ) -> Iterator[Frame]:
        from perturbations.corpus.render.codec_clips import at_clean_times
        from perturbations.corpus.render.frame_orders import arranged

        smooth = recipe.antialiases_donors
        moved = arranged(order, source, other_clip, only, tick, seen, antialiased=smooth)
        return at_clean_times(moved, source) if is_aligned else moved

    return PlannedClip(
        recipe=recipe,
        source=source,
        frames=frames,
        height=source.height,
        width=source.width,
        num_frames=len(order),
        full_length=len(full),
        order=order,
        is_aligned=is_aligned,
        keeps_sound=False,
    )
