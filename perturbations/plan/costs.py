"""What clips cost: the size of shards where none is given, and the time and memory that jobs request.

Clips are as large as the headers of a sample and the files' bytes say; rates were measured (docs/measurements).
Estimates change no result. Snakemake imports this module: no NumPy, and PyAV only where a sample is read.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from perturbations.base.errors import ConfigError, MediaError
from perturbations.base.storage import is_picture, sha256_of
from perturbations.config import sections as configuration
from perturbations.guides import registry as guides
from perturbations.guides.guide import AnalysisRecipe
from perturbations.plan import recipe
from perturbations.plan.listed import ListedClip

# --- how large clips are ---------------------------------------------------------------------------------------------

_SAMPLED = 20
"""Clips whose header is read."""

_UNKNOWN_PIXELS, _UNKNOWN_FRAME = 30_000_000, 640 * 360
"""Of a clip, all frames, and of a frame, where no header is read: MSR-VTT has 27 million per clip."""


class Header(NamedTuple):
    """What a file's header says of a clip: its frames and their pixels, its seconds, and the file's bytes."""

    frame_pixels: int
    frames: float
    seconds: float
    bytes: int

    @property
    def pixels(self) -> float:
        """Of all frames."""
        return self.frame_pixels * self.frames


@dataclass(frozen=True)
class Workload:
    """The size of clips: their number, the pixels of all of their frames, and those of the largest frame."""

    clips: int
    pixels: int
    frame_pixels: int

    @property
    def megapixels(self) -> float:
        """Of all frames, in millions of pixels."""
        return self.pixels / 1e6


NOTHING = Workload(0, 0, 0)


def together(sizes: Iterable[Workload]) -> Workload:
    """The size of the clips of several shards."""
    every = [NOTHING, *sizes]
    return Workload(
        sum(size.clips for size in every),
        sum(size.pixels for size in every),
        max(size.frame_pixels for size in every),
    )


def headers(clips: Sequence[ListedClip], *, seed: int = 0) -> list[Header]:
    """The headers of a sample of clips, the same one in each run; none where PyAV is missing."""

    def order(clip: ListedClip) -> str:
        return sha256_of(f"{seed} {clip.item_id!r} {clip.path!r}".encode())

    try:
        return [header for clip in heapq.nsmallest(_SAMPLED, clips, key=order) if (header := _header(clip))]
    except ImportError:  # Snakemake's own environment may have no decoder; the jobs' has
        return []


def mean_pixels(clips: Sequence[ListedClip], stored_frames: int | None, *, seed: int = 0) -> float | None:
    """How many pixels of a clip are stored: of all its frames, or of `stored_frames` of them; the mean of a sample.

    None where no clip could be read.
    """
    sampled = [header.frame_pixels * (stored_frames or header.frames) for header in headers(clips, seed=seed)]
    return sum(sampled) / len(sampled) if sampled else None


def _header(clip: ListedClip) -> Header | None:
    from perturbations.media import opening, stills

    try:
        if is_picture(clip.path):
            described = stills.describe(Path(clip.path))
            return Header(described.width * described.height, 1.0, 1.0, clip.bytes or 0)
        with opening.opened(Path(clip.path)) as container:
            stream = opening.video_stream(Path(clip.path), container)
            pixels = stream.codec_context.width * stream.codec_context.height
            rate = stream.average_rate or stream.guessed_rate or Fraction(25)
            seconds = float(opening.declared_duration_s(stream) or (container.duration or 0) / 1e6)
            frames = float(opening.declared_frames(stream) or seconds * rate)
    except (MediaError, OSError, ValueError):
        return None
    if clip.end_s is not None:
        seconds = clip.end_s - (clip.start_s or 0.0)
        frames = seconds * float(rate)
    if not (pixels > 0 and frames > 0 and math.isfinite(pixels * frames)):
        return None
    return Header(pixels, frames, seconds, clip.bytes or 0)


class Survey:
    """The sizes of a collection's clips, from a sample of their headers.

    A clip's pixels follow from its span's seconds, else from its file's bytes, else they are the sample's mean. Of
    clips that the package draws itself, `drawn` is the width, height and frames: they need not be there.
    """

    def __init__(
        self, clips: Sequence[ListedClip], *, seed: int = 0, drawn: tuple[int, int, int] | None = None
    ) -> None:
        read = headers(clips, seed=seed) if drawn is None else [Header(drawn[0] * drawn[1], drawn[2], 0.0, 0)]
        pixels = sum(header.pixels for header in read)
        self._per_clip = pixels / len(read) if read else float(_UNKNOWN_PIXELS)
        self._per_byte = pixels / max(1, sum(header.bytes for header in read))
        self._per_s = pixels / (sum(header.seconds for header in read) or 1.0)
        self._frame = max((header.frame_pixels for header in read), default=_UNKNOWN_FRAME)

    def of(self, clips: Sequence[ListedClip]) -> Workload:
        """The size of some clips of the collection."""
        return Workload(len(clips), round(sum(map(self._pixels, clips))), self._frame)

    def _pixels(self, clip: ListedClip) -> float:
        if clip.end_s is not None and self._per_s:
            return (clip.end_s - (clip.start_s or 0.0)) * self._per_s
        return clip.bytes * self._per_byte if clip.bytes and self._per_byte else self._per_clip


# --- what jobs take --------------------------------------------------------------------------------------------------

_PER_JOB, _PER_CLIP, _PER_CLIP_OF_MODELS = 0.5, 0.02, 5.0
"""CPU seconds that a job takes beside its pixels; the last, of pretrained models, is not measured."""

SOURCES, VIDEOS, SLOWEST_VIDEOS = 0.006, 0.038, 0.1
"""CPU seconds per million pixels: decoding and hashing clips; a perturbation of MLVP, the mean; the slowest kernel."""

_BYTES_PER_PIXEL = 250
"""Memory of a job of videos per pixel of a frame, of which the encoder holds many: 165 at 1920x1080."""

_MARGIN = 2
"""Between an estimate and a request: other machines, other clips."""


def seconds(work: Workload, rate: float, *, models: bool = False) -> float:
    """CPU seconds of a job that takes `rate` seconds per million pixels of its clips; `models`: pretrained ones run."""
    per_clip = _PER_CLIP_OF_MODELS if models else _PER_CLIP
    return _PER_JOB + work.clips * per_clip + work.megapixels * rate


def minutes(work: Workload, rate: float, *, models: bool = False) -> int:
    """What a job requests as `runtime`: twice its estimate, in half hours, and at least one hour."""
    return requested_minutes(seconds(work, rate, models=models))


def requested_minutes(estimate: float) -> int:
    """What a job requests as `runtime` that takes an estimated number of seconds."""
    return max(60, 30 * math.ceil(_MARGIN * estimate / 1800))


def merge_minutes(rows: int) -> int:
    """What a job that merges rows requests as `runtime`."""
    return 30 + rows // 100_000


def memory_mb(work: Workload, least: int) -> int:
    """What a job requests as `mem_mb`: `least`, and more where frames are large."""
    return max(least, 400 + round(work.frame_pixels * _BYTES_PER_PIXEL / 1e6))


def analyses(config: configuration.Config, dataset: str) -> dict[str, AnalysisRecipe]:
    """The analyses that the configured suites need of a dataset's clips, by name."""
    wanted_by_name = {}
    for suite in config.suites:
        for name, severity in recipe.scenarios(config, suite):
            with suppress(ConfigError):  # a perturbation of time of pictures: reported where it is made
                wanted = recipe.from_config(config, dataset, suite, name, severity).analysis
                wanted_by_name.update({wanted.analysis: wanted} if wanted else {})
    return wanted_by_name


# --- how many clips a shard has --------------------------------------------------------------------------------------

_CLIPS, _SECONDS = 100, 1800
"""The most clips per job, and seconds of the longest job."""

_JOBS, _LONG, _MOST_JOBS = 5000, 12 * 3600, 20_000
"""The most jobs per target, before the above; but where the longest job would take half a day, so many more."""

_FILLED = 0.69
"""Shards are the leaves of a binary trie: so full is one, on average (ln 2)."""


def shard_size(config: configuration.Config, dataset: str, work: Workload) -> int:
    """The most clips per shard: as configured, or derived from the number of jobs and the time of the longest one.

    It is 100 or a part of it; for more clips, so much that the trie has one depth, which further clips do not change.
    """
    if config.shard_size is not None:
        return config.shard_size
    needed = analyses(config, dataset)
    slowest = max([SLOWEST_VIDEOS, *(guides.analysis(name).seconds for name in needed)])
    clips = max(1, work.clips)
    per_clip = seconds(work, slowest) / clips
    size = _CLIPS
    while size > 1 and per_clip * size > _SECONDS:
        size //= 2
    scenarios = max((len(recipe.scenarios(config, suite)) for suite in config.suites), default=0)
    per_shard = scenarios + len(needed) + 1
    if clips / (_FILLED * size) * per_shard <= _JOBS:
        return size
    size = max(size, _of_one_depth(clips, _JOBS // per_shard))
    return size if per_clip * size <= _LONG else _of_one_depth(clips, _MOST_JOBS // per_shard)


def _of_one_depth(clips: int, shards: int) -> int:
    """The size by which clips fall into at most so many shards: a power of two, as a level of the trie has."""
    mean = clips / (1 << int(math.log2(max(1, shards))))
    return math.ceil(mean + 4 * math.sqrt(mean))
