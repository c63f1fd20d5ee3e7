"""A table of captions and a folder of pictures: your own dataset of images."""

from __future__ import annotations

from dataclasses import replace

from perturbations.base.storage import PICTURE_EXTENSIONS
from perturbations.datasets import folder

ADAPTER = replace(
    folder.ADAPTER,
    name="pictures",
    title="your own pictures",
    extensions=PICTURE_EXTENSIONS,
    pictures=True,
    spans=False,
)
