"""Makes one clip of a corpus by its recipe, in its storage tier: render, encode, measure, hash."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.base.errors import MediaError
from perturbations.base.progress import Tick, no_tick, ticking
from perturbations.corpus.plan import tiers
from perturbations.corpus.plan.recipe import VideoRecipe
from perturbations.corpus.render.planned_clip import PlannedClip
from perturbations.corpus.render.rendering import planned_clip
from perturbations.corpus.store.journal import Measured
from perturbations.media import decoding, encoding, probing, profiles, sound
from perturbations.media.clean_clip import CleanClip
from perturbations.media.clip import Frame, MediaClip, uniform_indices
from perturbations.media.quality import Distortion

MEASURED_FRAMES = 12
"""PSNR and SSIM against the clean clip are computed on this many uniformly sampled frames."""

_KEPT_BYTES = 256 * 2**20


def make_clip(
    recipe: VideoRecipe, source: CleanClip, target: Path, tick: Tick = no_tick, *, with_sound: bool = True
) -> Measured:
    """Make one clip of a corpus in the recipe's storage tier, and return its measured columns.

    `target` has the tier's extension and is written atomically. The stored file is decoded again, and its frames are
    hashed and compared with the intended ones. With `with_sound`, a stored video gets the source's sound, unless the
    perturbation changes times. Raises `MediaError` when the clip is the cause of a failure, and `OutputError` when the
    disk is the cause.
    """
    planned = planned_clip(recipe, source)
    compared = _Comparison(planned, tick)
    if number := tiers.sampled(recipe.storage):
        measured = _store_frames(compared, target, number)
    elif profile := recipe.storage.get("profile"):
        measured = _store_video(compared, target, profile, with_sound=with_sound)
    else:  # rendered on demand
        rendered = compared.against_clean(planned.frames(tick=tick, seen=compared.see))
        hashed = _hash_of(rendered, planned.num_frames)
        measured = {"stored_frames": 0, "frames_sha256": hashed, "storage_psnr_db": math.inf}
    if recipe.entry.shape:
        measured |= {"width": planned.width, "height": planned.height}
    if not planned.is_aligned:
        measured |= {"duration_s": planned.full_length / source.fps}
    return {"frame_count": planned.full_length, **compared.columns, **measured}


def _store_frames(compared: _Comparison, target: Path, num_frames: int) -> dict[str, object]:
    """Store a sample of the frames, and return the file's measured columns."""
    from perturbations.media import framefile  # loaded in this tier alone

    planned = compared.planned
    indices = uniform_indices(num_frames, planned.num_frames)
    rendered = planned.frames(only=set(indices), tick=compared.tick, seen=compared.see)
    images = {frame.position: frame.image for frame in compared.against_clean(rendered)}
    _expect(len(images), len(set(indices)))
    stack = np.stack([images[index] for index in indices])
    with storage.atomic_path(target) as temporary:
        with storage.output_errors(target):
            framefile.write(temporary, stack)
        return {
            "stored_frames": len(stack),
            "bytes": temporary.stat().st_size,
            "sha256": storage.sha256(temporary),
            "codec": "npy+zstd",
            "pix_fmt": "rgb24",
            "frames_sha256": hashlib.sha256(stack.data).hexdigest(),
            "storage_psnr_db": math.inf,
        }


def _store_video(compared: _Comparison, target: Path, profile: str, *, with_sound: bool) -> dict[str, object]:
    """Store a video or a picture, and return the file's measured columns."""
    planned, tick = compared.planned, compared.tick
    settings = profiles.profile_named(profile)
    kept: list[Frame] = []
    with storage.atomic_path(target) as temporary:
        if planned.stores_stream and planned.write_stream is not None:
            planned.write_stream(temporary, tick, compared.see)
        else:
            # A long clip is rendered again to be compared, so that memory does not grow with its length.
            is_short = planned.num_frames * planned.height * planned.width * 3 <= _KEPT_BYTES
            frames = planned.frames(tick=tick, seen=compared.see if is_short else None)
            if is_short:
                kept = list(frames)
                frames = ticking(kept, tick)
            encoding.encode(
                frames,
                temporary,
                settings,
                planned.timing,
                key_frames=uniform_indices(settings.key_frames, planned.num_frames) if settings.key_frames else (),
                sample_aspect=planned.source.sample_aspect,
            )
        audio = None
        if profile not in profiles.PICTURES:
            audio = sound.UNWANTED if planned.keeps_sound else sound.TIMES
            if with_sound and planned.keeps_sound:
                audio = sound.add(temporary, planned.source.clip, storage.temporary_path(target))
        info = probing.probe(temporary)
        measured = {
            "stored_frames": planned.num_frames,
            "bytes": temporary.stat().st_size,
            "sha256": storage.sha256(temporary),
            "codec": info.codec,
            "pix_fmt": info.pix_fmt,
            "bitrate_bps": probing.video_bitrate(temporary),
            "audio": audio,
        }
        stored = ticking(decoding.decode(MediaClip(temporary)), tick)
        if planned.stores_stream:  # it is the perturbed video itself, so storing it is lossless
            hashed = _hash_of(compared.against_clean(stored), planned.num_frames)
            return measured | {"frames_sha256": hashed, "storage_psnr_db": math.inf}
        loss = Distortion(structural=False)
        intended = compared.against_clean(kept or planned.frames(tick=tick, seen=compared.see))
        hashed = _hash_of(_compared(zip(intended, stored, strict=True), loss), planned.num_frames)
        return measured | {"frames_sha256": hashed, "storage_psnr_db": loss.psnr_db}


def _hash_of(frames: Iterable[Frame], expected: int | None = None) -> str:
    digest, count = hashlib.sha256(), 0
    for frame in frames:
        digest.update(frame.image.data)
        count += 1
    if expected is not None:
        _expect(count, expected)
    return digest.hexdigest()


def frames_sha256(path: Path, tick: Tick = no_tick) -> str:
    """The hash of a stored file's frames. Raises `MediaError`."""
    if path.name.endswith(profiles.FRAMES_EXTENSION):
        from perturbations.media import framefile

        return hashlib.sha256(np.ascontiguousarray(framefile.read(path)).data).hexdigest()
    return _hash_of(ticking(decoding.decode(MediaClip(path)), tick))


def extension(recipe: VideoRecipe) -> str | None:
    """The extension of a stored clip; None where nothing is stored."""
    if profile := recipe.storage.get("profile"):
        return profiles.profile_named(profile).extension
    return profiles.FRAMES_EXTENSION if tiers.sampled(recipe.storage) else None


def target_of(recipe: VideoRecipe, folder: Path, item_id: str) -> Path | None:
    """The file that an item is stored in under a recipe; None where nothing is stored."""
    suffix = extension(recipe)
    return folder / (storage.file_stem(item_id) + suffix) if suffix else None


class _Comparison:
    """Compares a perturbed clip with the clean clip, at the frames that evaluators sample.

    Nothing is compared where the perturbed frames have another size.
    """

    def __init__(self, planned: PlannedClip, tick: Tick) -> None:
        sampled = tiers.sampled(planned.recipe.storage) or MEASURED_FRAMES
        self.planned, self.tick = planned, tick
        self._clean_of: dict[int, int] = {}  # place of a compared perturbed frame -> place of its clean frame
        self._clean: dict[int, Image] = {}
        if (planned.width, planned.height) == planned.source.size:
            clean = uniform_indices(sampled, planned.source.num_frames)
            self._clean_of = dict(zip(uniform_indices(sampled, planned.num_frames), clean, strict=True))
        self._distortion = Distortion(structural=True)

    def see(self, clean: Frame) -> None:
        """Keep a clean frame with which a perturbed frame will be compared."""
        if clean.position in self._clean_of.values():
            self._clean[clean.position] = clean.image

    def against_clean(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Yield the frames, and compare each sampled frame with the clean frame that is sampled at the same place.

        Clean frames that were not seen while the frames were made are decoded at the end.
        """
        waiting: deque[Frame] = deque()
        for frame in frames:
            if frame.position in self._clean_of:
                waiting.append(frame)
                self._compare(waiting)
            yield frame
        unseen = {self._clean_of[frame.position] for frame in waiting} - self._clean.keys()
        for clean in ticking(decoding.decode(self.planned.source.clip, only=unseen), self.tick) if unseen else ():
            self.see(clean)
        self._compare(waiting)

    def _compare(self, waiting: deque[Frame]) -> None:
        """Compare waiting frames from the first on, as long as their clean frames are known."""
        while waiting and self._clean_of[waiting[0].position] in self._clean:
            frame = waiting.popleft()
            position = self._clean_of.pop(frame.position)
            self._distortion.add(self._clean[position], frame.image)
            if position not in self._clean_of.values():
                del self._clean[position]

    @property
    def columns(self) -> dict[str, float | None]:
        """PSNR over all compared frames, and their mean SSIM; None where no frame was compared."""
        return {"psnr_db": self._distortion.psnr_db, "ssim": self._distortion.ssim}


def _compared(pairs: Iterable[tuple[Frame, Frame]], stored: Distortion) -> Iterator[Frame]:
    try:
        for intended, decoded in pairs:
            stored.add(intended.image, decoded.image)
            yield decoded
    except ValueError as error:
        raise MediaError(f"the stored video does not hold the intended frames: {error}") from error


def _expect(count: int, expected: int) -> None:
    if count != expected:
        raise MediaError(f"{count} frames came out where {expected} were expected")
