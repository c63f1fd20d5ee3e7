"""What one file may ask for before it is refused. Limits never change a result, so they are in no recipe.

A process has the limits of config.yaml that its rule gives it, or those of `perturb --limits`; forked
children have them too.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping

from perturbations.base.errors import MediaError

_MIB = 1 << 20
# A decoder that predicts frames from other frames keeps up to 16 of them and the current one. A decoder of key frames
# only keeps the current frame and the last one.
_KEPT_FRAMES, _KEPT_FRAMES_INTRA = 17, 2
_RGB_BYTES = 3 * 3  # what a converter and its reader hold: 3 frames of 3 bytes per pixel


DEFAULTS = {"frame_pixels": 40_000_000, "frames": 500_000, "seconds": 21_600, "decode_mib": 4096}
"""The limits, which `base.settings.Limits` explains, of a process that was given none."""

_current = DEFAULTS


def current() -> Mapping[str, int]:
    """The limits of this process."""
    return _current


def use(limits: Mapping[str, int]) -> None:
    """Make these the limits of this process; one that is not named has its default."""
    global _current
    _current = {**DEFAULTS, **limits}


def check_size(width: int, height: int, what: str = "a frame") -> None:
    """Raise `MediaError` when a picture has more pixels than `limits.frame_pixels`."""
    allowed = current()["frame_pixels"]
    if width * height > allowed:
        raise MediaError(
            f"{what} of {width}x{height} has {width * height:,} pixels; limits.frame_pixels allows {allowed:,}"
        )


def check_image(data: bytes, what: str) -> None:
    """Raise `MediaError` when a JPEG, PNG, WebP, BMP or TIFF has too many pixels, or cannot be read."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # ours is the limit that counts
            with Image.open(io.BytesIO(data)) as image:  # reads the header only
                width, height = image.size
    except Image.DecompressionBombError as error:
        raise MediaError(f"{what} has too many pixels, whatever limits.frame_pixels allows: {error}") from error
    except (OSError, ValueError, SyntaxError) as error:
        raise MediaError(f"{what} cannot be read") from error
    check_size(width, height, what)


def check_frames(frames: int) -> None:
    """Raise `MediaError` when a file has more frames than `limits.frames`."""
    allowed = current()["frames"]
    if frames > allowed:
        raise MediaError(f"the file has {frames:,} frames or more; limits.frames allows {allowed:,}")


def check_seconds(seconds: float) -> None:
    """Raise `MediaError` when a file is longer than `limits.seconds`."""
    allowed = current()["seconds"]
    if seconds > allowed:
        raise MediaError(f"the file is {seconds:,.0f} s long or more; limits.seconds allows {allowed:,}")


def check_decoder(width: int, height: int, bits: int, *, intra: bool) -> None:
    """Raise `MediaError` when decoding frames of `bits` bits per pixel takes more than `limits.decode_mib`."""
    kept = _KEPT_FRAMES_INTRA if intra else _KEPT_FRAMES
    check_bytes(int(width * height * (kept * bits / 8 + _RGB_BYTES)), f"decoding frames of {width}x{height}")


def check_bytes(size: int, what: str) -> None:
    """Raise `MediaError` when something takes more memory than `limits.decode_mib`; `size` is in bytes."""
    allowed = current()["decode_mib"]
    if size > allowed * _MIB:
        raise MediaError(f"{what} takes {-(-size // _MIB):,} MiB; limits.decode_mib allows {allowed:,}")
