"""One clip through one recipe and into its storage tier: render, encode, measure, hash."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from perturbations import framefile, media, quality, storage
from perturbations.errors import MediaError
from perturbations.media import Frame, Image
from perturbations.recipe import Recipe
from perturbations.rendering import Row, Source, Tick, encode_stream, method, no_tick, render, ticking

MEASURED_FRAMES = 12
"""PSNR and SSIM against the clean clip are taken over so many uniformly sampled frames."""

_KEPT_BYTES = 256 * 2**20


def produce(recipe: Recipe, source: Source, target: Path, tick: Tick = no_tick, *, check: bool = True) -> Row:
    """Make one corpus entry in the recipe's storage tier and return what was measured of it.

    `target` has the tier's extension and is whole or absent. The stored file is decoded again, its frames are
    hashed and compared with the intended ones, unless `check` is off (for benchmarks).
    Raises `MediaError` when the clip is at fault and `OutputError` when the disk is.
    """
    tier = recipe["storage"]["tier"]
    if tier == "frames":
        return _produce_frames(recipe, source, target, tick)
    if tier == "recipe":
        return _produce_nothing(recipe, source, tick)
    if method(recipe) == "codec":
        return _produce_stream(recipe, source, target, tick, check)
    return _produce_video(recipe, source, target, tick, check)


def extension(recipe: Recipe) -> str | None:
    """The extension of a stored entry; None where nothing is stored."""
    return {"video": ".mp4", "frames": ".npy.zst", "recipe": None}[recipe["storage"]["tier"]]


def _produce_video(recipe: Recipe, source: Source, target: Path, tick: Tick, check: bool) -> Row:
    measured = _Measured(source)
    intended = _Twice(lambda seen: render(recipe, source, tick=tick, seen=seen), measured.see)
    with storage.atomic_path(target) as temporary:
        profile = storage.PROFILES[recipe["storage"]["profile"]]
        media.encode(intended.first(), temporary, profile, source.timing)
        row: Row = {}
        if check:
            stored = quality.Distortion(structural=False)
            pairs = zip(intended.second(), ticking(media.decode(media.Clip(temporary)), tick), strict=True)
            frames = _compared(pairs, stored)
            row = {**_hashed(frames, source.num_frames), "storage_psnr_db": stored.psnr_db}
        return {**row, **measured.row(), **_file_row(temporary), "stored_frames": source.num_frames}


def _produce_stream(recipe: Recipe, source: Source, target: Path, tick: Tick, check: bool) -> Row:
    with storage.atomic_path(target) as temporary:
        encode_stream(recipe, source, temporary, tick)
        row: Row = {}
        if check:
            measured = _Measured(source)
            frames = measured.against_clean(ticking(media.decode(media.Clip(temporary)), tick), tick)
            # The stream is the perturbed video, so nothing was lost in storing it.
            row = {**_hashed(frames, source.num_frames), "storage_psnr_db": math.inf, **measured.row()}
        return {**row, **_file_row(temporary), "stored_frames": source.num_frames}


def _produce_frames(recipe: Recipe, source: Source, target: Path, tick: Tick) -> Row:
    wanted = stored_indices(recipe, source.num_frames)
    measured = _Measured(source, wanted)
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


def _produce_nothing(recipe: Recipe, source: Source, tick: Tick) -> Row:
    measured = _Measured(source)
    frames = _rendered_and_measured(recipe, source, measured, None, tick)
    row = _hashed(frames, source.num_frames)
    return {**row, **measured.row(), "stored_frames": 0, "storage_psnr_db": math.inf}


def _rendered_and_measured(
    recipe: Recipe, source: Source, measured: _Measured, only: Collection[int] | None, tick: Tick
) -> Iterator[Frame]:
    if method(recipe) == "codec":
        return measured.against_clean(render(recipe, source, only=only, tick=tick), tick)
    return render(recipe, source, only=only, tick=tick, seen=measured.see)


class _Measured:
    """Distortion against the clean clip over a fixed choice of frames."""

    def __init__(self, source: Source, indices: Sequence[int] | None = None) -> None:
        self._source = source
        self._indices = set(indices or media.uniform_indices(MEASURED_FRAMES, source.num_frames))
        self._distortion = quality.Distortion(structural=True)

    def see(self, clean: Frame, image: Image) -> None:
        if clean.position in self._indices:
            self._distortion.add(clean.image, image)

    def against_clean(self, frames: Iterable[Frame], tick: Tick) -> Iterator[Frame]:
        """Pass frames on, comparing those of the choice with the clean clip's."""
        clean = {frame.position: frame for frame in ticking(media.decode(self._source.clip, only=self._indices), tick)}
        for frame in frames:
            if frame.position in clean:
                self.see(clean.pop(frame.position), frame.image)
            yield frame

    def row(self) -> Row:
        return {"psnr_db": self._distortion.psnr_db, "ssim": self._distortion.ssim}


class _Twice:
    """Frames to go through twice: kept while they fit a budget, rendered again where they do not."""

    def __init__(
        self,
        rendered: Callable[[Callable[[Frame, Image], None] | None], Iterator[Frame]],
        seen: Callable[[Frame, Image], None],
    ) -> None:
        self._rendered = rendered
        self._seen = seen
        self._kept: list[Frame] | None = []

    def first(self) -> Iterator[Frame]:
        size = 0
        for frame in self._rendered(self._seen):
            size += frame.image.nbytes
            if self._kept is not None:
                self._kept.append(frame)
                if size > _KEPT_BYTES:
                    self._kept = None
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
