"""CPU milliseconds per frame of the kernels that change pixels and need no analysis of the clip.

    python benchmarks/kernels.py [--size 320x240] [--severities 1 3 5] [--repeats 7] [--only NAME ...]

One thread, frames of a drifting scene; the time is the best of the repeats. Where a suite draws again for every frame,
the draw and the kernel's preparation are included; in other suites they are done once per clip and not included.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported

import argparse
import time
from collections.abc import Callable

import cv2
import numpy as np

from perturbations.base import rng
from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import Perturbation

Apply = Callable[[np.ndarray, int], np.ndarray]


def scene(num_frames: int, height: int, width: int) -> np.ndarray:
    """Coloured blobs under fine texture, drifting."""
    generator = np.random.default_rng(0)
    coarse = generator.normal(128, 80, (height // 16 + 2, width // 16 + 2, 3))
    picture = cv2.resize(coarse, (width + num_frames, height), interpolation=cv2.INTER_CUBIC)
    picture = np.clip(picture + generator.normal(0, 4, picture.shape), 0, 255).astype(np.uint8)
    return np.stack([picture[:, i : i + width] for i in range(num_frames)])


def bound(entry: Perturbation, severity: int, shape: tuple[int, ...], index: int | None) -> Apply:
    """The kernel with what is drawn for a frame, or for the whole clip where the index is None."""
    realization = None
    if entry.realization is not None:
        generator = rng.generator(0, "benchmark", "scene", entry.key, index)
        realization = entry.realization(generator, *shape)
    guide = () if entry.guide is None else (None,)  # of frost: drawn ice
    apply: Apply = entry.kernel(realization, *guide, *shape, **entry.parameters(severity))
    return apply


def measure(entry: Perturbation, severity: int, frames: np.ndarray, repeats: int) -> float:
    """CPU milliseconds per frame."""
    once = None if entry.draw == "frame" else bound(entry, severity, frames.shape[:3], None)
    times = []
    for _ in range(repeats):
        started = time.process_time()
        for index, frame in enumerate(frames):
            (once or bound(entry, severity, frames.shape[:3], index))(frame, index)
        times.append(time.process_time() - started)
    return min(times) / len(frames) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="320x240", metavar="WIDTHxHEIGHT")
    parser.add_argument("--severities", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    options = parser.parse_args()

    cv2.setNumThreads(1)
    width, height = map(int, options.size.split("x"))
    frames = scene(24, height, width)
    print("| perturbation | " + " | ".join(f"severity {severity}" for severity in options.severities) + " |")
    print("|---" * (1 + len(options.severities)) + "|")
    for entry in suite_registry.perturbations(kind="video"):
        wanted = options.only is None or entry.name in options.only
        if wanted and entry.method == "pixel" and entry.guide in (None, "frost"):
            times = (measure(entry, severity, frames, options.repeats) for severity in options.severities)
            print(f"| {entry.key} | " + " | ".join(f"{ms:.3f}" for ms in times) + " |", flush=True)


if __name__ == "__main__":
    main()
