"""The frames of a recipe: decode, draw, apply the kernel. Nothing here writes a result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import cv2
import numpy as np

from perturbations import rng
from perturbations.arrays import Image
from perturbations.engine import guided
from perturbations.engine.source import Source, even, scratch_file, times_of
from perturbations.engine.temporal import arranged, frames_at
from perturbations.guides.registry import Watching
from perturbations.media import decoding, pixels, probing, program
from perturbations.media.clip import Clip, Frame, Timing
from perturbations.plan.recipe import VideoRecipe
from perturbations.progress import Tick, no_tick, ticking
from perturbations.suites import registry
from perturbations.system.records import digest
from perturbations.video.kernel import Batched, Kernel

cv2.setNumThreads(1)  # the jobs already use all cores; threads within a kernel would only slow them down


def applier(
    recipe: VideoRecipe, dataset: str, item_id: str, num_frames: int, height: int, width: int, guide: object = None
) -> Kernel:
    """The kernel of a pixel recipe, bound to one clip: its realization is drawn.

    Frames are RGB uint8 height x width x 3. With `draw: clip` all frames share a realization.
    """
    kernel = registry.resolve(recipe.entry.kernel)
    guide_argument = (guide,) if recipe.guide is not None else ()

    def bind(frame: int | None) -> Kernel:
        realization = _realization(recipe, dataset, item_id, num_frames, height, width, frame)
        bound: Kernel = kernel(realization, *guide_argument, num_frames, height, width, **recipe.params)
        return bound

    if recipe.draw == "frame":

        def apply(image: Image, index: int) -> Image:
            bound = bind(index)
            assert not isinstance(bound, Batched), f"{recipe.key} changes batches, and cannot draw per frame"
            return bound(image, index)

        return apply
    return bind(None)


def _realization(
    recipe: VideoRecipe, dataset: str, item_id: str, num_frames: int, height: int, width: int, frame: int | None = None
) -> object:
    entry = recipe.entry
    if entry.realization is None:
        return None
    generator = rng.generator(recipe.seed, dataset, item_id, entry.key, frame)
    return registry.resolve(entry.realization)(generator, num_frames, height, width)


def plan(recipe: VideoRecipe, dataset: str, item_id: str, num_frames: int, guide: object = None) -> list[int]:
    """The frame at each place under a temporal recipe: i is frame i of the clip, ~i is frame i of the donor."""
    kernel = registry.resolve(recipe.entry.kernel)
    guide_argument = (guide,) if recipe.guide is not None else ()
    realization = _realization(recipe, dataset, item_id, num_frames, 0, 0)
    positions: list[int] = kernel(realization, *guide_argument, num_frames, **recipe.params).tolist()
    return positions


def _plan_of(recipe: VideoRecipe, source: Source) -> list[int]:
    whole = source.whole
    positions = plan(recipe, whole.dataset, whole.item_id, whole.num_frames, guide_of(recipe, source))
    return positions if source.cut is None else positions[source.first : source.first + source.num_frames]


def length(recipe: VideoRecipe, source: Source) -> int:
    """How many frames the perturbed clip has."""
    return len(_plan_of(recipe, source)) if method(recipe) == "temporal" else source.num_frames


def timing(recipe: VideoRecipe, source: Source) -> Timing:
    """The time base and frame rate of the perturbed clip."""
    return even(source.timing) if method(recipe) == "temporal" else source.timing


def render(
    recipe: VideoRecipe,
    source: Source,
    *,
    only: Collection[int] | None = None,
    tick: Tick = no_tick,
    seen: Callable[[Frame, Image], None] | None = None,
) -> Iterator[Frame]:
    """The perturbed frames of a clip; with `only`, those at these positions.

    `seen` is called with each clean frame and its perturbed image (pixel recipes only).
    Raises `MediaError` when the clip cannot be decoded.
    """
    if method(recipe) == "codec":
        yield from _decoded_stream(recipe, source, only, tick)
    elif method(recipe) == "temporal":
        yield from arranged(
            _plan_of(recipe, source), source, lambda: guided.other_clip(recipe, source.facts), only, tick
        )
    else:
        kernel, guide = kernel_of(recipe, source)
        for frame, image in changed(kernel, guide, source.frames, first=source.first, only=only, tick=tick):
            if seen is not None:
                seen(frame, image)
            yield frame._replace(image=image)


def changed(
    kernel: Kernel,
    guide: object,
    clean: Callable[[Collection[int] | None], Iterator[Frame]],
    *,
    first: int = 0,
    only: Collection[int] | None = None,
    tick: Tick = no_tick,
) -> Iterator[tuple[Frame, Image]]:
    """Each clean frame of a clip, or those at `only`, with the image that a pixel kernel makes of it.

    `clean` gives the clip's frames in order, all of them or those at given positions. `first` is the position of the
    clip's first frame in the perturbed video. A watching guide sees each frame before the kernel does.
    """
    watching = guide if isinstance(guide, Watching) else None
    frames = ticking(clean(only if watching is None else watching.needed(only)), tick)
    if watching is not None:
        frames = _shown(frames, watching, only)
    if isinstance(kernel, Batched):
        frames = iter(frames)
        while group := list(islice(frames, kernel.size)):
            yield from zip(group, kernel.apply(np.stack([frame.image for frame in group])), strict=True)
    else:
        for frame in frames:
            yield frame, kernel(frame.image, first + frame.position)


def kernel_of(recipe: VideoRecipe, source: Source) -> tuple[Kernel, object]:
    """The kernel of a pixel recipe, bound to a clip, and the guide that it received."""
    guide, whole = guide_of(recipe, source), source.whole
    size = whole.num_frames, source.height, source.width
    return applier(recipe, whole.dataset, whole.item_id, *size, guide), guide


def guide_of(recipe: VideoRecipe, source: Source) -> object:
    """What the kernel takes; None where the recipe is not guided."""
    return guided.guide_of(recipe, source.facts, source, source.kept)


def _shown(frames: Iterable[Frame], watching: Watching, only: Collection[int] | None) -> Iterator[Frame]:
    for frame in frames:
        watching.show(frame.image, frame.position)
        if only is None or frame.position in only:
            yield frame


# --- codec ------------------------------------------------------------------------------------------------------------


def _decoded_stream(recipe: VideoRecipe, source: Source, only: Collection[int] | None, tick: Tick) -> Iterator[Frame]:
    whole = source.whole
    name = digest([recipe.text, whole.sha256, whole.clip.start_s, whole.clip.end_s])
    with scratch_file(whole, name, lambda path: encode_stream(recipe, whole, path, tick)) as path:
        if source.cut is None:
            yield from ticking(decoding.decode(Clip(path), only=only), tick)
            return
        places = range(source.num_frames) if only is None else sorted(only)
        times = times_of(whole)
        stream = replace(whole, clip=Clip(path), sha256=name)
        for frame in frames_at(stream, [source.first + place for place in places], tick):
            seconds = times[frame.position] - times[source.first]
            yield Frame(frame.image, round(seconds / source.timing.time_base), frame.position - source.first)


def check_tools(recipe: VideoRecipe) -> None:
    """Raise `ToolError` when a recipe needs ffmpeg, and it is missing or lacks the encoder."""
    if method(recipe) == "codec":
        program.check_ffmpeg(registry.resolve(recipe.entry.kernel)(**recipe.params)["vcodec"])


def encode_stream(recipe: VideoRecipe, source: Source, path: Path, tick: Tick) -> None:
    """Write the stream of a codec recipe: the encoder's own output, which is never decoded and encoded again."""
    arguments = registry.resolve(recipe.entry.kernel)(**recipe.params)
    arguments["pix_fmt"] = pixels.storable_pix_fmt(arguments["pix_fmt"], source.width, source.height)
    # 4:2:0 is encoded from the source's own planes, and 4:4:4 from RGB frames.
    fed = "yuv420p" if arguments["pix_fmt"] == "yuv420p" else "rgb24"
    if arguments.get("fps_mode") == "cfr" and (index := probing.transcodable(source.clip)) is not None:
        rate = source.timing.frame_rate
        if program.transcode_with_ffmpeg(source.clip.path, index, path, rate, arguments, tick) == source.num_frames:
            return
    frames = ticking(decoding.decode(source.clip, pix_fmt=fed), tick)
    clock = source.timing
    if probing.is_constant_rate(source.clip.path) or arguments.get("fps_mode") == "cfr":
        # Frames are counted instead of ticks: the container's time base must not influence the rate control.
        clock = even(clock)
        frames = (frame._replace(pts=frame.position) for frame in frames)
    program.encode_with_ffmpeg(frames, path, clock, source.size, fed, arguments)


def method(recipe: VideoRecipe) -> str:
    """ "pixel", "temporal" or "codec"."""
    return recipe.entry.method
