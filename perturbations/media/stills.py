"""Pictures: items of one frame without a clock, and users' folders of styles and of frost."""

from __future__ import annotations

import io
import os
import stat
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np

from perturbations.base import limits, storage, tars
from perturbations.base.arrays import Image
from perturbations.base.errors import ConfigError, MediaError
from perturbations.media.clip import VideoInfo
from perturbations.media.profiles import Profile

if TYPE_CHECKING:
    from PIL import Image as Pillow

_FORMATS = ("JPEG", "PNG", "WEBP")
_CODECS = {"JPEG": "mjpeg", "MPO": "mjpeg", "PNG": "png", "WEBP": "webp"}
_ORIENTATION = 0x0112
_TURNED = {3: 180, 6: 90, 8: 270}
_TRANSPOSED = (5, 6, 7, 8)


def read(path: Path) -> Image:
    """The picture, as `upright_rgb` gives it.

    Raises `MediaError` for a file that is damaged, is larger than the limits allow, or has 16 bits per sample, CMYK
    colours or several frames.
    """
    with _opened(path) as picture:
        return upright_rgb(picture)


def upright_rgb(picture: Pillow.Image) -> Image:
    """A picture of Pillow, RGB uint8, H x W x 3, upright: its EXIF orientation is applied.

    Grey, palettes and other spaces of colours become RGB; an alpha channel is left out. Raises `MediaError` as `read`.
    """
    from PIL import ImageOps  # not at the top: jobs on videos import this module

    with _decoding():
        _check(picture)
        if picture.mode == "La":  # Pillow knows its way to RGB by LA alone
            picture = picture.convert("LA")
        return np.array(ImageOps.exif_transpose(picture).convert("RGB"), np.uint8)


def describe(path: Path) -> VideoInfo:
    """The picture's header, as one frame with a nominal clock of 1 s. Raises `MediaError` as `read` does."""
    with _opened(path) as picture:
        orientation = picture.getexif().get(_ORIENTATION, 1)
        width, height = picture.size[::-1] if orientation in _TRANSPOSED else picture.size
        has_alpha = "A" in picture.getbands() or "transparency" in picture.info
        return VideoInfo(
            codec=_CODECS[picture.format or ""],
            pix_fmt=picture.mode.lower(),
            width=width,
            height=height,
            rotation=_TURNED.get(orientation, 0),
            sample_aspect=Fraction(1),
            primaries=1,
            transfer=13,  # sRGB
            losses=("alpha",) if has_alpha else (),
            frame_rate=Fraction(1),
            time_base=Fraction(1),
            declared_frames=1,
            declared_duration_s=None,
        )


@contextmanager
def _opened(path: Path) -> Iterator[Pillow.Image]:
    from PIL import Image as Pillow

    data = _bytes(path)
    with _decoding(), warnings.catch_warnings():
        warnings.simplefilter("ignore", Pillow.DecompressionBombWarning)  # this package's own limit counts
        with Pillow.open(io.BytesIO(data), formats=_FORMATS) as picture:
            limits.check_size(*picture.size, "a picture")
            _check(picture)
            yield picture


@contextmanager
def _decoding() -> Iterator[None]:
    """Turn the errors of Pillow's readers into `MediaError`."""
    from PIL import Image as Pillow
    from PIL import UnidentifiedImageError

    try:
        yield
    except UnidentifiedImageError:
        raise MediaError("not a picture: JPEG, PNG and WebP are read") from None
    except Pillow.DecompressionBombError as error:
        raise MediaError(f"it has too many pixels, whatever limits.frame_pixels allows: {error}") from None
    except (OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError, OverflowError, struct.error) as error:
        # Pillow's readers raise any of these for damaged files.
        raise MediaError(f"the picture cannot be decoded: {error}") from error


def _bytes(path: Path) -> bytes:
    try:
        held, _, size = tars.at(path)
        if not stat.S_ISREG(os.stat(held).st_mode):
            raise MediaError("not a regular file")
        limits.check_bytes(size, "reading the file")
        with tars.opened(path) as file:
            data = file.read()
    except FileNotFoundError as error:
        raise MediaError("no such file") from error
    except OSError as error:
        raise MediaError(f"cannot be read: {os.strerror(error.errno or 0)}") from error
    if not data:
        raise MediaError("the file is empty")
    return data


def _check(picture: Pillow.Image) -> None:
    """Raise `MediaError` for a picture that cannot become 8-bit RGB in one obvious way."""
    if getattr(picture, "n_frames", 1) > 1 and picture.format != "MPO":  # of a JPEG's views, the first counts
        raise MediaError("an animated picture: only pictures of one frame are read")
    if picture.mode[0] in "IF" or has_lost_bits(picture):
        raise MediaError("a picture of 16 bits or more per sample: convert it to 8")
    if picture.mode in ("CMYK", "YCCK"):
        raise MediaError("a CMYK picture, whose colours need a profile: convert it to RGB")


def has_lost_bits(picture: Pillow.Image) -> bool:
    """Whether Pillow reads 8 of the 16 bits per sample of the picture's file."""
    return ";16" in str(getattr(picture, "tile", ""))


def write(image: Image, path: Path, profile: Profile) -> str:
    """Write a picture, RGB uint8, as a profile of `profiles.PICTURES` says, and return its pixel format."""
    quality = [cv2.IMWRITE_JPEG_QUALITY, int(profile.options["quality"])] if "quality" in profile.options else []
    done, data = cv2.imencode(profile.extension, np.ascontiguousarray(image[:, :, ::-1]), quality)
    if not done:
        raise MediaError(f"a picture of {image.shape[1]}x{image.shape[0]} cannot be stored as {profile.extension}")
    path.write_bytes(data.tobytes())
    return profile.pix_fmt


# --- users' folders ---------------------------------------------------------------------------------------------------

_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"}


@lru_cache(maxsize=2)
def images_in(role: str, folder: Path) -> tuple[Path, ...]:
    """The images in a folder and below it, sorted by their path. Raises `ConfigError` when there is none."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES and path.is_file())
    if not paths:
        raise ConfigError(f"backends.{role}.images: no image in {folder}; known: {', '.join(sorted(_SUFFIXES))}")
    return tuple(paths)


def checked_image(role: str, sha256: str, path: str) -> Image:
    """An image, RGB uint8, H x W x 3, whose file must have this hash. Raises `MediaError`."""
    data = Path(path).read_bytes() if Path(path).is_file() else b""
    if storage.sha256_of(data) != sha256:
        raise MediaError(f"the {role} image {path} is not the one that the row describes: missing or changed")
    limits.check_image(data, f"the {role} image {path}")
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
    if image is None:
        raise MediaError(f"the {role} image {path} cannot be read")
    return np.asarray(image, np.uint8)
