"""Makes one clip of a corpus by its recipe, in its storage tier: render, encode, measure, hash."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import numpy as np

from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.base.errors import MediaError
from perturbations.base.progress import Tick, no_tick, ticking
from perturbations.engine.journal import Measured
from perturbations.engine.planned import PlannedClip
from perturbations.engine.rendering import planned_clip
from perturbations.engine.source import Source
from perturbations.media import decoding, encoding, framefile, probing, quality, sound
from perturbations.media.clip import Frame, MediaClip, uniform_indices
from perturbations.plan.recipe import VideoRecipe
from perturbations.plan.tiers import StoredFrames, StoredVideo

MEASURED_FRAMES = 12
"""PSNR and SSIM against the clean clip are computed on this many uniformly sampled frames."""

_KEPT_BYTES = 256 * 2**20


def produce(
    recipe: VideoRecipe, source: Source, target: Path, tick: Tick = no_tick, *, with_sound: bool = True
) -> Measured:
    """Make one corpus entry in the recipe's storage tier and return what was measured of it.

    `target` has the tier's extension and is written atomically. The stored file is decoded again, and its frames are
    hashed and compared with the intended ones. A stored video has the source's sound, if `with_sound`, where the
    perturbation changes no times.
    Raises `MediaError` when the clip is the cause of a failure, and `OutputError` when the disk is.
    """
    work = _Work(recipe, source, target, tick, with_sound=with_sound)
    if isinstance(recipe.storage, StoredFrames):
        return work.make_frames(recipe.storage.num_frames)
    if not isinstance(recipe.storage, StoredVideo):
        return work.make_nothing()
    if work.planned.stores_stream:
        return work.make_stream()
    return work.make_video(recipe.storage.profile)


def frames_sha256(path: Path, tick: Tick = no_tick) -> tuple[str, int]:
    """The hash and the number of a stored file's frames. Raises `MediaError`."""
    if path.name.endswith(storage.FRAMES_EXTENSION):
        stack = framefile.read(path)
        return hashlib.sha256(np.ascontiguousarray(stack).data).hexdigest(), len(stack)
    digest = hashlib.sha256()
    count = 0
    for frame in ticking(decoding.decode(MediaClip(path)), tick):
        digest.update(frame.image.data)
        count += 1
    return digest.hexdigest(), count


def extension(recipe: VideoRecipe) -> str | None:
    """The extension of a stored entry; None where nothing is stored."""
    if isinstance(recipe.storage, StoredVideo):
        return storage.profile_named(recipe.storage.profile).extension
    return storage.FRAMES_EXTENSION if isinstance(recipe.storage, StoredFrames) else None


class _Work:
    """The production of one clip by one recipe."""

    def __init__(self, recipe: VideoRecipe, source: Source, target: Path, tick: Tick, *, with_sound: bool) -> None:
        self.planned = planned_clip(recipe, source)
        self._source = source
        self._target = target
        self._tick = tick
        self._num_frames = self.planned.num_frames
        self._with_sound = with_sound and self.planned.keeps_sound
        self._audio: str | None = None
        if isinstance(recipe.storage, StoredVideo) and recipe.storage.profile not in storage.PICTURES:
            self._audio = sound.UNWANTED if self.planned.keeps_sound else sound.TIMES
        self._distortion = _Distortion(self.planned)

    def rendered_and_seen(self, only: Collection[int] | None = None) -> Iterator[Frame]:
        """The perturbed frames, or those at `only`, which are compared with the clean ones."""
        frames = self.planned.frames(only=only, tick=self._tick, seen=self._distortion.see)
        return frames if self.planned.sees_clean else self._distortion.against_clean(frames, self._tick)

    def make_video(self, profile: str) -> Measured:
        size = self._num_frames * self.planned.height * self.planned.width * 3
        kept: list[Frame] | None = [] if size <= _KEPT_BYTES else None  # of a long clip they are rendered again
        with storage.atomic_path(self._target) as temporary:
            clock = self.planned.timing
            settings = storage.profile_named(profile)
            keys = set(uniform_indices(settings.key_frames, self._num_frames)) if settings.key_frames else ()
            aspect = self._source.sample_aspect
            encoding.encode(
                _keeping(self.rendered_and_seen(), kept),
                temporary,
                settings,
                clock,
                key_frames=keys,
                sample_aspect=aspect,
            )
            self._add_sound(temporary)
            return self.measure_video(temporary, self.planned.frames(tick=self._tick) if kept is None else iter(kept))

    def measure_video(self, path: Path, intended: Iterator[Frame]) -> Measured:
        """Measure a file, and compare it with the intended frames."""
        described = _file_columns(path)
        stored = quality.Distortion(structural=False)
        pairs = zip(intended, ticking(decoding.decode(MediaClip(path)), self._tick), strict=True)
        described |= {"frames_sha256": self._hash_of(_compared(pairs, stored), self._num_frames)}
        described |= {"storage_psnr_db": stored.psnr_db}
        return self._measured(self._num_frames, described)

    def make_stream(self) -> Measured:
        with storage.atomic_path(self._target) as temporary:
            self.planned.write_stream(temporary, self._tick)
            self._add_sound(temporary)
            return self.measure_stream(temporary)

    def measure_stream(self, path: Path) -> Measured:
        """Measure a file that is an encoder's stream."""
        described = _file_columns(path)
        frames = self._distortion.against_clean(ticking(decoding.decode(MediaClip(path)), self._tick), self._tick)
        # The stream is the perturbed video itself, so storing it is lossless.
        described |= {"frames_sha256": self._hash_of(frames, self._num_frames), "storage_psnr_db": math.inf}
        return self._measured(self._num_frames, described)

    def _add_sound(self, path: Path) -> None:
        """Copy the source's sound into a stored video, where the recipe asks for it."""
        if self._audio is not None and self._with_sound:
            self._audio = sound.add(path, self._source.clip, storage.temporary_path(self._target))

    def make_frames(self, num_frames: int) -> Measured:
        stack = self._sampled(num_frames)
        with storage.atomic_path(self._target) as temporary:
            with storage.output_errors(self._target):
                framefile.write(temporary, stack)
            return self._measured_frames(temporary, stack)

    def _sampled(self, num_frames: int) -> Image:
        indices = uniform_indices(num_frames, self._num_frames)
        images = {frame.position: frame.image for frame in self.rendered_and_seen(set(indices))}
        _expect(len(images), len(set(indices)))
        return np.stack([images[index] for index in indices])

    def _measured_frames(self, path: Path, stack: Image) -> Measured:
        described = {
            "bytes": path.stat().st_size,
            "sha256": storage.sha256(path),
            "codec": "npy+zstd",
            "pix_fmt": "rgb24",
            "frames_sha256": hashlib.sha256(np.ascontiguousarray(stack).data).hexdigest(),
            "storage_psnr_db": math.inf,
        }
        return self._measured(len(stack), described)

    def make_nothing(self) -> Measured:
        """Measure a clip that is not stored but rendered on demand."""
        hashed = self._hash_of(self.rendered_and_seen(), self._num_frames)
        return self._measured(0, {"frames_sha256": hashed, "storage_psnr_db": math.inf})

    def _hash_of(self, frames: Iterable[Frame], expected: int) -> str:
        digest = hashlib.sha256()
        count = 0
        for frame in frames:
            digest.update(frame.image.data)
            count += 1
        _expect(count, expected)
        return digest.hexdigest()

    def _measured(self, stored_frames: int, described: dict[str, object]) -> Measured:
        planned, recipe = self.planned, self.planned.recipe
        size = {"width": planned.width, "height": planned.height} if recipe.entry.shape else {}
        return Measured.model_validate(
            {
                "frame_count": planned.full_length,
                "duration_s": None if planned.is_aligned else planned.full_length / self._source.fps,
                **size,
                "stored_frames": stored_frames,
                "audio": self._audio,
                **self._distortion.columns,
                **described,
            }
        )


class _Distortion:
    """Distortion against the clean clip over uniformly sampled frames of both, as evaluators sample them.

    Nothing is compared where the perturbed frames have another size.
    """

    def __init__(self, planned: PlannedClip) -> None:
        stored = planned.recipe.storage
        sampled = stored.num_frames if isinstance(stored, StoredFrames) else MEASURED_FRAMES
        self._source = planned.source
        self._clean_of: dict[int, int] = {}
        if (planned.width, planned.height) == self._source.size:
            clean = uniform_indices(sampled, self._source.num_frames)
            self._clean_of = dict(zip(uniform_indices(sampled, planned.num_frames), clean, strict=True))
        self._distortion = quality.Distortion(structural=True)

    def see(self, clean: Frame, image: Image) -> None:
        """Compare a clean frame with its perturbed image."""
        if clean.position in self._clean_of:
            self._distortion.add(clean.image, image)

    def against_clean(self, frames: Iterable[Frame], tick: Tick) -> Iterator[Frame]:
        """Yield the frames, and compare each sampled one with the clean frame sampled at the same place."""
        needed = set(self._clean_of.values())
        read = ticking(decoding.decode(self._source.clip, only=needed), tick) if needed else ()
        clean = {frame.position: frame.image for frame in read}
        for frame in frames:
            if frame.position in self._clean_of:
                self._distortion.add(clean[self._clean_of[frame.position]], frame.image)
            yield frame

    @property
    def columns(self) -> dict[str, float | None]:
        """PSNR over all compared frames, and their mean SSIM; None where there was none."""
        return {"psnr_db": _known(self._distortion.psnr_db), "ssim": _known(self._distortion.ssim)}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _keeping(frames: Iterable[Frame], kept: list[Frame] | None) -> Iterator[Frame]:
    """The frames, which are added to `kept` where it is a list."""
    for frame in frames:
        if kept is not None:
            kept.append(frame)
        yield frame


def _compared(pairs: Iterable[tuple[Frame, Frame]], stored: quality.Distortion) -> Iterator[Frame]:
    try:
        for intended, decoded in pairs:
            stored.add(intended.image, decoded.image)
            yield decoded
    except ValueError as error:
        raise MediaError(f"the stored video does not hold the intended frames: {error}") from error


def _expect(count: int, expected: int) -> None:
    if count != expected:
        raise MediaError(f"{count} frames came out where {expected} were expected")


def _file_columns(path: Path) -> dict[str, object]:
    info = probing.probe(path)
    return {
        "bytes": path.stat().st_size,
        "sha256": storage.sha256(path),
        "codec": info.codec,
        "pix_fmt": info.pix_fmt,
        "bitrate_bps": _known(probing.video_bitrate(path)),
    }
