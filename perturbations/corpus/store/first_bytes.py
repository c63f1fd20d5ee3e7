"""A quick look at the files of clips: which cannot be read, and how large perturbed clips will be."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from perturbations.base.errors import MediaError
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.media import containers, profiles

BYTES_PER_PIXEL = {
    "lossless": 0.9,
    "high": 0.4,
    "compatible": 0.08,
    "released": 0.09,
    "frames": 0.95,
    "recipe": 0.0,
    "png": 2.0,
    "jpeg": 0.5,
}
"""Bytes of a perturbed clip per stored pixel, by tier or profile: the mean of all scenarios on clips of MSR-VTT.

A whole suite is within a factor of 2 of this mean; noise is above, blur and transmission are below.
"""

_HEAD = 64
_JPEG_SCAN, _JPEG_END = b"\xff\xda", b"\xff\xd9"
"""Markers that never occur in pixel data: before a scan, and at the end of a picture (ITU-T T.81, B.1.1)."""
_TEXTS_OF_VIDEOS = (b"YUV4MPEG2", b"nut/multimedia")


def unreadable(clips: Sequence[ListedClip]) -> dict[str, str]:
    """Path -> why a file is no whole video, by its first bytes and its declared size. Further files may be damaged."""
    there = {clip.path for clip in clips if clip.bytes is not None}  # others are not generated yet
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
        return "the file holds text"
    try:
        if profiles.is_picture(path):
            return _picture_problem(Path(path))
        containers.check_length(Path(path))
    except MediaError as error:
        return str(error)
    return None


def _picture_problem(path: Path) -> str | None:
    with suppress(ImportError):  # Snakemake's own environment may have no decoder; the jobs' has
        from perturbations.media import stills

        if stills.describe(path).codec == "mjpeg":
            data = path.read_bytes()
            if data.rfind(_JPEG_END) < data.rfind(_JPEG_SCAN):  # its pixels are cut short
                stills.read(path)
    return None
