"""What one file may ask for before it is refused. Limits never change a result, so they are in no recipe.

A process has the limits of config.yaml that its rule gives it, or those of `perturb --limits`; forked
children have them too.
"""

from __future__ import annotations

import io
import warnings

from pydantic import Field, ValidationError

from perturbations.base.errors import ConfigError, MediaError, cut
from perturbations.base.records import Record

_MIB = 1 << 20
# A decoder that predicts frames from other frames keeps up to 16 of them and the current one. A decoder of key frames
# only keeps the current frame and the last one.
_KEPT_FRAMES, _KEPT_FRAMES_INTRA = 17, 2
_RGB_BYTES = 3 * 3  # what a converter and its reader hold: 3 frames of 3 bytes per pixel


class Limits(Record):
    """What one file may ask for before its item is refused. Limits change no result and cause no rerun."""

    frame_pixels: int = Field(
        40_000_000, ge=1, description="width x height of a frame, or of an image of a style or of frost"
    )
    frames: int = Field(500_000, ge=1, description="frames of a video file, whole or cut from")
    seconds: int = Field(21_600, ge=1, description="length of a video file, whole or cut from, in s")
    decode_mib: int = Field(
        4096,
        ge=1,
        description="memory that decoding a file takes, in MiB, computed before the first frame is decoded",
    )


DEFAULT = Limits()


_limits = [DEFAULT]


def current() -> Limits:
    """The limits of this process."""
    return _limits[0]


def use(limits: Limits) -> None:
    """Make these the limits of this process."""
    _limits[0] = limits


def parse(document: str) -> Limits:
    """Limits from JSON; a limit that is not in it has its default. Raises `ConfigError` naming the key."""
    try:
        return Limits.model_validate_json(document)
    except ValidationError as error:
        lines = [".".join(("limits", *map(str, line["loc"]))) + f": {line['msg']}" for line in error.errors()]
        raise ConfigError(f"{cut('; '.join(lines), 500)}; known: {', '.join(Limits.model_fields)}") from None


def check_size(width: int, height: int, what: str = "a frame") -> None:
    """Raise `MediaError` when a picture has more pixels than `limits.frame_pixels`."""
    allowed = current().frame_pixels
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
    allowed = current().frames
    if frames > allowed:
        raise MediaError(f"the file has {frames:,} frames or more; limits.frames allows {allowed:,}")


def check_seconds(seconds: float) -> None:
    """Raise `MediaError` when a file is longer than `limits.seconds`."""
    allowed = current().seconds
    if seconds > allowed:
        raise MediaError(f"the file is {seconds:,.0f} s long or more; limits.seconds allows {allowed:,}")


def check_decoder(width: int, height: int, bits: int, *, intra: bool) -> None:
    """Raise `MediaError` when decoding frames of `bits` bits per pixel takes more than `limits.decode_mib`."""
    kept = _KEPT_FRAMES_INTRA if intra else _KEPT_FRAMES
    check_bytes(int(width * height * (kept * bits / 8 + _RGB_BYTES)), f"decoding frames of {width}x{height}")


def check_bytes(size: int, what: str) -> None:
    """Raise `MediaError` when something takes more memory than `limits.decode_mib`; `size` is in bytes."""
    allowed = current().decode_mib
    if size > allowed * _MIB:
        raise MediaError(f"{what} takes {-(-size // _MIB):,} MiB; limits.decode_mib allows {allowed:,}")
