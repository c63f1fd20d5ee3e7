"""PSNR against hand-computed numbers, SSIM against scikit-image."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_scenes import psnr
from looping import each
from skimage.metrics import structural_similarity

from perturbations.media import quality
from perturbations.media.clip import Image


def flat(value: int, height: int = 12, width: int = 16) -> Image:
    return np.full((height, width, 3), value, np.uint8)


def textured(height: int, width: int, seed: int = 0) -> Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (height // 4 + 2, width // 4 + 2, 3), dtype=np.uint8)
    return cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)


# --- PSNR ------------------------------------------------------------------------------------------------------------


def test_psnr_is_over_all_frames_together_and_does_not_overflow() -> None:
    pairs = [(flat(0), flat(0)), (flat(0), flat(10))]
    assert psnr(*pairs) == pytest.approx(10 * math.log10(255**2 / 50))
    small = [(flat(0, 1, 1), flat(30, 1, 1)), (flat(0, 3, 3), flat(0, 3, 3))]
    assert psnr(*small) == pytest.approx(10 * math.log10(255**2 / 90))
    black, white = flat(0, 1080, 1920), flat(255, 1080, 1920)
    assert psnr(*[(black, white)] * 3) == pytest.approx(0, abs=1e-9)
    assert psnr((flat(7), flat(7))) == math.inf
    nothing = quality.Distortion(structural=True)
    assert (nothing.psnr_db, nothing.ssim) == (None, None)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9))
def test_psnr_is_that_of_the_formula(seed: int, height: int, width: int) -> None:
    first, second = np.random.default_rng(seed).integers(0, 256, (2, height, width, 3), dtype=np.uint8)
    error = np.mean((first.astype(float) - second) ** 2)
    expected = 10 * math.log10(255**2 / error) if error else math.inf
    assert psnr((first, second)) == pytest.approx(expected)


@pytest.mark.parametrize("shape", [(12, 17, 3), (11, 16, 3), (12, 16, 1)])
def test_frames_of_two_shapes_are_refused(shape: tuple[int, ...]) -> None:
    distortion = quality.Distortion(structural=True)
    with pytest.raises(ValueError, match=r"frames of \(12, 16, 3\) and .* cannot be compared"):
        distortion.add(flat(0), np.zeros(shape, np.uint8))


# --- SSIM ------------------------------------------------------------------------------------------------------------

CHANGES = {
    "noise": lambda image: cv2.add(image, np.random.default_rng(1).integers(0, 60, image.shape, dtype=np.uint8)),
    "blur": lambda image: cv2.GaussianBlur(image, (0, 0), 1.5),
    "darker": lambda image: image // 3,
    "inverted": lambda image: 255 - image,
    "other": lambda image: textured(*image.shape[:2], seed=5),
    "black": np.zeros_like,
    "red": lambda image: image * np.array([1, 0, 0], np.uint8),
}


def reference_ssim(first: Image, second: Image) -> float:
    grey = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (first, second)]
    similarity: float = structural_similarity(*grey, data_range=255)
    return similarity


@each("change", CHANGES)
@each("size", [(48, 64), (53, 37), (7, 7), (8, 90)])
def test_ssim_is_that_of_scikit_image(size: tuple[int, int], change: str) -> None:
    image = textured(*size)
    changed = np.ascontiguousarray(CHANGES[change](image))
    assert quality.ssim(image, changed) == pytest.approx(reference_ssim(image, changed), abs=1e-3)


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (6, 6), (3, 40), (40, 2), (7, 6)])
def test_ssim_of_tiny_images_is_a_number(size: tuple[int, int]) -> None:
    image = textured(*size)
    assert quality.ssim(image, image) == pytest.approx(1)
    assert -1 <= quality.ssim(image, 255 - image) < 0.99


def test_ssim_of_equal_and_of_flat_images_and_its_mean_over_frames() -> None:
    image = textured(48, 64)
    assert quality.ssim(image, image) == pytest.approx(1, abs=1e-6)
    assert quality.ssim(flat(100), flat(100)) == pytest.approx(1, abs=1e-6)
    # No structure: the means' term alone, (2 * 100 * 150 + C1) / (100^2 + 150^2 + C1).
    assert quality.ssim(flat(100), flat(150)) == pytest.approx(30006.5025 / 32506.5025, abs=1e-4)
    distortion = quality.Distortion(structural=True)
    for other in (image, 255 - image, image // 2):
        distortion.add(image, other)
    expected = np.mean([quality.ssim(image, other) for other in (image, 255 - image, image // 2)])
    assert distortion.ssim == pytest.approx(float(expected))
