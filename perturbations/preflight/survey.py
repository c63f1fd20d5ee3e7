"""A quick look at a dataset's clips before a run: which files cannot be videos, and what the run will store.

Nothing is decoded: of a few clips the header is read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from perturbations.base.storage import sha256_of
from perturbations.config import sections as configuration
from perturbations.manifest import layout
from perturbations.plan import listed, recipe
from perturbations.plan.listed import ListedClip
from perturbations.preflight.wanted import WantedWork

_MOST_SAMPLED = 20
"""Clips whose header is read."""

_BYTES_PER_PIXEL = {
    "lossless": 0.9,
    "high": 0.4,
    "compatible": 0.08,
    "released": 0.09,
    "frames": 0.95,
    "recipe": 0.0,
}
"""Bytes of a perturbed clip per stored pixel, by tier or profile: the mean of all scenarios on clips of MSR-VTT.

A whole suite lies within a factor of 2 of it, noise above, blur and transmission below.
"""

# --- the clips --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Collection:
    """The clips of a collection."""

    shards: dict[str, list[ListedClip]]
    rejected: list[listed.RejectedItem]
    unreadable: dict[str, str]  # path -> why a file that is still to be read is no video

    @classmethod
    def read(cls, name: str, wanted: WantedWork) -> Collection:
        """The lists that planning wrote of a collection; of what is still to be read, each file's first bytes."""
        shards = listed.read_folder(Path(layout.folder("shard_list", dataset=name)), ListedClip)
        rejected = listed.read(Path(layout.at("rejected", dataset=name)), listed.RejectedItem)
        unread = [clip for shard, clips in shards.items() if (name, shard) in wanted.sources for clip in clips]
        return cls(shards, rejected, unreadable(unread))

    @property
    def clips(self) -> list[ListedClip]:
        """Those of all shards."""
        return [clip for clips in self.shards.values() for clip in clips]

    def usable(self, shards: Iterable[str]) -> list[ListedClip]:
        """The clips of some shards whose file may be a video."""
        return [clip for shard in shards for clip in self.shards.get(shard, ()) if clip.path not in self.unreadable]


_HEAD = 64
_TEXTS_OF_VIDEOS = (b"YUV4MPEG2", b"nut/multimedia")


def unreadable(clips: Sequence[ListedClip]) -> dict[str, str]:
    """Path -> why a file is surely no video: by its size and its first bytes. It may be damaged all the same."""
    there = {clip.path for clip in clips if clip.bytes is not None}  # others are not drawn yet
    return {path: reason for path in sorted(there) if (reason := _problem(path))}


def _problem(path: str) -> str | None:
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(_HEAD)
    except OSError as error:
        return str(error.strerror)
    if not head:
        return "the file is empty"
    if not any(head):
        return "the file begins with zeros"
    is_text = all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in head)
    if is_text and not head.startswith(_TEXTS_OF_VIDEOS):
        return "the file is a text"
    return None


# --- what a run stores ------------------------------------------------------------------------------------------------


def stored(
    config: configuration.Config, wanted: WantedWork, surveyed: dict[str, Collection]
) -> tuple[int, float | None]:
    """How many perturbed clips a run makes, and the bytes that they take, within a factor of 2.

    The bytes are None where no clip of a collection can be looked at, as long as they are still to be drawn.
    `surveyed` has the collections.
    """
    clips: Counter[str] = Counter()
    for (name, *_), shards in wanted.scenarios.items():
        clips[name] += len(surveyed[name].usable(shards))
    per_pixel = _BYTES_PER_PIXEL[config.storage.profile if config.storage.tier == "video" else config.storage.tier]
    resolved = recipe.storage_of(config.storage)
    frames = resolved.num_frames if isinstance(resolved, recipe.StoredFrames) else None
    size = 0.0
    for name, number in clips.items() if per_pixel else ():
        try:
            pixels = mean_pixels(surveyed[name].usable(surveyed[name].shards), frames, seed=config.seed)
        except ImportError:  # Snakemake's own environment has no decoder; the jobs' has
            pixels = None
        if pixels is None:
            return clips.total(), None
        size += number * pixels * per_pixel
    return clips.total(), size


def mean_pixels(clips: Sequence[ListedClip], stored_frames: int | None, *, seed: int = 0) -> float | None:
    """How many pixels of a clip are stored: of all its frames, or of `stored_frames` of them; the mean of a sample.

    The sample is the same one in each run. None where no clip could be read.
    """
    chosen = sorted(clips, key=lambda clip: sha256_of(f"{seed} {clip.item_id!r} {clip.path!r}".encode()))
    sampled = [pixels for clip in chosen[:_MOST_SAMPLED] if (pixels := _pixels(clip, stored_frames))]
    return sum(sampled) / len(sampled) if sampled else None


def _pixels(clip: ListedClip, stored_frames: int | None) -> float | None:
    """The pixels of a clip's stored frames, from its file's header; None where that does not say it."""
    from perturbations.base.errors import MediaError
    from perturbations.media import opening

    try:
        with opening.opened(Path(clip.path)) as container:
            stream = opening.video_stream(Path(clip.path), container)
            pixels = stream.codec_context.width * stream.codec_context.height
            rate = stream.average_rate or stream.guessed_rate or Fraction(25)
            seconds = opening.declared_duration_s(stream) or (container.duration or 0) / 1e6
            frames = opening.declared_frames(stream) or float(seconds * rate)
    except (MediaError, OSError, ValueError):
        return None
    if clip.end_s is not None:
        frames = (clip.end_s - (clip.start_s or 0.0)) * rate
    count = float(pixels * (stored_frames or frames))
    return count if math.isfinite(count) else None
