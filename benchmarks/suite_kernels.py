"""CPU milliseconds a frame of the kernels of MSRVTT-P and MM-Robustness, beside the plain formulas.

    python benchmarks/suite_kernels.py [--size 320x240] [--severities 1 3 5] [--repeats 5] [--only NAME ...]

One process for each row, one thread, frames of a drifting scene; the time is the best of the repeats. Where a suite
draws anew for every frame, the draw and the kernel's preparation count as the frame's; else they are done once a clip.
`plain` is the formula as the papers' code has it (NumPy, SciPy, scikit-image, Pillow, double precision), on the same
frames and machine. Image code that it is, it draws for every frame, also where a suite draws once a clip; only fog,
snow and elastic distortion get what is made once a clip on both sides. `published` is what the papers' own functions
took for a 320x240 frame on a slower machine. Plans in time change no pixel; their rows are microseconds a clip of 300
frames. The encoders are ffmpeg's own and not measured here.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported

import argparse
import io
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import cv2
import numpy as np
from kernels import plain_elastic_distortion, plain_fog, plain_snow, scene, size, to_uint8
from PIL import Image as Pillow
from scipy import ndimage
from skimage import color, filters, util

from perturbations import registry, rng
from perturbations.registry import Perturbation

Plain = Callable[[np.ndarray, np.random.Generator], np.ndarray]

# FACTS of the reference code, severities 1, 3, 5 or their middle.
PUBLISHED_MS = {
    "msrvtt_p/gaussian_noise": "6.6",
    "msrvtt_p/shot_noise": "15-18",
    "msrvtt_p/impulse_noise": "7-8",
    "msrvtt_p/speckle_noise": "6.6",
    "msrvtt_p/defocus_blur": "6.7-8.5",
    "msrvtt_p/zoom_blur": "92-102",
    "msrvtt_p/motion_blur": "85-108",
    "msrvtt_p/jpeg": ".6",
    "msrvtt_p/static_rotate": ".25",
    "msrvtt_p/rotate": ".25",
    "mm_robustness/gaussian_noise": "7.9",
    "mm_robustness/shot_noise": "18.6",
    "mm_robustness/impulse_noise": "7.4",
    "mm_robustness/speckle_noise": "5.3",
    "mm_robustness/defocus_blur": "8.6",
    "mm_robustness/glass_blur": "19.8",
    "mm_robustness/motion_blur": "11.5",
    "mm_robustness/zoom_blur": "98",
    "mm_robustness/snow": "14.1",
    "mm_robustness/frost": "11",
    "mm_robustness/fog": "7.9",
    "mm_robustness/brightness": "29.8",
    "mm_robustness/contrast": "3.1",
    "mm_robustness/elastic_transform": "18.8",
    "mm_robustness/pixelate": ".8",
    "mm_robustness/jpeg_compression": "1.0",
}


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
        down, right = ((found - side) // 2 for found, side in zip(zoomed.shape[:2], x.shape[:2], strict=True))
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
    return np.clip(kept * frame + added * frame[::-1], 0, 255).astype(np.uint8)


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
# These take what our kernels draw, and prepare it once a clip.
PREPARED: dict[str, Callable[..., Any]] = {
    "snow": plain_snow,
    "fog": plain_fog,
    "elastic_transform": plain_elastic_distortion,
}


# --- measuring -------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    ours_ms: float
    plain_ms: float | None


def best_ms(run: Callable[[], None], frames: int, repeats: int) -> float:
    """The least CPU milliseconds a frame."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        run()
        times.append((time.process_time() - started) / frames * 1000)
    return min(times)


def drawn(entry: Perturbation, shape: tuple[int, int, int], index: int | None) -> Any:
    if entry.realization is None:
        return None
    return registry.resolve(entry.realization)(rng.generator(0, "benchmark", "scene", entry.key, index), *shape)


def measure(key: str, severity: int, shape: tuple[int, int, int], repeats: int) -> Row:
    """One perturbation at one severity; to be called in a process of its own."""
    cv2.setNumThreads(1)
    entry = registry.get(key)
    parameters = entry.parameters(severity)
    kernel = registry.resolve(entry.kernel)
    if entry.method == "temporal":
        plan = partial(kernel, drawn(entry, (300, *shape[1:]), None), 300, *shape[1:], **parameters)
        return Row(best_ms(lambda: [plan() for _ in range(100)] and None, 100, repeats) * 1000, None)
    frames = scene(*shape)
    once = None if entry.draw == "frame" else kernel(drawn(entry, shape, None), *shape, **parameters)

    def ours() -> None:
        for index, frame in enumerate(frames):
            (once or kernel(drawn(entry, shape, index), *shape, **parameters))(frame, index)

    generator = np.random.default_rng(0)
    plain_parameters = {"rate": parameters["strength"]} if "strength" in parameters else parameters
    if entry.name in PREPARED:
        # The plain snow falls; it is shown one frame.
        applied = PREPARED[entry.name](drawn(entry, shape, None), (1, *shape[1:]), **parameters)
    else:
        applied = None
    plain_frame = PLAIN.get(entry.name)

    def plain() -> None:
        for frame in frames:
            if applied is not None:
                applied(frame, 0)
            elif plain_frame is not None:
                plain_frame(frame, generator, **plain_parameters)

    ours()  # tables that all frames use
    ours_ms = best_ms(ours, len(frames), repeats)
    has_plain = applied is not None or plain_frame is not None
    return Row(ours_ms, best_ms(plain, len(frames), max(1, repeats // 2)) if has_plain else None)


def in_own_process(*arguments: Any) -> Row:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=size, default=(320, 240), metavar="WIDTHxHEIGHT")
    parser.add_argument("--severities", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME")
    options = parser.parse_args()

    width, height = options.size
    print(f"{width}x{height}, {options.frames} frames, best of {options.repeats}; CPU ms a frame\n")
    print("| perturbation | severity | ours | plain | ratio | published |")
    print("|---|---|---|---|---|---|")
    ratios: dict[str, list[float]] = {}
    for entry in [*registry.perturbations("msrvtt_p"), *registry.perturbations("mm_robustness")]:
        if entry.method == "codec" or (options.only and entry.name not in options.only):
            continue
        for severity in options.severities:
            row = in_own_process(entry.key, severity, (options.frames, height, width), options.repeats)
            published = PUBLISHED_MS.get(entry.key, "")
            if entry.method == "temporal":
                print(f"| {entry.key} | {severity} | {row.ours_ms:.0f} us a clip | | | |", flush=True)
                continue
            plain = ratio = ""
            if row.plain_ms is not None:
                plain, ratio = f"{row.plain_ms:.2f}", f"{row.plain_ms / row.ours_ms:.1f}x"
                ratios.setdefault(entry.key, []).append(row.plain_ms / row.ours_ms)
            print(f"| {entry.key} | {severity} | {row.ours_ms:.3f} | {plain} | {ratio} | {published} |", flush=True)
    middle = {key: statistics.median(values) for key, values in ratios.items()}
    print(f"\nmedian over {len(middle)} perturbations: {statistics.median(middle.values()):.1f}x the plain formula")
    print("slowest against it: " + ", ".join(f"{key} {middle[key]:.1f}x" for key in sorted(middle, key=middle.get)[:5]))


if __name__ == "__main__":
    main()
