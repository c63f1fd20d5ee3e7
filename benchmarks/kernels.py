"""CPU milliseconds per frame of our kernels, and of the plain formula that the papers' code applies.

    python benchmarks/kernels.py [--size 320x240] [--severities 1 3 5] [--repeats 7]

Both run on the same frames in the same process, one thread each, in turns; the time is the best of the repeats. Only
the work per frame counts: both get what is computed once per clip (the noise, the plasma, the curtain, the maps).
Every row has a process of its own, because the formula's time depends on whether the C library gives the memory of its
temporary arrays back to the system after each frame. It does so at first (`plain`); in a process that has freed larger
arrays before, it may not (`plain, kept`: measured with glibc configured to keep everything).
`published` is what the papers' own function took for a 320x240 frame on such a machine, where that is known.
`apart` is the largest difference between the two results, in grey levels.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported

import argparse
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import cv2
import numpy as np
from scipy import ndimage

from perturbations.base import rng
from perturbations.suites import registry
from perturbations.video import digital, weather

Apply = Callable[[np.ndarray, int], np.ndarray]

PUBLISHED_MS = {"mlvp/gaussian_noise": 1.14, "mlvp/fog": 2.9, "mlvp/snow": 3.9, "mlvp/elastic_distortion": 6.5}
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(2**30), "MALLOC_MMAP_THRESHOLD_": str(2**30)}


def to_uint8(y: np.ndarray) -> np.ndarray:
    return (np.clip(y, 0, 1) * 255).astype(np.uint8)


def plain_gaussian_noise(unit: np.ndarray, shape: tuple[int, int, int], *, sigma: float) -> Apply:
    noise = sigma * unit.astype(np.float64)
    return lambda frame, index: to_uint8(frame / 255.0 + noise)


def plain_impulse_noise(uniform: np.ndarray, shape: tuple[int, int, int], *, amount: float) -> Apply:
    pepper, salt = uniform < amount / 2, uniform >= 1 - amount / 2

    def apply(frame: np.ndarray, index: int) -> np.ndarray:
        x = frame / 255.0
        x[pepper] = 0
        x[salt] = 1
        return to_uint8(x)

    return apply


def plain_fog(uniform: np.ndarray, shape: tuple[int, int, int], *, intensity: float, decay: float) -> Apply:
    _, height, width = shape
    plasma = weather.plasma(uniform, weather.plasma_side(height, width), decay)[:height, :width, np.newaxis]

    def apply(frame: np.ndarray, index: int) -> np.ndarray:
        x = frame / 255.0
        largest = x.max() or 1.0
        return to_uint8((x + intensity * plasma) * largest / (largest + intensity))

    return apply


def plain_snow(drawn: weather.Snow, shape: tuple[int, int, int], *, blend: float, **parameters: Any) -> Apply:
    num_frames, height, width = shape
    rows = weather.curtain_rows(num_frames, height)
    curtain = weather.snow_curtain(drawn, rows, width, **parameters)[..., np.newaxis] / 255.0

    def apply(frame: np.ndarray, index: int) -> np.ndarray:
        x = frame.astype(np.float32) / 255.0
        grey = cv2.cvtColor(x, cv2.COLOR_RGB2GRAY).reshape(height, width, 1)
        x = blend * x + (1 - blend) * np.maximum(x, grey * 1.5 + 0.5)
        layer = curtain[weather.FALL * index : weather.FALL * index + height]
        return to_uint8(x + layer + np.rot90(layer, k=2))

    return apply


def plain_elastic_distortion(
    drawn: digital.Elastic, shape: tuple[int, int, int], *, alpha: float, sigma: float, affine: float
) -> Apply:
    _, height, width = shape
    matrix = digital.affine_matrix(affine * drawn.jitter, height, width)
    dx, dy = (
        alpha * ndimage.gaussian_filter(field.astype(np.float64), sigma, mode="reflect", truncate=3)
        for field in (drawn.across, drawn.down)
    )
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    places = y + dy, x + dx

    def apply(frame: np.ndarray, index: int) -> np.ndarray:
        image = frame.astype(np.float32) / 255.0
        image = cv2.warpAffine(
            image, matrix, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101
        )
        channels = [ndimage.map_coordinates(channel, places, order=1, mode="reflect") for channel in cv2.split(image)]
        return to_uint8(np.dstack(channels))

    return apply


PLAIN: dict[str, Callable[..., Apply]] = {
    "mlvp/gaussian_noise": plain_gaussian_noise,
    "mlvp/impulse_noise": plain_impulse_noise,
    "mlvp/fog": plain_fog,
    "mlvp/snow": plain_snow,
    "mlvp/elastic_distortion": plain_elastic_distortion,
}


def scene(num_frames: int, height: int, width: int) -> np.ndarray:
    """Coloured blobs under fine texture, drifting."""
    generator = np.random.default_rng(0)
    coarse = generator.normal(128, 80, (height // 16 + 2, width // 16 + 2, 3))
    picture = cv2.resize(coarse, (width + num_frames, height), interpolation=cv2.INTER_CUBIC)
    picture = np.clip(picture + generator.normal(0, 4, picture.shape), 0, 255).astype(np.uint8)
    return np.stack([picture[:, i : i + width] for i in range(num_frames)])


def cpu_ms(apply: Apply, frames: np.ndarray) -> float:
    """Mean CPU milliseconds per frame."""
    started = time.process_time()
    for index, frame in enumerate(frames):
        apply(frame, index)
    return (time.process_time() - started) / len(frames) * 1000


class Row(NamedTuple):
    ours_ms: float
    plain_ms: float
    apart: int


def measure(key: str, severity: int, shape: tuple[int, int, int], repeats: int) -> Row:
    """One perturbation at one severity; to be called in a process of its own."""
    cv2.setNumThreads(1)
    frames = scene(*shape)
    entry = registry.get(key)
    assert entry.realization is not None
    realization = registry.resolve(entry.realization)(rng.generator(0, "benchmark", "scene", key), *shape)
    parameters = entry.parameters(severity)
    ours: Apply = registry.resolve(entry.kernel)(realization, *shape, **parameters)
    plain = PLAIN[key](realization, shape, **parameters)
    times = [(cpu_ms(ours, frames), cpu_ms(plain, frames)) for _ in range(repeats)]
    pairs = ((ours(frame, index).astype(int), plain(frame, index)) for index, frame in enumerate(frames))
    apart = max(int(np.abs(ours - plain).max()) for ours, plain in pairs)
    return Row(min(ours_ms for ours_ms, _ in times), min(plain_ms for _, plain_ms in times), apart)


def in_own_process(*arguments: Any) -> Row:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def size(text: str) -> tuple[int, int]:
    width, height = map(int, text.split("x"))
    return width, height


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=size, default=(320, 240), metavar="WIDTHxHEIGHT")
    parser.add_argument("--severities", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--frames", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()

    width, height = options.size
    print(f"{width}x{height}, {options.frames} frames, best of {options.repeats}; CPU ms per frame\n")
    print("| perturbation | severity | ours | plain | ratio | plain, kept | ratio | published | apart |")
    print("|---|---|---|---|---|---|---|---|---|")
    for entry in registry.perturbations(kind="video"):
        for severity in options.severities if entry.key in PLAIN else ():
            arguments = entry.key, severity, (options.frames, height, width), options.repeats
            row = in_own_process(*arguments)
            os.environ.update(KEEP_MEMORY)
            kept = in_own_process(*arguments)
            for name in KEEP_MEMORY:
                del os.environ[name]
            print(
                f"| {entry.key} | {severity} | {row.ours_ms:.3f} "
                f"| {row.plain_ms:.2f} | {row.plain_ms / row.ours_ms:.0f}x "
                f"| {kept.plain_ms:.2f} | {kept.plain_ms / kept.ours_ms:.0f}x "
                f"| {PUBLISHED_MS.get(entry.key, '')} | {row.apart} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
