"""A recipe's frames: decode, draw, kernel. Nothing here writes a result."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from perturbations import guidance, media, registry, rng, storage
from perturbations.analysis import motion
from perturbations.errors import MediaError
from perturbations.media import Frame, Image
from perturbations.progress import Tick, no_tick, ticking
from perturbations.recipe import Recipe

Row = dict[str, Any]
Apply = Callable[[Image, int], Image]

cv2.setNumThreads(1)  # jobs fill the cores; a kernel's threads would only get in their way


@dataclass(frozen=True)
class Source:
    """A clean clip whose every frame is known to decode, whose it is, and what guided kernels are told of it.

    `dataset` and `item_id` are a part of the draw's key. `facts` are those of `perturbations.guidance`; `motion` is the
    clip's motion analysis, where there is one: without it the flow is computed once more.
    """

    dataset: str
    item_id: str
    clip: media.Clip
    sha256: str
    num_frames: int
    width: int
    height: int
    timing: media.Timing
    facts: Row = field(default_factory=dict)
    motion: Path | None = None

    @property
    def size(self) -> tuple[int, int]:
        """(width, height), as codecs say it."""
        return self.width, self.height

    @property
    def fps(self) -> float:
        """Frames a second."""
        return float(self.timing.frame_rate)


def applier(
    recipe: Recipe, dataset: str, item_id: str, num_frames: int, height: int, width: int, guide: Any = None
) -> Apply:
    """The function (frame, index) -> frame of a pixel recipe on one clip, its randomness drawn.

    Frames are RGB uint8 height x width x 3. With `draw: clip` all frames share a realization.
    """
    kernel = registry.resolve(recipe["kernel"])
    told = (guide,) if "guide" in recipe else ()

    def bind(frame: int | None) -> Apply:
        realization = _realization(recipe, dataset, item_id, num_frames, height, width, frame)
        apply: Apply = kernel(realization, *told, num_frames, height, width, **recipe["params"])
        return apply

    if recipe["draw"] == "frame":
        return lambda image, index: bind(index)(image, index)
    return bind(None)


def _realization(
    recipe: Recipe, dataset: str, item_id: str, num_frames: int, height: int, width: int, frame: int | None = None
) -> Any:
    entry = registry.get(f"{recipe['suite']}/{recipe['perturbation']}")
    if entry.realization is None:
        return None
    generator = rng.generator(recipe["seed"], dataset, item_id, entry.key, frame)
    return registry.resolve(entry.realization)(generator, num_frames, height, width)


def plan(recipe: Recipe, dataset: str, item_id: str, num_frames: int, guide: Any = None) -> list[int]:
    """Which frame stands where under a temporal recipe: i is the clip's frame i, ~i the donor's."""
    kernel = registry.resolve(recipe["kernel"])
    told = (guide,) if "guide" in recipe else ()
    realization = _realization(recipe, dataset, item_id, num_frames, 0, 0)
    positions: list[int] = kernel(realization, *told, num_frames, **recipe["params"]).tolist()
    return positions


def _plan_of(recipe: Recipe, source: Source) -> list[int]:
    guide = guidance.guide_of(recipe, source) if "guide" in recipe else None
    return plan(recipe, source.dataset, source.item_id, source.num_frames, guide)


def length(recipe: Recipe, source: Source) -> int:
    """How many frames the perturbed clip has."""
    return len(_plan_of(recipe, source)) if method(recipe) == "temporal" else source.num_frames


def timing(recipe: Recipe, source: Source) -> media.Timing:
    """The clock of the perturbed clip."""
    return _even(source.timing) if method(recipe) == "temporal" else source.timing


def _even(clock: media.Timing) -> media.Timing:
    return media.Timing(1 / clock.frame_rate, clock.frame_rate)


def render(
    recipe: Recipe,
    source: Source,
    *,
    only: Collection[int] | None = None,
    tick: Tick = no_tick,
    seen: Callable[[Frame, Image], None] | None = None,
) -> Iterator[Frame]:
    """The perturbed frames of a clip; `only` gives those at these positions.

    `seen` is called with each clean frame and what became of it (pixel recipes only).
    Raises `MediaError` when the clip cannot be decoded.
    """
    if method(recipe) == "codec":
        with storage.scratch_directory() as folder:
            path = Path(folder) / "clip.mp4"
            encode_stream(recipe, source, path, tick)
            yield from ticking(media.decode(media.Clip(path), only=only), tick)
    elif method(recipe) == "temporal":
        yield from _arranged(recipe, source, only, tick)
    else:
        for frame, image in _changed(recipe, source, only, tick):
            if seen is not None:
                seen(frame, image)
            yield frame._replace(image=image)


def _changed(recipe: Recipe, source: Source, only: Collection[int] | None, tick: Tick) -> Iterator[tuple[Frame, Image]]:
    guide = guidance.guide_of(recipe, source) if "guide" in recipe else None
    apply = applier(recipe, source.dataset, source.item_id, source.num_frames, source.height, source.width, guide)
    follower = guide if isinstance(guide, motion.Follower) else None
    frames = ticking(media.decode(source.clip, only=motion.needed(only) if follower else only), tick)
    if follower:
        frames = _shown(frames, follower, only)
    together = getattr(apply, "together", None)
    if together is None:
        for frame in frames:
            yield frame, apply(frame.image, frame.position)
        return
    frames = iter(frames)
    while group := list(islice(frames, apply.batch_size)):  # type: ignore[attr-defined]
        yield from zip(group, together(np.stack([frame.image for frame in group])), strict=True)


def _shown(frames: Iterable[Frame], follower: motion.Follower, only: Collection[int] | None) -> Iterator[Frame]:
    for frame in frames:
        follower.show(frame.image, frame.position)
        if only is None or frame.position in only:
            yield frame


# --- temporal --------------------------------------------------------------------------------------------------------

_HELD_BYTES = 256 * 2**20


def _arranged(recipe: Recipe, source: Source, only: Collection[int] | None, tick: Tick) -> Iterator[Frame]:
    """The frames that a plan names, in its order."""
    planned = list(enumerate(_plan_of(recipe, source)))
    wanted = [(place, position) for place, position in planned if only is None or place in only]
    own = {position for _, position in wanted if position >= 0}
    size = source.height * source.width * 3
    if len(own) * size <= _HELD_BYTES and not _ascends([position for _, position in wanted if position >= 0]):
        held = {frame.position: frame.image for frame in ticking(media.decode(source.clip, only=own), tick)}
        for place, position in wanted:
            yield Frame(held[position].copy(), place, place)
        return
    for run in _runs(wanted):
        yield from _played(run, recipe, source, tick)


def _ascends(positions: Sequence[int]) -> bool:
    return all(one < other for one, other in pairwise(positions))


def _runs(wanted: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Cut (place, position) pairs into stretches that one pass over one clip gives in order."""
    run: list[tuple[int, int]] = []
    for place, position in wanted:
        last = run[-1][1] if run else position
        same_clip = (last >= 0) == (position >= 0)
        # The donor's positions are complements, so that they fall while its frames go on.
        forward = position >= last if position >= 0 else position <= last
        if run and not (same_clip and forward):
            yield run
            run = []
        run.append((place, position))
    if run:
        yield run


def _played(run: Sequence[tuple[int, int]], recipe: Recipe, source: Source, tick: Tick) -> Iterator[Frame]:
    from_donor = run[0][1] < 0
    positions = [~position if from_donor else position for _, position in run]
    clip = guidance.donor_clip(source.facts) if from_donor else source.clip
    frames = ticking(media.decode(clip, only=set(positions)), tick)
    current = next(frames)
    for (place, _), position in zip(run, positions, strict=True):
        while current.position < position:
            current = next(frames)
        image = fitted(current.image, source.size) if from_donor else current.image.copy()
        yield Frame(image, place, place)


def fitted(image: Image, size: tuple[int, int]) -> Image:
    """A donor's frame at the (width, height) of the clip."""
    height, width = image.shape[:2]
    if (width, height) == size:
        return image.copy()
    smaller = size[0] < width or size[1] < height
    resized = cv2.resize(image, size, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)
    return np.asarray(resized, np.uint8)


# --- codec -----------------------------------------------------------------------------------------------------------


def encode_stream(recipe: Recipe, source: Source, path: Path, tick: Tick) -> None:
    """Write the stream of a codec recipe: the encoder's own output, never decoded and encoded again."""
    arguments = registry.resolve(recipe["kernel"])(**recipe["params"])
    arguments["pix_fmt"] = media.storable_pix_fmt(arguments["pix_fmt"], source.width, source.height)
    # 4:2:0 is encoded from the source's own planes, 4:4:4 from RGB frames.
    fed = "yuv420p" if arguments["pix_fmt"] == "yuv420p" else "rgb24"
    frames = ticking(media.decode(source.clip, pix_fmt=fed), tick)
    clock = source.timing
    if media.is_constant_rate(source.clip.path) or arguments.get("fps_mode") == "cfr":
        # Count frames instead of ticks: the container's clock must not change what the rate control does.
        clock = _even(clock)
        frames = (frame._replace(pts=frame.position) for frame in frames)
    media.encode_with_ffmpeg(frames, path, clock, source.size, fed, arguments)


def clip_of(row: Row, path: Path) -> media.Clip:
    """The span of a video that a row is about."""
    return media.Clip(path, row["start_s"], row["end_s"])


def source_of(row: Row, *, root: Path = Path()) -> Source:
    """The clip behind a row of a `sources` manifest, or behind a row of a `videos` manifest.

    Raises `MediaError` when the file is no longer the one that the row describes.
    """
    in_videos = "source_path" in row
    path = root / row["source_path" if in_videos else "path"]
    expected = row["source_sha256" if in_videos else "sha256"]
    info = media.probe(path)
    if storage.sha256(path) != expected:
        raise MediaError(f"{path} is not the file that the manifest describes: its content changed")
    return Source(
        dataset=row["dataset"],
        item_id=row["item_id"],
        clip=clip_of(row, path),
        sha256=expected,
        num_frames=row["source_frame_count" if in_videos else "frame_count"],
        width=row["width"],
        height=row["height"],
        timing=media.Timing(info.time_base, info.frame_rate.limit_denominator(1001)),
        facts=json.loads(row.get("guide") or "{}"),
    )


def method(recipe: Recipe) -> str:
    """ "pixel", "temporal" or "codec"."""
    return registry.get(f"{recipe['suite']}/{recipe['perturbation']}").method
