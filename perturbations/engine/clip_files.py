"""A quick look at the files of clips: which cannot be videos, and how many pixels they have.

Nothing is decoded: of each file a few bytes are read, of a few clips the header.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from perturbations.base.errors import MediaError
from perturbations.base.storage import sha256_of
from perturbations.media.containers import structure
from perturbations.plan.listed import ListedClip

_MOST_SAMPLED = 20
"""Clips whose header is read."""

BYTES_PER_PIXEL = {
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

_HEAD = 64
_TEXTS_OF_VIDEOS = (b"YUV4MPEG2", b"nut/multimedia")


def unreadable(clips: Sequence[ListedClip]) -> dict[str, str]:
    """Path -> why a file is no whole video: by its first bytes and its declared size. Others may be damaged too."""
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
    try:
        structure.check_length(Path(path))
    except MediaError as error:
        return str(error)
    return None


def mean_pixels(clips: Sequence[ListedClip], stored_frames: int | None, *, seed: int = 0) -> float | None:
    """How many pixels of a clip are stored: of all its frames, or of `stored_frames` of them; the mean of a sample.

    The sample is the same one in each run. None where no clip could be read.
    """
    chosen = sorted(clips, key=lambda clip: sha256_of(f"{seed} {clip.item_id!r} {clip.path!r}".encode()))
    sampled = [pixels for clip in chosen[:_MOST_SAMPLED] if (pixels := _pixels(clip, stored_frames))]
    return sum(sampled) / len(sampled) if sampled else None


def _pixels(clip: ListedClip, stored_frames: int | None) -> float | None:
    """The pixels of a clip's stored frames, from its file's header; None where that does not say it."""
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
