"""One clip through one recipe and into its storage tier: render, encode, measure, hash."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import numpy as np

from perturbations import framefile, media, quality, storage
from perturbations.errors import MediaError
from perturbations.media import Frame, Image
from perturbations.progress import Tick, no_tick, ticking
from perturbations.recipe import Recipe
from perturbations.rendering import Row, Source, encode_stream, length, method, render, timing

MEASURED_FRAMES = 12
"""PSNR and SSIM against the clean clip are taken over so many uniformly sampled frames."""

_KEPT_BYTES = 256 * 2**20

Seen = Callable[[Frame, Image], None]


def produce(recipe: Recipe, source: Source, target: Path, tick: Tick = no_tick, *, check: bool = True) -> Row:
    """Make one corpus entry in the recipe's storage tier and return what was measured of it.

    `target` has the tier's extension and is whole or absent. The stored file is decoded again, its frames are
    hashed and compared with the intended ones, unless `check` is off (for benchmarks).
    Raises `MediaError` when the clip is at fault and `OutputError` when the disk is.
    """
    tier = recipe["storage"]["tier"]
    num_frames = length(recipe, source)
    measured = _Measured(source, recipe, num_frames)
    row: Row = {}
    if method(recipe) == "temporal":
        row = {"frame_count": num_frames, "duration_s": num_frames / source.fps}
    if tier == "frames":
        return {**row, **_produce_frames(recipe, source, target, tick, measured, num_frames)}
    if tier == "recipe":
        return {**row, **_produce_nothing(recipe, source, tick, measured, num_frames)}
    if method(recipe) == "codec" and source.cut is None:
        return _produce_stream(recipe, source, target, tick, check, measured)
    return {**row, **_produce_video(recipe, source, target, tick, check, measured, num_frames)}


def extension(recipe: Recipe) -> str | None:
    """The extension of a stored entry; None where nothing is stored."""
    return {"video": ".mp4", "frames": ".npy.zst", "recipe": None}[recipe["storage"]["tier"]]


def _produce_video(
    recipe: Recipe, source: Source, target: Path, tick: Tick, check: bool, measured: _Measured, num_frames: int
) -> Row:
    def rendered(seen: Seen | None) -> Iterator[Frame]:
        if method(recipe) == "pixel":
            return render(recipe, source, tick=tick, seen=seen)
        frames = render(recipe, source, tick=tick)
        return frames if seen is None else measured.against_clean(frames, tick)

    size = num_frames * source.height * source.width * 3
    intended = _Twice(rendered, measured.see, keep=check and size <= _KEPT_BYTES)
    with storage.atomic_path(target) as temporary:
        profile = storage.PROFILES[recipe["storage"]["profile"]]
        media.encode(intended.first(), temporary, profile, timing(recipe, source))
        row: Row = {}
        if check:
            stored = quality.Distortion(structural=False)
            pairs = zip(intended.second(), ticking(media.decode(media.Clip(temporary)), tick), strict=True)
            frames = _compared(pairs, stored)
            row = {**_hashed(frames, num_frames), "storage_psnr_db": stored.psnr_db}
        return {**row, **measured.row(), **_file_row(temporary), "stored_frames": num_frames}


def _produce_stream(recipe: Recipe, source: Source, target: Path, tick: Tick, check: bool, measured: _Measured) -> Row:
    with storage.atomic_path(target) as temporary:
        encode_stream(recipe, source, temporary, tick)
        row: Row = {}
        if check:
            frames = measured.against_clean(ticking(media.decode(media.Clip(temporary)), tick), tick)
            # The stream is the perturbed video, so nothing was lost in storing it.
            row = {**_hashed(frames, source.num_frames), "storage_psnr_db": math.inf, **measured.row()}
        return {**row, **_file_row(temporary), "stored_frames": source.num_frames}


def _produce_frames(
    recipe: Recipe, source: Source, target: Path, tick: Tick, measured: _Measured, num_frames: int
) -> Row:
    wanted = stored_indices(recipe, num_frames)
    images: dict[int, Image] = {}
    for frame in _rendered_and_measured(recipe, source, measured, set(wanted), tick):
        images[frame.position] = frame.image
    _expect(len(images), len(set(wanted)))
    stack = np.stack([images[index] for index in wanted])
    with storage.atomic_path(target) as temporary:
        with storage.output_errors(target):
            framefile.write(temporary, stack)
        size = {"bytes": temporary.stat().st_size, "sha256": storage.sha256(temporary)}
    return {
        **measured.row(),
        **size,
        "codec": "npy+zstd",
        "pix_fmt": "rgb24",
        "stored_frames": len(stack),
        "frames_sha256": hashlib.sha256(stack.data).hexdigest(),
        "storage_psnr_db": math.inf,
    }


def _produce_nothing(recipe: Recipe, source: Source, tick: Tick, measured: _Measured, num_frames: int) -> Row:
    frames = _rendered_and_measured(recipe, source, measured, None, tick)
    row = _hashed(frames, num_frames)
    return {**row, **measured.row(), "stored_frames": 0, "storage_psnr_db": math.inf}


def _rendered_and_measured(
    recipe: Recipe, source: Source, measured: _Measured, only: Collection[int] | None, tick: Tick
) -> Iterator[Frame]:
    if method(recipe) == "pixel":
        return render(recipe, source, only=only, tick=tick, seen=measured.see)
    return measured.against_clean(render(recipe, source, only=only, tick=tick), tick)


class _Measured:
    """Distortion against the clean clip over uniformly sampled frames of both, as evaluators sample them."""

    def __init__(self, source: Source, recipe: Recipe, num_frames: int) -> None:
        sampled = recipe["storage"].get("num_frames", MEASURED_FRAMES)
        clean = media.uniform_indices(sampled, source.num_frames)
        self._source = source
        self._clean_of = dict(zip(media.uniform_indices(sampled, num_frames), clean, strict=True))
        self._distortion = quality.Distortion(structural=True)

    def see(self, clean: Frame, image: Image) -> None:
        """Look at a frame and at what became of it."""
        if clean.position in self._clean_of:
            self._distortion.add(clean.image, image)

    def against_clean(self, frames: Iterable[Frame], tick: Tick) -> Iterator[Frame]:
        """Pass frames on, comparing each that is sampled with the clean frame that is sampled in its place."""
        needed = set(self._clean_of.values())
        clean = {frame.position: frame.image for frame in ticking(media.decode(self._source.clip, only=needed), tick)}
        for frame in frames:
            if frame.position in self._clean_of:
                self._distortion.add(clean[self._clean_of[frame.position]], frame.image)
            yield frame

    def row(self) -> Row:
        return {"psnr_db": self._distortion.psnr_db, "ssim": self._distortion.ssim}


class _Twice:
    """Frames to go through twice: kept where they fit a budget, rendered again where they do not."""

    def __init__(self, rendered: Callable[[Seen | None], Iterator[Frame]], seen: Seen, *, keep: bool) -> None:
        self._rendered = rendered
        self._seen = seen
        self._kept: list[Frame] | None = [] if keep else None

    def first(self) -> Iterator[Frame]:
        for frame in self._rendered(self._seen):
            if self._kept is not None:
                self._kept.append(frame)
            yield frame

    def second(self) -> Iterator[Frame]:
        return self._rendered(None) if self._kept is None else iter(self._kept)


def _compared(pairs: Iterable[tuple[Frame, Frame]], stored: quality.Distortion) -> Iterator[Frame]:
    try:
        for intended, found in pairs:
            stored.add(intended.image, found.image)
            yield found
    except ValueError as error:
        raise MediaError(f"the stored video does not hold the intended frames: {error}") from error


def _hashed(frames: Iterable[Frame], expected: int) -> Row:
    digest = hashlib.sha256()
    count = 0
    for frame in frames:
        digest.update(frame.image.data)
        count += 1
    _expect(count, expected)
    return {"frames_sha256": digest.hexdigest()}


def _expect(count: int, expected: int) -> None:
    if count != expected:
        raise MediaError(f"{count} frames came out where {expected} were expected")


def _file_row(path: Path) -> Row:
    info = media.probe(path)
    return {
        "bytes": path.stat().st_size,
        "sha256": storage.sha256(path),
        "codec": info.codec,
        "pix_fmt": info.pix_fmt,
        "bitrate_bps": media.video_bitrate(path),
    }


def stored_indices(recipe: Recipe, num_frames: int) -> list[int]:
    """Which frames of the full-length clip the `frames` tier keeps."""
    return media.uniform_indices(recipe["storage"]["num_frames"], num_frames)
