"""A quick look at a dataset's clips before a run: which files cannot be videos, and what the run will store.

Nothing is decoded: of a few clips the header is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from perturbations.base import wings
from perturbations.base.storage import sha256_of
from perturbations.config import sections as configuration
from perturbations.datasets import registry as datasets
from perturbations.manifest import layout
from perturbations.plan import listed, recipe, sharding
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


@dataclass(frozen=True)
class _Look:
    """What the sampled clips of a collection are like."""

    seconds_per_byte: float  # of their files
    pixels_per_second: float
    pixels_per_frame: float  # the mean over clips
    drawn_seconds: float = 0.0  # of each clip that the package draws

    def pixels(self, clip: ListedClip, stored_frames: int | None) -> float:
        """How many pixels of a clip are stored: of all its frames, or of `stored_frames` of them."""
        if stored_frames is not None:
            return self.pixels_per_frame * stored_frames
        seconds = self.drawn_seconds if clip.bytes is None else clip.bytes * self.seconds_per_byte
        if clip.end_s is not None:
            seconds = clip.end_s - (clip.start_s or 0.0)
        return seconds * self.pixels_per_second


_USUAL = _Look(seconds_per_byte=2e-5, pixels_per_second=25 * 320 * 240, pixels_per_frame=320 * 240)
"""Of clips of MSR-VTT."""


def stored(
    config: configuration.Config, wanted: WantedWork, surveyed: dict[str, Collection]
) -> tuple[int, float, bool]:
    """How many perturbed clips a run makes, the bytes that they take within a factor of 2, and whether that is rough.

    It is where no clip of some collection could be looked at. `surveyed` has their collections.
    """
    storage = config.storage
    tier = storage.profile if storage.tier == "video" else storage.tier
    resolved = recipe.storage_of(storage)
    frames = resolved.num_frames if isinstance(resolved, recipe.StoredFrames) else None
    looks = {name: _look_of(config, name, surveyed[name]) for name in {job.collection for job in wanted.videos}}
    videos, pixels = 0, 0.0
    for (name, _, _, _), shards in wanted.scenarios.items():
        clips = surveyed[name].usable(shards)
        videos += len(clips)
        pixels += sum((looks[name] or _USUAL).pixels(clip, frames) for clip in clips)
    return videos, pixels * _BYTES_PER_PIXEL[tier], None in looks.values()


def _look_of(config: configuration.Config, name: str, collection: Collection) -> _Look | None:
    if datasets.get(config.datasets[sharding.dataset_of(name)].adapter).drawn:
        (drawn_clip,) = wings.offered("drawn_clip")
        frames, pixels, seconds = drawn_clip()
        return _Look(0.0, frames * pixels / seconds, pixels, seconds)
    try:
        return look(collection.usable(collection.shards), seed=config.seed)
    except ImportError:  # Snakemake's own environment has no decoder; the jobs' has
        return None


def look(clips: Sequence[ListedClip], *, seed: int = 0, most: int = _MOST_SAMPLED) -> _Look | None:
    """Sample clips, the same ones in each run; None where none could be read."""
    chosen = sorted(clips, key=lambda clip: sha256_of(f"{seed} {clip.item_id!r} {clip.path!r}".encode()))
    sampled = [header for header in map(_header, chosen[:most]) if header is not None]
    total = sum(seconds for seconds, *_ in sampled)
    if not total:
        return None
    return _Look(
        total / sum(size for _, size, _, _ in sampled),
        sum(seconds * rate * pixels for seconds, _, rate, pixels in sampled) / total,
        sum(pixels for *_, pixels in sampled) / len(sampled),
    )


def _header(clip: ListedClip) -> tuple[float, int, float, int] | None:
    """A file's length in seconds, its bytes, its frames per second, and the pixels of each."""
    from perturbations.base.errors import MediaError
    from perturbations.media import opening

    path = Path(clip.path)
    try:
        with opening.opened(path) as container:
            stream = opening.video_stream(path, container)
            rate = float(stream.average_rate or stream.guessed_rate or Fraction(25))
            seconds = opening.declared_duration_s(stream) or (container.duration or 0) / 1e6
            if not seconds and opening.declared_frames(stream):
                seconds = opening.declared_frames(stream) / rate
            pixels = stream.codec_context.width * stream.codec_context.height
            size = path.stat().st_size
    except (MediaError, OSError, ValueError):
        return None
    sound = 0 < seconds < math.inf and pixels > 0 and size > 0
    return (float(seconds), size, rate, pixels) if sound else None
