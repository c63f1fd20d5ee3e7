"""PSNR and mean squares of frames."""

from __future__ import annotations

import numpy as np

from perturbations.media import quality
from perturbations.media.clip import Image


def psnr(*pairs: tuple[Image, Image]) -> float:
    distortion = quality.Distortion(structural=False)
    for first, second in pairs:
        distortion.add(first, second)
    return distortion.psnr_db


AT_45_DB = 255**2 / 10**4.5


def mean_square(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.mean((first.astype(float) - second) ** 2))
