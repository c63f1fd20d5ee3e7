"""Mean PSNR of MM-Robustness as released, beside plain transcriptions of what its code does.

    python benchmarks/released_mm_robustness.py CLIP ... [--frames 2] [--severities 1 2 3 4 5]

Each clip's frames are spread over it, and each counts as a clip: it draws anew. Where a single draw decides much (an
angle, a field, a map of fog, flakes of snow), both sides get the kernel's; noise and glass draw their own. The
transcriptions are in double precision, pixel by pixel or with SciPy, scikit-image and Pillow, and share no code with
the kernels. What MM-Robustness takes from ImageNet-C unchanged (impulse noise, motion blur) is among them; stylize is
not, because its networks have no plain form without their weights. Pixelate changes a frame's sides, so both the clean
frame and the result are seen at 224 x 224.

Prints decibels, ours and plain, and exits with 1 where two differ by more than .3.
"""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image as Pillow
from scipy import ndimage
from skimage import color, filters, util

from perturbations.base import rng
from perturbations.media import decoding
from perturbations.media.clip import Clip
from perturbations.suites import registry

AGREE_DB = 0.3
Plain = Callable[..., np.ndarray]


def stored(levels: np.ndarray) -> np.ndarray:
    """What `cv2.imwrite` makes of floats: halves go to the even level."""
    return np.rint(np.clip(levels, 0, 255)).astype(np.uint8)


# --- transcriptions: (frame, the kernel's draw, a generator, parameters) -> picture ----------------------------------


def gaussian_noise(x: np.ndarray, drawn: Any, own: np.random.Generator, *, sigma: float) -> np.ndarray:
    return stored(255 * np.clip(x / 255 + own.normal(0, sigma, x.shape), 0, 1))


def shot_noise(x: np.ndarray, drawn: Any, own: np.random.Generator, *, rate: float) -> np.ndarray:
    return stored(255 * np.clip(own.poisson(x / 255 * rate) / rate, 0, 1))


def impulse_noise(x: np.ndarray, drawn: Any, own: np.random.Generator, *, amount: float) -> np.ndarray:
    return stored(255 * util.random_noise(x / 255, mode="s&p", amount=amount, rng=own))


def speckle_noise(x: np.ndarray, drawn: Any, own: np.random.Generator, *, scale: float) -> np.ndarray:
    return stored(255 * np.clip(x / 255 * (1 + own.normal(0, scale, x.shape)), 0, 1))


def defocus_blur(x: np.ndarray, drawn: Any, own: np.random.Generator, *, radius: int, alias: float) -> np.ndarray:
    reach, taps = (8, 3) if radius <= 8 else (radius, 5)
    y, across = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disk = (y**2 + across**2 <= radius**2).astype(np.float32)
    kernel = cv2.GaussianBlur(disk / disk.sum(), (taps, taps), sigmaX=alias)
    return stored(255 * np.dstack([cv2.filter2D(x[..., channel] / 255, -1, kernel) for channel in range(3)]))


def glass_blur(
    x: np.ndarray, drawn: Any, own: np.random.Generator, *, sigma: float, delta: int, iterations: int
) -> np.ndarray:
    def soft(picture: np.ndarray) -> np.ndarray:
        blurred: np.ndarray = 255 * filters.gaussian(picture / 255, sigma=sigma, channel_axis=-1)
        return blurred

    picture = soft(x).astype(np.uint8)
    bounds = list(x.shape[:2])
    for _ in range(iterations):
        for h in range(min(bounds[0], 224) - delta, delta, -1):
            for w in range(min(bounds[1], 224) - delta, delta, -1):
                bounds = [h, w]
                dx, dy = own.integers(-delta, delta, 2)
                picture[h, w] = picture[h + dy, w + dx]
    return stored(soft(picture))


def motion_blur(x: np.ndarray, angle: float, own: np.random.Generator, *, radius: int, sigma: float) -> np.ndarray:
    """ImageMagick's, which gives whole levels: half a Gaussian along the angle."""
    taps = 2 * radius + 1
    weights = [math.exp(-(tap**2) / (2 * sigma**2)) for tap in range(taps)]
    padded = np.pad(x.astype(np.float64), ((taps, taps), (taps, taps), (0, 0)), mode="edge")
    total = np.zeros(x.shape)
    for tap, weight in enumerate(weights):
        down, right = (
            math.ceil(tap * part - 0.5) for part in (math.sin(math.radians(angle)), math.cos(math.radians(angle)))
        )
        total += weight * padded[taps + down :, taps + right :][: x.shape[0], : x.shape[1]]
    return (total / sum(weights) + 1e-6).astype(np.uint8)


def zoom_blur(x: np.ndarray, drawn: Any, own: np.random.Generator, *, stop: float, step: float) -> np.ndarray:
    layers = [x / 255]
    for factor in np.arange(1, stop, step):
        parts = [math.ceil(side / factor) for side in x.shape[:2]]
        top, left = ((side - part) // 2 for side, part in zip(x.shape, parts, strict=False))
        zoomed = ndimage.zoom(x[top : top + parts[0], left : left + parts[1]] / 255, (factor, factor, 1), order=1)
        down, right = ((whole - side) // 2 for whole, side in zip(zoomed.shape[:2], x.shape[:2], strict=True))
        layers.append(zoomed[down : down + x.shape[0], right : right + x.shape[1]])
    return stored(255 * np.mean(layers, axis=0))


def snow(x: np.ndarray, drawn: Any, own: np.random.Generator, **given: float) -> np.ndarray:
    height, width = x.shape[:2]
    canvas = np.zeros((height, width))
    rows, columns = drawn.flakes.shape
    top, left = (height - rows) // 2, (width - columns) // 2
    canvas[top : top + rows, left : left + columns] = given["loc"] + given["scale"] * drawn.flakes
    zoom = given["zoom"]
    parts = [math.ceil(side / zoom) for side in (height, width)]
    top, left = ((side - part) // 2 for side, part in zip((height, width), parts, strict=True))
    zoomed = ndimage.zoom(canvas[top : top + parts[0], left : left + parts[1]], zoom, order=1)
    down, right = ((whole - side) // 2 for whole, side in zip(zoomed.shape, (height, width), strict=True))
    flakes = zoomed[down : down + height, right : right + width]
    flakes = np.where(flakes < given["threshold"], 0, np.clip(flakes, 0, 1))
    grey = (255 * flakes).astype(np.uint8)[..., None].repeat(3, axis=2)
    layer = motion_blur(grey, drawn.angle, own, radius=int(given["radius"]), sigma=given["sigma"])[..., :1] / 255
    pale = 1.5 * (x @ np.array([0.114, 0.587, 0.299]))[..., None] / 255 + 0.5
    white = given["blend"] * x / 255 + (1 - given["blend"]) * np.maximum(x / 255, pale)
    return stored(255 * (white + layer + np.rot90(layer, 2)))


def frost(x: np.ndarray, drawn: Any, own: np.random.Generator, *, kept: float, added: float) -> np.ndarray:
    return stored(kept * x + added * drawn.ice[..., ::-1].astype(np.float64))


def fog(
    x: np.ndarray, drawn: np.ndarray, own: np.random.Generator, *, intensity: float, decay: float, side: int
) -> np.ndarray:
    """The diamond-square map, square by square."""
    numbers = iter(np.split(drawn, np.cumsum([cells**2 for level in range(10) for cells in [2**level] * 3])))
    height_map, step, wobble = np.zeros((side, side)), side, 100.0
    while step >= 2:
        half, corners = step // 2, height_map[::step, ::step].copy()

        def wobbled(total: np.ndarray, reach: float = wobble) -> np.ndarray:
            return total / 4 + reach * reach * next(numbers).reshape(total.shape)

        below = corners + np.roll(corners, -1, axis=0)
        height_map[half::step, half::step] = centres = wobbled(below + np.roll(below, -1, axis=1))
        height_map[::step, half::step] = wobbled(
            centres + np.roll(centres, 1, axis=0) + corners + np.roll(corners, -1, axis=1)
        )
        height_map[half::step, ::step] = wobbled(
            centres + np.roll(centres, 1, axis=1) + corners + np.roll(corners, -1, axis=0)
        )
        step, wobble = half, wobble / decay
    density = (height_map - height_map.min()) / np.ptp(height_map)
    largest = x.max() / 255
    thick = x / 255 + intensity * density[: x.shape[0], : x.shape[1], None]
    return stored(255 * thick * largest / (largest + intensity))


def brightness(x: np.ndarray, drawn: Any, own: np.random.Generator, *, added: float) -> np.ndarray:
    hsv = color.rgb2hsv(x / 255)
    hsv[..., 2] = np.clip(hsv[..., 2] + added, 0, 1)
    return stored(255 * color.hsv2rgb(hsv))


def contrast(x: np.ndarray, drawn: Any, own: np.random.Generator, *, factor: float) -> np.ndarray:
    means = x.mean(axis=(0, 1)) / 255
    return stored(255 * ((x / 255 - means) * factor + means))


def elastic_transform(
    x: np.ndarray, drawn: Any, own: np.random.Generator, *, alpha: float, sigma: float, affine: float
) -> np.ndarray:
    height, width = x.shape[:2]
    centre, reach = np.array([height, width], np.float32) // 2, min(height, width) // 3
    points = np.array([centre + reach, [centre[0] + reach, centre[1] - reach], centre - reach], np.float32)
    matrix = cv2.getAffineTransform(points, points + (affine * drawn.jitter).astype(np.float32))
    tilted = cv2.warpAffine(x / 255, matrix, (width, height), borderMode=cv2.BORDER_REFLECT_101)
    down, right = (
        alpha * ndimage.gaussian_filter(field.astype(np.float64), sigma, mode="reflect", truncate=3)
        for field in (drawn.down, drawn.across)
    )
    rows, columns = np.mgrid[:height, :width]
    places = [rows + down, columns + right]
    moved = [ndimage.map_coordinates(tilted[..., channel], places, order=1, mode="reflect") for channel in range(3)]
    return stored(255 * np.dstack(moved))


def pixelate(x: np.ndarray, drawn: Any, own: np.random.Generator, *, scale: float) -> np.ndarray:
    coarse = cv2.resize(x, (int(224 * scale),) * 2, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(coarse, x.shape[:2], interpolation=cv2.INTER_AREA))


def jpeg_compression(x: np.ndarray, drawn: Any, own: np.random.Generator, *, quality: int) -> np.ndarray:
    file = io.BytesIO()
    Pillow.fromarray(np.ascontiguousarray(x[..., ::-1])).save(file, "JPEG", quality=quality)
    return np.array(Pillow.open(file))[..., ::-1]


PLAIN: dict[str, Plain] = {
    transcription.__name__: transcription
    for transcription in (
        gaussian_noise,
        shot_noise,
        impulse_noise,
        speckle_noise,
        defocus_blur,
        glass_blur,
        motion_blur,
        zoom_blur,
        snow,
        frost,
        fog,
        brightness,
        contrast,
        elastic_transform,
        pixelate,
        jpeg_compression,
    )
}


# --- measuring -------------------------------------------------------------------------------------------------------


def psnr(first: np.ndarray, second: np.ndarray) -> float:
    if first.shape != second.shape:
        first, second = (cv2.resize(picture, (224, 224), interpolation=cv2.INTER_AREA) for picture in (first, second))
    return float(10 * np.log10(255**2 / max(1e-6, np.mean((first.astype(float) - second) ** 2))))


def pair(name: str, severity: int, frame: np.ndarray, number: int) -> tuple[float, float]:
    """Decibels from the clean frame: of the kernel, and of its transcription."""
    entry = registry.get(f"mm_robustness/{name}", "released")
    parameters = entry.parameters(severity)
    shape = 1, *frame.shape[:2]
    generator = rng.generator(0, "benchmark", str(number), entry.key)
    drawn = registry.resolve(entry.realization)(generator, *shape) if entry.realization else None
    guide = (None,) if entry.guide else ()  # drawn ice
    ours = registry.resolve(entry.kernel)(drawn, *guide, *shape, **parameters)(frame, 0)
    plain = PLAIN[name](frame, drawn, np.random.default_rng(number), **parameters)
    return psnr(ours, frame), psnr(plain, frame)


def frames_of(path: Path, count: int) -> list[np.ndarray]:
    clip = Clip(path)
    total = sum(1 for _ in decoding.decode(clip))
    places = {int((place + 0.5) * total / count) for place in range(count)}
    return [frame.image for frame in decoding.decode(clip, only=places)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", type=Path, nargs="+")
    parser.add_argument("--frames", type=int, default=2)
    parser.add_argument("--severities", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    options = parser.parse_args()
    cv2.setNumThreads(1)

    frames = [frame for path in options.clips for frame in frames_of(path, options.frames)]
    print(f"{len(frames)} frames of {len(options.clips)} clips; dB from the clean frame: ours / plain\n")
    print("| perturbation | " + " | ".join(f"s = {severity}" for severity in options.severities) + " |")
    print("|---|" + "---|" * len(options.severities))
    apart = 0.0
    for name in PLAIN:
        cells = []
        for severity in options.severities:
            pairs = [pair(name, severity, frame, number) for number, frame in enumerate(frames)]
            ours, plain = np.mean(pairs, axis=0)
            apart = max(apart, abs(ours - plain))
            cells.append(f"{ours:.2f} / {plain:.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print(f"\nlargest difference: {apart:.3f} dB")
    sys.exit(apart > AGREE_DB)


if __name__ == "__main__":
    main()
