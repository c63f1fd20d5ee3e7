"""What jobs request of a cluster, from the largest clip of a plan, and the pixels of clips. Estimates change no result.

    runtime = 2 x clips of a job x (0.02 s + 0.1 s per million pixels of all frames of the largest clip); at least 1 h
    mem_mb  = 400 + 250 bytes per pixel of a frame of the largest clip; at least what the job's libraries take

Each attempt doubles both, up to what its partition allows. The largest clip is that of the largest file, or of the
longest span. Rates were measured (docs/measurements/performance.md).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

from perturbations.base.errors import MediaError
from perturbations.base.storage import sha256_of
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.media.profiles import is_picture

_S_PER_MEGAPIXEL, _S_PER_CLIP, _S_PER_CLIP_OF_MODELS = 0.1, 0.02, 5.0
"""CPU seconds of the slowest kernel per million pixels; per clip; per clip of pretrained models (not measured)."""

_BYTES_PER_PIXEL = 250
"""Memory of a job of videos per pixel of a frame. The encoder holds many frames: 165 at 1920x1080."""

_SAMPLED = 20
"""How many clips' headers are read to estimate the size of all clips."""


ClipSize = tuple[int, float]
"""The pixels of a frame of a clip, and its frames."""

LIMITS: dict[tuple[str, str], int] = {}
"""What Slurm allows the jobs of a rule, by the rule and `runtime` or `mem_mb`: the check before the first job asks."""

UNKNOWN: ClipSize = (640 * 360, 130)
"""The assumed size of a clip whose header cannot be read: MSR-VTT has 27 million pixels per clip."""


def largest(clips: Sequence[ListedClip]) -> ClipSize:
    """The size of the clip that has the longest span, or else the largest file."""
    clip = max(clips, key=lambda clip: ((clip.end_s or 0.0) - (clip.start_s or 0.0), clip.bytes or 0), default=None)
    return (clip and _sizes([clip])[0]) or UNKNOWN


def minutes(clip: ClipSize, clips: int, *, models: bool = False) -> int:
    """`runtime` of a job of `clips` clips, of at most the size `clip`. `models`: whether pretrained models run."""
    per_clip = _S_PER_CLIP_OF_MODELS if models else _S_PER_CLIP
    seconds = clips * (per_clip + math.prod(clip) / 1e6 * _S_PER_MEGAPIXEL)
    return max(60, 30 * math.ceil(2 * seconds / 1800))  # in half hours


def memory_mb(clip: ClipSize, least: int) -> int:
    """`mem_mb` of a job whose libraries and models take `least`."""
    return max(least, 400 + round(clip[0] * _BYTES_PER_PIXEL / 1e6))


def mean_pixels(clips: Sequence[ListedClip], stored_frames: int | None = None) -> float | None:
    """How many pixels of a clip are stored: of all its frames, or of `stored_frames` of them; the mean of a sample.

    The sample is the same in each run. None where no sampled clip can be read.
    """
    sample = heapq.nsmallest(_SAMPLED, clips, key=lambda clip: sha256_of(f"{clip.item_id!r} {clip.path!r}".encode()))
    pixels = [size[0] * (stored_frames or size[1]) for size in _sizes(sample) if size]
    return sum(pixels) / len(pixels) if pixels else None


def _sizes(clips: Iterable[ListedClip]) -> list[ClipSize | None]:
    """The sizes in the headers of clips; None for a clip that cannot be read, and where PyAV is missing."""
    try:
        return [_size(clip) for clip in clips]
    except ImportError:  # Snakemake's own environment may have no decoder; the jobs' has
        return [None]


def _size(clip: ListedClip) -> ClipSize | None:
    from perturbations.media import opening, stills

    path = Path(clip.path)
    try:
        if is_picture(clip.path):
            described = stills.describe(path)
            return described.width * described.height, 1
        with opening.opened(path) as container:
            stream = opening.video_stream(path, container)
            pixels = stream.codec_context.width * stream.codec_context.height
            rate = stream.average_rate or stream.guessed_rate or Fraction(25)
            seconds = opening.declared_duration_s(stream) or (container.duration or 0) / 1e6
            frames = float(opening.declared_frames(stream) or seconds * rate)
    except (MediaError, OSError, ValueError):
        return None
    if clip.end_s is not None:
        frames = (clip.end_s - (clip.start_s or 0.0)) * float(rate)
    return (pixels, frames) if pixels > 0 and 0 < frames < math.inf else None
