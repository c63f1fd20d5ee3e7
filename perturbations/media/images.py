"""Users' folders of pictures: styles, photographs of frost."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np

from perturbations.base import limits, storage
from perturbations.base.arrays import Image
from perturbations.base.errors import ConfigError, MediaError

_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"}


@lru_cache(maxsize=2)
def listed(role: str, folder: Path) -> tuple[Path, ...]:
    """The images in a folder and below it, sorted by their path. Raises `ConfigError` when there is none."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES and path.is_file())
    if not paths:
        raise ConfigError(f"backends.{role}.images: no image in {folder}; known: {', '.join(sorted(_SUFFIXES))}")
    return tuple(paths)


def checked(role: str, sha256: str, path: str) -> Image:
    """An image, RGB uint8, H x W x 3, whose file must have this hash. Raises `MediaError`."""
    data = Path(path).read_bytes() if Path(path).is_file() else b""
    if storage.sha256_of(data) != sha256:
        raise MediaError(f"the {role} image {path} is not the one that the row describes: missing or changed")
    limits.check_image(data, f"the {role} image {path}")
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
    if image is None:
        raise MediaError(f"the {role} image {path} cannot be read")
    return np.asarray(image, np.uint8)
