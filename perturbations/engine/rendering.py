"""A recipe's frames: decode, draw, kernel. Nothing here writes a result."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from perturbations import rng
from perturbations.analysis import motion
from perturbations.engine import guidance
from perturbations.errors import MediaError
from perturbations.manifest.kinds import CompleteSource, VideoRow
from perturbations.media import decoding, encoding, pixels, probing, program
from perturbations.media.clip import SAME_TIME_S, Clip, Frame, Image, Timing
from perturbations.plan.facts import Cut, Facts, parse_cut, parse_facts
from perturbations.plan.recipe import VideoRecipe, digest, parse
from perturbations.progress import Tick, no_tick, ticking
from perturbations.suites import registry
from perturbations.system import limits, storage

Apply = Callable[[Image, int], Image]

cv2.setNumThreads(1)  # jobs fill the cores; a kernel's threads would only get in their way


@dataclass(frozen=True)
class Source:
    """A clean clip whose every frame is known to decode, whose it is, and what guided kernels are told of it.

    `dataset` and `item_id` are a part of the draw's key. `facts` are those of `engine.guidance`; `motion` is the clip's
    motion analysis, where there is one: without it the flow is computed once more. With a `cut`, the clip is
    that part of a video that was perturbed whole. `scratch` is a folder for what clips of one video share.
    """

    dataset: str
    item_id: str
    clip: Clip
    sha256: str
    num_frames: int
    width: int
    height: int
    timing: Timing
    facts: Facts | None = None
    motion: Path | None = None
    cut: Cut | None = None
    scratch: Path | None = None

    @property
    def whole(self) -> Source:
        """The video that is perturbed: the clip itself, or what it is cut from."""
        if self.cut is None:
            return self
        clip = Clip(self.clip.path)
        return replace(self, item_id=self.cut.video_id, clip=clip, num_frames=self.cut.num_frames, cut=None)

    @property
    def first(self) -> int:
        """The position of the clip's first frame in what is perturbed."""
        return 0 if self.cut is None else self.cut.first

    @property
    def size(self) -> tuple[int, int]:
        """(width, height), as codecs say it."""
        return self.width, self.height

    @property
    def fps(self) -> float:
        """Frames a second."""
        return float(self.timing.frame_rate)


def applier(
    recipe: VideoRecipe, dataset: str, item_id: str, num_frames: int, height: int, width: int, guide: Any = None
) -> Apply:
    """The function (frame, index) -> frame of a pixel recipe on one clip, its randomness drawn.

    Frames are RGB uint8 height x width x 3. With `draw: clip` all frames share a realization.
    """
    kernel = registry.resolve(recipe.entry.kernel)
    told = (guide,) if recipe.guide is not None else ()

    def bind(frame: int | None) -> Apply:
        realization = _realization(recipe, dataset, item_id, num_frames, height, width, frame)
        apply: Apply = kernel(realization, *told, num_frames, height, width, **recipe.params)
        return apply

    if recipe.draw == "frame":
        return lambda image, index: bind(index)(image, index)
    return bind(None)


def _realization(
    recipe: VideoRecipe, dataset: str, item_id: str, num_frames: int, height: int, width: int, frame: int | None = None
) -> Any:
    entry = recipe.entry
    if entry.realization is None:
        return None
    generator = rng.generator(recipe.seed, dataset, item_id, entry.key, frame)
    return registry.resolve(entry.realization)(generator, num_frames, height, width)


def plan(recipe: VideoRecipe, dataset: str, item_id: str, num_frames: int, guide: Any = None) -> list[int]:
    """Which frame stands where under a temporal recipe: i is the clip's frame i, ~i the donor's."""
    kernel = registry.resolve(recipe.entry.kernel)
    told = (guide,) if recipe.guide is not None else ()
    realization = _realization(recipe, dataset, item_id, num_frames, 0, 0)
    positions: list[int] = kernel(realization, *told, num_frames, **recipe.params).tolist()
    return positions


def _plan_of(recipe: VideoRecipe, source: Source) -> list[int]:
    guide = guidance.guide_of(recipe, source) if recipe.guide is not None else None
    whole = source.whole
    positions = plan(recipe, whole.dataset, whole.item_id, whole.num_frames, guide)
    return positions if source.cut is None else positions[source.first : source.first + source.num_frames]


def length(recipe: VideoRecipe, source: Source) -> int:
    """How many frames the perturbed clip has."""
    return len(_plan_of(recipe, source)) if method(recipe) == "temporal" else source.num_frames


def timing(recipe: VideoRecipe, source: Source) -> Timing:
    """The clock of the perturbed clip."""
    return _even(source.timing) if method(recipe) == "temporal" else source.timing


def _even(clock: Timing) -> Timing:
    return Timing(1 / clock.frame_rate, clock.frame_rate)


def render(
    recipe: VideoRecipe,
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
        yield from _decoded_stream(recipe, source, only, tick)
    elif method(recipe) == "temporal":
        yield from _arranged(recipe, source, only, tick)
    else:
        for frame, image in _changed(recipe, source, only, tick):
            if seen is not None:
                seen(frame, image)
            yield frame._replace(image=image)


def _changed(
    recipe: VideoRecipe, source: Source, only: Collection[int] | None, tick: Tick
) -> Iterator[tuple[Frame, Image]]:
    guide = guidance.guide_of(recipe, source) if recipe.guide is not None else None
    whole = source.whole
    apply = applier(recipe, whole.dataset, whole.item_id, whole.num_frames, source.height, source.width, guide)
    follower = guide if isinstance(guide, motion.Follower) else None
    frames = ticking(decoding.decode(source.clip, only=motion.needed(only) if follower else only), tick)
    if follower:
        frames = _shown(frames, follower, only)
    together = getattr(apply, "together", None)
    if together is None:
        for frame in frames:
            yield frame, apply(frame.image, source.first + frame.position)
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

# How many frames before the wanted one a decoder starts, at worst and about: the distance of a video's key frames.
_KEY_FRAMES = 125
_MOST_DECODED = 4
"""So many times the wanted frames may be decoded by going back and forth before a file with key frames only is made."""

_INTRA = storage.Profile("libx264rgb", "rgb24", {"preset": "ultrafast", "qp": "0", "g": "1"}, exact=True)


def _arranged(recipe: VideoRecipe, source: Source, only: Collection[int] | None, tick: Tick) -> Iterator[Frame]:
    """The frames that a plan names, in its order, in bounded memory."""
    planned = list(enumerate(_plan_of(recipe, source)))
    wanted = [(place, position) for place, position in planned if only is None or place in only]
    own = [position for _, position in wanted if position >= 0]
    whole = source.whole
    if len(own) < len(wanted) or _ascends(own):
        for run in _runs(wanted):
            yield from _played(run, recipe, whole, tick)
        return
    windows = list(_windows(wanted, source))
    if sum(_decoded(_own(window)) for window in windows) > max(whole.num_frames, _MOST_DECODED * len(set(own))):
        yield from _from_scratch(wanted, whole, tick)
        return
    for window in windows:
        held = {frame.position: frame.image for frame in _frames_at(whole, _own(window), tick)}
        for place, position in window:
            yield Frame(held[position].copy(), place, place)
        held.clear()  # before the next stretch is read


def _own(window: Iterable[tuple[int, int]]) -> list[int]:
    return sorted({position for _, position in window})


def _windows(wanted: Sequence[tuple[int, int]], source: Source) -> Iterator[list[tuple[int, int]]]:
    """Stretches of a plan whose distinct frames fit in memory."""
    most = max(1, _HELD_BYTES // (source.height * source.width * 3))
    window: list[tuple[int, int]] = []
    held: set[int] = set()
    for place, position in wanted:
        if len(held) == most and position not in held:
            yield window
            window, held = [], set()
        window.append((place, position))
        held.add(position)
    if window:
        yield window


def _stretches(positions: Sequence[int]) -> Iterator[list[int]]:
    """Cut ascending positions where it is shorter to go to a key frame than to decode on."""
    stretch: list[int] = []
    for position in positions:
        if stretch and position - stretch[-1] > 2 * _KEY_FRAMES:
            yield stretch
            stretch = []
        stretch.append(position)
    if stretch:
        yield stretch


def _decoded(positions: Sequence[int]) -> int:
    """About how many frames must be decoded for some of them."""
    return sum(stretch[-1] - stretch[0] + 1 + _KEY_FRAMES for stretch in _stretches(positions))


def _frames_at(source: Source, positions: Sequence[int], tick: Tick) -> Iterator[Frame]:
    """The clip's frames at ascending positions. Their times count from the first of each stretch."""
    if positions[0] <= _KEY_FRAMES and len(list(_stretches(positions))) == 1:
        yield from ticking(decoding.decode(source.clip, only=set(positions)), tick)
        return
    times = _times(source)
    for stretch in _stretches(positions):
        # Frames shown at one time cannot be told apart by it: start with the first of them.
        start = bisect_left(times, times[stretch[0]] - SAME_TIME_S)
        clip = Clip(source.clip.path, times[start] if start else source.clip.start_s, source.clip.end_s)
        only = {position - start for position in stretch}
        for frame in ticking(decoding.decode(clip, only=only), tick):
            yield frame._replace(position=start + frame.position)


def _times(source: Source) -> list[float]:
    """When each of the clip's frames is shown, in seconds of its file."""
    return _cached_times(source.clip, source.num_frames, source.sha256)


@lru_cache(maxsize=4)
def _cached_times(clip: Clip, num_frames: int, sha256: str) -> list[float]:
    return decoding.frame_times(clip, num_frames)


def _from_scratch(wanted: Sequence[tuple[int, int]], source: Source, tick: Tick) -> Iterator[Frame]:
    """The same by way of a lossless file whose frames can be read in any order."""

    def make(path: Path) -> None:
        frames = ticking(decoding.decode(source.clip), tick)
        encoding.encode((frame._replace(pts=frame.position) for frame in frames), path, _INTRA, _even(source.timing))

    with _scratch_file(source, digest([source.sha256, source.clip.start_s, source.clip.end_s]), make) as path:
        images = decoding.pick(path, [position for _, position in wanted])
        for (place, _), image in zip(wanted, images, strict=True):
            tick()
            yield Frame(image, place, place)


@contextmanager
def _scratch_file(source: Source, name: str, make: Callable[[Path], None]) -> Iterator[Path]:
    """A file that `make` writes; kept for the next clips of the video where the source has a scratch folder."""
    if source.scratch is None:
        with storage.scratch_directory() as folder:
            path = Path(folder) / f"{name}.mp4"
            make(path)
            yield path
        return
    path = source.scratch / f"{name}.mp4"
    if not path.exists():
        for stale in source.scratch.iterdir():
            stale.unlink()
        with storage.atomic_path(path) as temporary:
            make(temporary)
    yield path


def _ascends(positions: Sequence[int]) -> bool:
    return all(one <= other for one, other in pairwise(positions))


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


def _played(run: Sequence[tuple[int, int]], recipe: VideoRecipe, source: Source, tick: Tick) -> Iterator[Frame]:
    from_donor = run[0][1] < 0
    positions = [~position if from_donor else position for _, position in run]
    if from_donor:
        frames = ticking(decoding.decode(guidance.donor_clip(source.facts), only=set(positions)), tick)
    else:
        frames = _frames_at(source, sorted(set(positions)), tick)
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


def _decoded_stream(recipe: VideoRecipe, source: Source, only: Collection[int] | None, tick: Tick) -> Iterator[Frame]:
    whole = source.whole
    name = digest([recipe.text, whole.sha256, whole.clip.start_s, whole.clip.end_s])
    with _scratch_file(whole, name, lambda path: encode_stream(recipe, whole, path, tick)) as path:
        if source.cut is None:
            yield from ticking(decoding.decode(Clip(path), only=only), tick)
            return
        places = range(source.num_frames) if only is None else sorted(only)
        times = _times(whole)
        stream = replace(whole, clip=Clip(path), sha256=name)
        for frame in _frames_at(stream, [source.first + place for place in places], tick):
            seconds = times[frame.position] - times[source.first]
            yield Frame(frame.image, round(seconds / source.timing.time_base), frame.position - source.first)


def check_tools(recipe: VideoRecipe) -> None:
    """Raise `ToolError` when a recipe needs an ffmpeg that is not there or lacks its encoder."""
    if method(recipe) == "codec":
        program.check_ffmpeg(registry.resolve(recipe.entry.kernel)(**recipe.params)["vcodec"])


def encode_stream(recipe: VideoRecipe, source: Source, path: Path, tick: Tick) -> None:
    """Write the stream of a codec recipe: the encoder's own output, never decoded and encoded again."""
    arguments = registry.resolve(recipe.entry.kernel)(**recipe.params)
    arguments["pix_fmt"] = pixels.storable_pix_fmt(arguments["pix_fmt"], source.width, source.height)
    # 4:2:0 is encoded from the source's own planes, 4:4:4 from RGB frames.
    fed = "yuv420p" if arguments["pix_fmt"] == "yuv420p" else "rgb24"
    if arguments.get("fps_mode") == "cfr" and (index := probing.transcodable(source.clip)) is not None:
        rate = source.timing.frame_rate
        if program.transcode_with_ffmpeg(source.clip.path, index, path, rate, arguments, tick) == source.num_frames:
            return
    frames = ticking(decoding.decode(source.clip, pix_fmt=fed), tick)
    clock = source.timing
    if probing.is_constant_rate(source.clip.path) or arguments.get("fps_mode") == "cfr":
        # Count frames instead of ticks: the container's clock must not change what the rate control does.
        clock = _even(clock)
        frames = (frame._replace(pts=frame.position) for frame in frames)
    program.encode_with_ffmpeg(frames, path, clock, source.size, fed, arguments)


def source_of(row: CompleteSource | VideoRow) -> Source:
    """The clip behind a complete row of a `sources` manifest, or behind a row of a `videos` manifest.

    Raises `MediaError` when the file is no longer the one that the row describes, and `ManifestError` when the row
    does not say what its recipe needs.
    """
    if isinstance(row, VideoRow):
        path, sha256, num_frames = Path(row.source_path), row.source_sha256, row.source_frame_count
        facts, cut = parse_facts(parse(row.recipe), row.guide), parse_cut(row.cut)
    else:
        path, sha256, num_frames = Path(row.path), row.sha256, row.frame_count
        facts = cut = None
    if probing.sha256(path) != sha256:
        raise MediaError(f"{path} is not the file that the manifest describes: its content changed")
    info = probing.probe(path)
    # A row may come from a stranger, and what kernels draw is as large as it says.
    if (info.width, info.height) != (row.width, row.height):
        raise MediaError(f"{path} has {info.width}x{info.height} pixels, the row says {row.width}x{row.height}")
    most = max(num_frames, cut.num_frames if cut else 0)
    limits.check_frames(most)
    if info.declared_frames is not None and most > 2 * info.declared_frames + 100:  # containers may be a few off
        raise MediaError(f"{path} has {info.declared_frames} frames, the row says {most}")
    return Source(
        dataset=row.dataset,
        item_id=row.item_id,
        clip=Clip(path, row.start_s, row.end_s),
        sha256=sha256,
        num_frames=num_frames,
        width=row.width,
        height=row.height,
        timing=Timing(info.time_base, info.frame_rate.limit_denominator(1001)),
        facts=facts,
        cut=cut,
    )


def cut_of(source: CompleteSource, video: Source) -> Cut:
    """Where a clip stands in its video.

    Raises `MediaError` when the clip's frames are not found there.
    """
    times = _times(video)
    if len(times) != video.num_frames:
        raise MediaError(f"{len(times)} frames have a time where {video.num_frames} decode")
    start = 0 if source.start_s is None else bisect_left(times, source.start_s - SAME_TIME_S)
    end = len(times) if source.end_s is None else bisect_left(times, source.end_s - SAME_TIME_S)
    if end - start != source.frame_count:
        raise MediaError(f"the video has {end - start} frames in the clip's span, the clip has {source.frame_count}")
    return Cut(video_id=video.item_id, first=start, num_frames=video.num_frames)


def method(recipe: VideoRecipe) -> str:
    """ "pixel", "temporal" or "codec"."""
    return recipe.entry.method
