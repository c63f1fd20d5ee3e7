"""A recipe's frames: decode, draw, kernel. Nothing here writes a result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2

from perturbations import media, registry, rng, storage
from perturbations.errors import MediaError
from perturbations.media import Frame, Image
from perturbations.recipe import Recipe

Row = dict[str, Any]
Apply = Callable[[Image, int], Image]
Tick = Callable[[], None]

cv2.setNumThreads(1)  # jobs fill the cores; a kernel's threads would only get in their way


def no_tick() -> None:
    """For callers that nobody watches."""


@dataclass(frozen=True)
class Source:
    """A clean clip whose every frame is known to decode, and whose it is: the draw depends on it."""

    dataset: str
    item_id: str
    clip: media.Clip
    sha256: str
    num_frames: int
    width: int
    height: int
    timing: media.Timing

    @property
    def size(self) -> tuple[int, int]:
        """(width, height), as codecs say it."""
        return self.width, self.height


def applier(recipe: Recipe, dataset: str, item_id: str, num_frames: int, height: int, width: int) -> Apply:
    """The function (frame, index) -> frame of a pixel recipe on one clip, its randomness drawn.

    Frames are RGB uint8 height x width x 3. With `draw: clip` all frames share a realization.
    """
    kernel = registry.resolve(recipe["kernel"])
    entry = registry.get(f"{recipe['suite']}/{recipe['perturbation']}")
    draw = registry.resolve(entry.realization) if entry.realization is not None else None

    def bind(frame: int | None) -> Apply:
        generator = rng.generator(recipe["seed"], dataset, item_id, entry.key, frame)
        realization = None if draw is None else draw(generator, num_frames, height, width)
        apply: Apply = kernel(realization, num_frames, height, width, **recipe["params"])
        return apply

    if recipe["draw"] == "frame":
        return lambda image, index: bind(index)(image, index)
    return bind(None)


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
        return
    apply = applier(recipe, source.dataset, source.item_id, source.num_frames, source.height, source.width)
    for frame in ticking(media.decode(source.clip, only=only), tick):
        image = apply(frame.image, frame.position)
        if seen is not None:
            seen(frame, image)
        yield frame._replace(image=image)


def encode_stream(recipe: Recipe, source: Source, path: Path, tick: Tick) -> None:
    """Write the stream of a codec recipe: the encoder's own output, never decoded and encoded again."""
    arguments = registry.resolve(recipe["kernel"])(**recipe["params"])
    arguments["pix_fmt"] = media.storable_pix_fmt(arguments["pix_fmt"], source.width, source.height)
    # 4:2:0 is encoded from the source's own planes, 4:4:4 from RGB frames.
    fed = "yuv420p" if arguments["pix_fmt"] == "yuv420p" else "rgb24"
    frames = ticking(media.decode(source.clip, pix_fmt=fed), tick)
    timing = source.timing
    if media.is_constant_rate(source.clip.path) or arguments.get("fps_mode") == "cfr":
        # Count frames instead of ticks: the container's clock must not change what the rate control does.
        timing = media.Timing(1 / timing.frame_rate, timing.frame_rate)
        frames = (frame._replace(pts=frame.position) for frame in frames)
    media.encode_with_ffmpeg(frames, path, timing, source.size, fed, arguments)


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
        num_frames=row["frame_count"],
        width=row["width"],
        height=row["height"],
        timing=media.Timing(info.time_base, info.frame_rate.limit_denominator(1001)),
    )


def method(recipe: Recipe) -> str:
    """ "pixel" or "codec"."""
    return registry.get(f"{recipe['suite']}/{recipe['perturbation']}").method


def ticking(frames: Iterable[Frame], tick: Tick) -> Iterator[Frame]:
    """Pass frames on and tell the supervisor of each."""
    for frame in frames:
        tick()
        yield frame
