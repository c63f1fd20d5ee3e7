"""MSRVTT-P's and MM-Robustness's perturbations in the plain way, beside which `suite_kernels.py` measures ours."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import cv2
import numpy as np
from kernels import plain_elastic_distortion, plain_fog, plain_snow, to_uint8
from PIL import Image as Pillow
from scipy import ndimage
from skimage import color, filters, util

# --- the plain formulas: of a frame and a generator, as the image code has them --------------------------------------


def gaussian_noise(frame: np.ndarray, generator: np.random.Generator, *, sigma: float) -> np.ndarray:
    return to_uint8(frame / 255.0 + generator.normal(size=frame.shape, scale=sigma))


def shot_noise(frame: np.ndarray, generator: np.random.Generator, *, rate: float) -> np.ndarray:
    return to_uint8(generator.poisson(frame / 255.0 * rate) / rate)


def impulse_noise(frame: np.ndarray, generator: np.random.Generator, *, amount: float) -> np.ndarray:
    return to_uint8(util.random_noise(frame / 255.0, mode="s&p", amount=amount, rng=generator))


def speckle_noise(frame: np.ndarray, generator: np.random.Generator, *, scale: float) -> np.ndarray:
    x = frame / 255.0
    return to_uint8(x + x * generator.normal(size=x.shape, scale=scale))


def defocus_blur(frame: np.ndarray, generator: np.random.Generator, *, radius: int, alias: float) -> np.ndarray:
    reach, taps = max(8, radius), 3 if radius <= 8 else 5
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disk = (x**2 + y**2 <= radius**2).astype(np.float32)
    kernel = cv2.GaussianBlur(disk / disk.sum(), (taps, taps), sigmaX=alias)
    values = frame / 255.0
    return to_uint8(np.dstack([cv2.filter2D(values[..., channel], -1, kernel) for channel in range(3)]))


def motion_blur(frame: np.ndarray, generator: np.random.Generator, *, radius: int, sigma: float) -> np.ndarray:
    """imagecorruptions' own, which stands in for ImageMagick: shifted copies, weighted."""
    angle = math.radians(generator.uniform(-45, 45))
    weights = np.exp(-(np.arange(2 * radius + 1) ** 2) / (2 * sigma**2))
    weights /= weights.sum()
    blurred = np.zeros(frame.shape, np.float32)
    height, width = frame.shape[:2]
    for tap, weight in enumerate(weights):
        down, right = (math.ceil(tap * part - 0.5) for part in (math.sin(angle), math.cos(angle)))
        if abs(down) >= height or right >= width:
            break
        shifted = np.roll(frame, (-down, -right), axis=(0, 1))
        if right > 0:
            shifted[:, -right:] = shifted[:, -right - 1 : -right]
        if down > 0:
            shifted[-down:] = shifted[-down - 1 : -down]
        elif down < 0:
            shifted[:-down] = shifted[-down : -down + 1]
        blurred = blurred + weight * shifted
    return np.clip(blurred, 0, 255).astype(np.uint8)


def zoom_blur(frame: np.ndarray, generator: np.random.Generator, *, stop: float, step: float) -> np.ndarray:
    x = (frame / 255.0).astype(np.float32)
    total = np.zeros_like(x)
    factors = np.arange(1, stop, step)
    for factor in factors:
        parts = [math.ceil(side / factor) for side in x.shape[:2]]
        top, left = ((side - part) // 2 for side, part in zip(x.shape, parts, strict=False))
        zoomed = ndimage.zoom(x[top : top + parts[0], left : left + parts[1]], (factor, factor, 1), order=1)
        down, right = ((whole - side) // 2 for whole, side in zip(zoomed.shape[:2], x.shape[:2], strict=True))
        total += zoomed[down : down + x.shape[0], right : right + x.shape[1]]
    return to_uint8((x + total) / (len(factors) + 1))


def glass_blur(
    frame: np.ndarray, generator: np.random.Generator, *, sigma: float, delta: int, iterations: int
) -> np.ndarray:
    """The loops over pixels stand for nothing here: a compiled one costs a few milliseconds, Python's a second."""
    x = to_uint8(filters.gaussian(frame / 255.0, sigma=sigma, channel_axis=-1))
    height, width = x.shape[:2]
    rows, columns = np.mgrid[:height, :width]
    for _ in range(iterations):
        down, right = generator.integers(-delta, delta, (2, height, width))
        x = x[np.clip(rows + down, 0, height - 1), np.clip(columns + right, 0, width - 1)]
    return to_uint8(filters.gaussian(x / 255.0, sigma=sigma, channel_axis=-1))


def rotate(frame: np.ndarray, generator: np.random.Generator, *, degrees: float) -> np.ndarray:
    return np.array(Pillow.fromarray(frame).rotate(degrees))


def rotate_at_random(frame: np.ndarray, generator: np.random.Generator, *, most_degrees: int) -> np.ndarray:
    return np.array(Pillow.fromarray(frame).rotate(int(generator.integers(-most_degrees, most_degrees + 1))))


def translate(frame: np.ndarray, generator: np.random.Generator, *, reach: int) -> np.ndarray:
    height, width = frame.shape[:2]
    scale = 256 / min(height, width)
    wide = cv2.resize(frame, (round(width * scale), round(height * scale)))
    x, y = generator.integers(0, reach, 2)
    window = wide[y : y + round(wide.shape[0] * 7 / 8), x : x + round(wide.shape[1] * 7 / 8)]
    return cv2.resize(window, (width, height))


def frost(frame: np.ndarray, generator: np.random.Generator, *, kept: float, added: float) -> np.ndarray:
    texture = frost_texture(*frame.shape[:2])
    y, x = (generator.integers(0, whole - part) for whole, part in zip(texture.shape, frame.shape[:2], strict=False))
    ice = texture[y : y + frame.shape[0], x : x + frame.shape[1]]
    return np.clip(kept * frame + added * ice, 0, 255).astype(np.uint8)


@cache
def frost_texture(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (2 * height, 2 * width, 3), dtype=np.uint8)


def brightness(frame: np.ndarray, generator: np.random.Generator, *, added: float) -> np.ndarray:
    hsv = color.rgb2hsv(frame / 255.0)
    hsv[..., 2] = np.clip(hsv[..., 2] + added, 0, 1)
    return to_uint8(color.hsv2rgb(hsv))


def contrast(frame: np.ndarray, generator: np.random.Generator, *, factor: float) -> np.ndarray:
    x = frame / 255.0
    means = np.mean(x, axis=(0, 1), keepdims=True)
    return to_uint8((x - means) * factor + means)


def pixelate(frame: np.ndarray, generator: np.random.Generator, *, scale: float) -> np.ndarray:
    picture = Pillow.fromarray(frame)
    coarse = picture.resize((int(picture.width * scale), int(picture.height * scale)), Pillow.Resampling.BOX)
    return np.array(coarse.resize(picture.size, Pillow.Resampling.BOX))


def jpeg(frame: np.ndarray, generator: np.random.Generator, *, quality: int) -> np.ndarray:
    encoded = io.BytesIO()
    Pillow.fromarray(frame).save(encoded, "JPEG", quality=quality)
    return np.array(Pillow.open(encoded))


PLAIN: dict[str, Callable[..., np.ndarray]] = {
    "gaussian_noise": gaussian_noise,
    "shot_noise": shot_noise,
    "impulse_noise": impulse_noise,
    "speckle_noise": speckle_noise,
    "defocus_blur": defocus_blur,
    "motion_blur": motion_blur,
    "zoom_blur": zoom_blur,
    "glass_blur": glass_blur,
    "static_rotate": rotate,
    "rotate": rotate_at_random,
    "translate": translate,
    "frost": frost,
    "brightness": brightness,
    "contrast": contrast,
    "pixelate": pixelate,
    "jpeg": jpeg,
    "jpeg_compression": jpeg,
}
# These take what our kernels draw, and prepare it once per clip.
PREPARED: dict[str, Callable[..., Any]] = {
    "snow": plain_snow,
    "fog": plain_fog,
    "elastic_transform": plain_elastic_distortion,
}


# --- the plain orders: of a list of frames and a generator -----------------------------------------------------------

Frames = list[np.ndarray]


def segments_of(frames: Frames, length: int) -> list[Frames]:
    return [frames[start : start + length] for start in range(0, len(frames), length)]


def jumble(frames: Frames, generator: np.random.Generator, *, length: int) -> Frames:
    shuffled: Frames = []
    for segment in segments_of(frames, length):
        shuffled += [segment[place] for place in generator.permutation(len(segment))]
    return shuffled


def box_jumble(frames: Frames, generator: np.random.Generator, *, length: int) -> Frames:
    segments = segments_of(frames, length)
    return [frame for place in generator.permutation(len(segments)) for frame in segments[place]]


def sampling(frames: Frames, generator: np.random.Generator, *, rate: int) -> Frames:
    return [frame for frame in frames[::rate] for _ in range(rate)][: len(frames)]


def reverse_sampling(frames: Frames, generator: np.random.Generator, *, rate: int) -> Frames:
    return sampling(frames, generator, rate=rate)[::-1]


def freeze(frames: Frames, generator: np.random.Generator, *, kept: float) -> Frames:
    shown = {0, *generator.choice(len(frames), int(kept * len(frames)), replace=False).tolist()}
    frozen: Frames = []
    for index, frame in enumerate(frames):
        frozen.append(frame if index in shown else frozen[-1])
    return frozen


ORDERS: dict[str, Callable[..., Frames]] = {
    "jumble": jumble,
    "box_jumble": box_jumble,
    "sampling": sampling,
    "reverse_sampling": reverse_sampling,
    "freeze": freeze,
}
