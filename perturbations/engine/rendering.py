"""The frames of a recipe: decode, draw, apply the kernel. Nothing here writes a result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path

import cv2
import numpy as np

from perturbations.base import rng
from perturbations.base.arrays import SAMPLED, Image
from perturbations.base.errors import MediaError
from perturbations.base.progress import Tick, no_tick, ticking
from perturbations.base.records import digest
from perturbations.base.storage import output_errors
from perturbations.engine import guided
from perturbations.engine.frame_orders import arranged, frames_at
from perturbations.engine.source import Source, even, scratch_file
from perturbations.guides.registry import Watching
from perturbations.media import decoding, pixels, probing, program, received
from perturbations.media.clip import Frame, MediaClip, Timing
from perturbations.media.footage import times_of
from perturbations.plan.recipe import StoredFrames, Unstored, VideoRecipe, altered
from perturbations.suites import registry
from perturbations.video.kernel import Batched, FrameFunction, Shape

cv2.setNumThreads(1)  # the jobs already use all cores; threads within a kernel would only slow them down


def applier(
    recipe: VideoRecipe, dataset: str, item_id: str, num_frames: int, height: int, width: int, guide: object = None
) -> FrameFunction:
    """The kernel of a pixel recipe, bound to one clip: its realization is drawn.

    Frames are RGB uint8 height x width x 3. With `draw: clip` all frames share a realization.
    """
    kernel = registry.resolve(recipe.entry.kernel)
    guide_argument = (guide,) if recipe.guide is not None else ()

    def bind(frame: int | None) -> FrameFunction:
        realization = _realization(recipe, dataset, item_id, num_frames, height, width, frame)
        bound: FrameFunction = kernel(realization, *guide_argument, num_frames, height, width, **recipe.params)
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
    """The frame at each place under a temporal recipe: i is frame i of the clip, ~i is frame i of the donor.

    Where the recipe stores as many frames as the authors' models read, these frames are the plan.
    """
    kernel = registry.resolve(_read_by_models(recipe) or recipe.entry.kernel)
    guide_argument = (guide,) if recipe.guide is not None else ()
    realization = _realization(recipe, dataset, item_id, num_frames, 0, 0)
    positions: list[int] = kernel(realization, *guide_argument, num_frames, **recipe.params).tolist()
    return positions


def _read_by_models(recipe: VideoRecipe) -> str | None:
    """The function that gives the stored frames, if the authors' models do not sample the perturbed clip uniformly."""
    stored = recipe.storage
    sampled = isinstance(stored, StoredFrames) and stored.num_frames == SAMPLED and not recipe.whole_videos
    return recipe.entry.sampled if sampled else None


def _plan_of(recipe: VideoRecipe, source: Source) -> list[int]:
    whole = source.whole
    positions = plan(recipe, whole.dataset, whole.item_id, whole.num_frames, _guide_of(recipe, source))
    return positions if source.cut is None else positions[source.first : source.first + source.num_frames]


def reshaped(recipe: VideoRecipe, dataset: str, item_id: str, num_frames: int, height: int, width: int) -> Shape:
    """The size of the frames of a perturbed clip, and which of its frames are not lost.

    Raises `MediaError` where none is left.
    """
    if recipe.entry.shape is None:
        return Shape(height, width)
    frames = range(num_frames) if recipe.draw == "frame" else (None,)
    realizations = [_realization(recipe, dataset, item_id, num_frames, height, width, frame) for frame in frames]
    shape: Shape = registry.resolve(recipe.entry.shape)(realizations, num_frames, height, width, **recipe.params)
    if shape.kept is not None:
        check_length(recipe, len(shape.kept))
    return shape


def check_length(recipe: VideoRecipe, num_frames: int) -> None:
    """Raise `MediaError` where a perturbed clip has no frame."""
    if not num_frames:
        raise MediaError(f"{recipe.key} at severity {recipe.severity} leaves no frame of this clip")


def shape_of(recipe: VideoRecipe, source: Source) -> Shape:
    """The shape of a perturbed clip, whose `kept` are positions in the video that is perturbed. Raises `MediaError`."""
    whole = source.whole
    shape = reshaped(recipe, whole.dataset, whole.item_id, whole.num_frames, source.height, source.width)
    if source.cut is None or shape.kept is None:
        return shape
    # The video is cut after it was perturbed, so what it lost moves all that follows.
    kept = shape.kept[source.first : source.first + source.num_frames]
    check_length(recipe, len(kept))
    return replace(shape, kept=kept)


def length(recipe: VideoRecipe, source: Source) -> int:
    """How many frames are rendered: the perturbed clip's, or those that models read. Raises `MediaError` for none."""
    if method(recipe) == "temporal":
        num_frames = len(_plan_of(recipe, source))
        check_length(recipe, num_frames)
        return num_frames
    kept = shape_of(recipe, source).kept
    return source.num_frames if kept is None else len(kept)


def full_length(recipe: VideoRecipe, source: Source) -> int:
    """How many frames the perturbed clip has, whatever is stored of it. Raises `MediaError` where it has none."""
    return length(altered(recipe, storage=Unstored()) if _read_by_models(recipe) else recipe, source)


def timing(recipe: VideoRecipe, source: Source) -> Timing:
    """The time base and frame rate of the perturbed clip."""
    return source.timing if is_aligned(recipe, source) else even(source.timing)


def is_aligned(recipe: VideoRecipe, source: Source) -> bool:
    """Whether each frame of the perturbed clip is shown when its clean frame is."""
    return (method(recipe) != "temporal" or _keeps_clock(recipe)) and shape_of(recipe, source).kept is None


def _keeps_clock(recipe: VideoRecipe) -> bool:
    """Whether a temporal recipe knows the clip's times, and so changes none of them."""
    return recipe.guide is not None and recipe.guide.kind == "clock"


def render(
    recipe: VideoRecipe,
    source: Source,
    *,
    only: Collection[int] | None = None,
    tick: Tick = no_tick,
    seen: Callable[[Frame, Image], None] | None = None,
) -> Iterator[Frame]:
    """The perturbed frames of a clip; with `only`, those at these positions.

    `seen` is called with each clean frame and its perturbed image (pixel recipes that lose no frame only).
    Raises `MediaError` when the clip cannot be decoded.
    """
    if method(recipe) == "codec":
        yield from _decoded_stream(recipe, source, only, tick)
    elif method(recipe) == "temporal":
        frames = arranged(
            _plan_of(recipe, source),
            source,
            lambda: guided.other_clip(recipe, source.facts),
            only,
            tick,
            antialiased=recipe.antialiases_donors,
        )
        yield from _at_clean_times(frames, source) if _keeps_clock(recipe) else frames
    elif (kept := shape_of(recipe, source).kept) is not None:
        yield from _kept(recipe, source, kept, only, tick)
    else:
        kernel, guide = _kernel_of(recipe, source)
        for frame, image in changed(kernel, guide, source.frames, first=source.first, only=only, tick=tick):
            if seen is not None:
                seen(frame, image)
            yield frame._replace(image=image)


def changed(
    kernel: FrameFunction,
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


def _kept(
    recipe: VideoRecipe, source: Source, kept: Sequence[int], only: Collection[int] | None, tick: Tick
) -> Iterator[Frame]:
    """The perturbed frames at the positions `kept` of the whole video, one after the other."""
    kernel, guide = _kernel_of(recipe, source)
    assert not isinstance(kernel, Batched), f"{recipe.key} changes batches, and may not lose frames"
    assert not isinstance(guide, Watching), f"the guide of {recipe.key} sees every frame, so none may be lost"
    places = [place for place in range(len(kept)) if only is None or place in only]
    frames = frames_at(source.whole, [kept[place] for place in places], tick)
    for place, frame in zip(places, frames, strict=True):
        yield Frame(kernel(frame.image, frame.position), place, place)


def _kernel_of(recipe: VideoRecipe, source: Source) -> tuple[FrameFunction, object]:
    """The kernel of a pixel recipe, bound to a clip, and the guide that it received."""
    guide, whole = _guide_of(recipe, source), source.whole
    size = whole.num_frames, source.height, source.width
    return applier(recipe, whole.dataset, whole.item_id, *size, guide), guide


def _guide_of(recipe: VideoRecipe, source: Source) -> object:
    """What the kernel takes; None where the recipe is not guided."""
    return guided.guide_of(recipe, source.facts, source, source.kept)


def _shown(frames: Iterable[Frame], watching: Watching, only: Collection[int] | None) -> Iterator[Frame]:
    for frame in frames:
        watching.show(frame.image, frame.position)
        if only is None or frame.position in only:
            yield frame


# --- codec ------------------------------------------------------------------------------------------------------------


def _at_clean_times(frames: Iterable[Frame], source: Source) -> Iterator[Frame]:
    """Frames whose `position` is a place in the whole video, at the times of the clean frames of the clip."""
    times = times_of(source.whole)
    for frame in frames:
        seconds = times[source.first + frame.position] - times[source.first]
        yield frame._replace(pts=round(seconds / source.timing.time_base))


def _decoded_stream(recipe: VideoRecipe, source: Source, only: Collection[int] | None, tick: Tick) -> Iterator[Frame]:
    whole = source.whole
    if (damage := _encoding(recipe).get("bsf")) is not None:
        yield from _at_clean_times(_received(source.clip.path, source, only, tick, damage=str(damage)), source)
        return
    name = digest([recipe.text, whole.sha256, whole.clip.start_s, whole.clip.end_s])
    with scratch_file(whole, name, lambda path: encode_stream(recipe, whole, path, tick)) as path:
        if recipe.entry.damage is not None:
            yield from _at_clean_times(_received(path, source, only, tick), source)
            return
        if source.cut is None:
            frames = ticking(decoding.decode(MediaClip(path), only=only), tick)
            yield from _in_ticks(frames, probing.probe(path).time_base, source.timing.time_base)
            return
        places = range(source.num_frames) if only is None else sorted(only)
        stream = replace(whole, clip=MediaClip(path), sha256=name)
        frames = frames_at(stream, [source.first + place for place in places], tick)
        yield from _at_clean_times((frame._replace(position=frame.position - source.first) for frame in frames), source)


def _in_ticks(frames: Iterable[Frame], from_base: Fraction, to_base: Fraction) -> Iterator[Frame]:
    """Frames at the same times on another clock, of which no two may be at one tick."""
    previous = -1
    for frame in frames:
        previous = max(previous + 1, round(frame.pts * from_base / to_base))
        yield frame._replace(pts=previous)


def _received(
    path: Path, source: Source, only: Collection[int] | None, tick: Tick, *, damage: str | None = None
) -> Iterator[Frame]:
    """What a player shows of a damaged stream; of the source's own, to which `damage` is done while it is read."""
    whole = source.whole
    places = range(source.num_frames) if only is None else only
    wanted = {source.first + place for place in places}
    if damage is None:
        shown = received.shown(path, whole.num_frames, whole.timing.frame_rate, only=wanted)
    else:
        shown = received.shown_of_source(path, times_of(whole), damage, only=wanted)
    for frame in ticking(shown, tick):
        yield frame._replace(position=frame.position - source.first)


def _encoding(recipe: VideoRecipe) -> dict[str, str | int | Fraction]:
    """The encoder's arguments, as the kernel of a codec recipe gives them."""
    arguments: dict[str, str | int | Fraction] = registry.resolve(recipe.entry.kernel)(**recipe.params)
    return arguments


def needs_file(recipe: VideoRecipe) -> bool:
    """Whether the source's file counts, and not its frames alone: its bitrate, or its own stream."""
    return method(recipe) == "codec" and (
        "bsf" in _encoding(recipe) or any(isinstance(value, Fraction) for value in _encoding(recipe).values())
    )


def is_stream(recipe: VideoRecipe) -> bool:
    """Whether the encoder's stream itself is the perturbed video."""
    return method(recipe) == "codec" and recipe.entry.damage is None and "bsf" not in _encoding(recipe)


def check_tools(recipe: VideoRecipe) -> None:
    """Raise `ToolError` when a recipe needs ffmpeg, and it is missing or lacks the encoder."""
    if method(recipe) == "codec" and "bsf" not in _encoding(recipe):
        program.check_ffmpeg(str(_encoding(recipe)["vcodec"]))


def encode_stream(recipe: VideoRecipe, source: Source, path: Path, tick: Tick) -> None:
    """Write the stream of a codec recipe: the encoder's own output, damaged if the recipe says so.

    Whatever the file holds, the encoder gets the frames that decoding gives: so an array, or another file of the same
    frames, has the same result, but where bitrates are shares of the file's.
    """
    arguments = {name: _of_file(value, source.clip.path) for name, value in _encoding(recipe).items()}
    arguments["pix_fmt"] = pixels.storable_pix_fmt(str(arguments["pix_fmt"]), source.width, source.height)
    info = probing.probe(source.clip.path)
    arguments |= pixels.tagged_bt601(info.primaries, info.transfer)
    frames = ticking(decoding.decode(source.clip), tick)
    fed = "rgb24"
    if arguments["pix_fmt"] == "yuv420p":
        fed, to_planes = "yuv420p", pixels.to_planes()
        frames = (frame._replace(image=to_planes(frame.image)) for frame in frames)
    clock = source.timing
    if probing.is_constant_rate(source.clip.path) or arguments.get("fps_mode") == "cfr":
        # Frames are counted instead of ticks: the container's time base must not influence the rate control.
        clock = even(clock)
        frames = (frame._replace(pts=frame.position) for frame in frames)
    aspect = source.sample_aspect
    program.encode_with_ffmpeg(frames, path, clock, source.size, fed, arguments, sample_aspect=aspect)
    if recipe.entry.damage is not None:
        size = source.num_frames, source.height, source.width
        realization = _realization(recipe, source.dataset, source.item_id, *size)
        damaged = registry.resolve(recipe.entry.damage)(realization, path.read_bytes(), **recipe.params)
        with output_errors(path):
            path.write_bytes(damaged)


_LEAST_BITRATE = 1_000
"""Bits per second: x264 counts in thousands."""


def _of_file(value: str | int | Fraction, path: Path) -> str | int:
    """An encoder's argument; of a share, the bitrate that is this share of the file's."""
    if not isinstance(value, Fraction):
        return value
    return max(_LEAST_BITRATE, int(value * probing.file_bitrate(path)))


def method(recipe: VideoRecipe) -> str:
    """ "pixel", "temporal" or "codec"."""
    return recipe.entry.method
