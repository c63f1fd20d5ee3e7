"""A table of captions and a folder of pictures: your own dataset of images."""

from __future__ import annotations

from dataclasses import replace

from perturbations.datasets import folder
from perturbations.media.profiles import PICTURE_EXTENSIONS

ADAPTER = replace(
    folder.ADAPTER,
    name="pictures",
    title="your own pictures",
    extensions=PICTURE_EXTENSIONS,
    pictures=True,
    spans=False,
)
