"""How clips are stored: profiles of videos and pictures, and extensions. Standard library only: planning needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Profile:
    """How a corpus video is stored: the encoder, its input format and its settings.

    `pixel_bits` is the target bitrate in bits per pixel, for encoders that are given a bitrate; their frames follow
    each other at a constant rate, whatever their times. `key_frames` is the number of uniformly sampled frames that are
    key frames, so that a reader of these frames decodes no other frames. `extension` is the file's extension.
    """

    codec: str
    pix_fmt: str
    options: Mapping[str, str]
    pixel_bits: int | None = None
    key_frames: int | None = None
    extension: str = ".mp4"


_SAMPLED = 12
"""The number of frames of a clip that an evaluation reads, as in the papers."""

# `high` is RGB (4:4:4) and not YUV 4:4:4: the same size and PSNR, but no colour conversion on either way. Key frames of
# the same quality as the others (`ipratio=1`) add 3 % to a corpus.
PROFILES: dict[str, Profile] = {
    "lossless": Profile(
        "libx264rgb",
        "rgb24",
        {"preset": "ultrafast", "qp": "0", "forced-idr": "1"},
        key_frames=_SAMPLED,
    ),
    "high": Profile(
        "libx264rgb",
        "rgb24",
        {"preset": "ultrafast", "qp": "18", "forced-idr": "1", "x264-params": "ipratio=1"},
        key_frames=_SAMPLED,
    ),
    "compatible": Profile(
        "libx264",
        "yuv420p",
        {"preset": "veryfast", "crf": "17", "x264-params": "cpu-independent=1"},
    ),
    # What OpenCV's VideoWriter sets for "mp4v", with which the authors of MSRVTT-P wrote their videos.
    "released": Profile("mpeg4", "yuv420p", {"g": "12", "qmin": "3"}, pixel_bits=2),
}
PICTURES: dict[str, Profile] = {
    "png": Profile("png", "rgb24", {}, extension=".png"),
    # As the authors of MM-Robustness stored perturbed pictures: what OpenCV's `imwrite` does.
    "jpeg": Profile("mjpeg", "yuvj420p", {"quality": "95"}, extension=".jpg"),
}
"""How a perturbed picture is stored."""


def profile_named(name: str) -> Profile:
    """A profile of videos or of pictures. Raises `KeyError`."""
    return PICTURES[name] if name in PICTURES else PROFILES[name]


FRAMES_EXTENSION = ".npy.zst"
"""The extension of a file of sampled frames: a zstd-compressed NumPy array."""

PICTURE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp")


def is_picture(path: Path | str) -> bool:
    """Whether a file is read as a picture: a clip of one frame without a clock. Its name decides."""
    return str(path).lower().endswith(PICTURE_EXTENSIONS)
