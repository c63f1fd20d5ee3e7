"""What four kernels spend on the one step that no exact implementation can leave out, measured beside the whole kernel.

    python benchmarks/kernel_steps.py [--size 320x240] [--repeats 7]

CPU milliseconds per frame of one thread, the best of the repeats. The steps:

- `zoom_blur`: the bilinear enlargements. Each is rounded to whole levels, so their sum is not that of one enlargement.
- `motion_blur`: the sums along two lines of float32, tap by tap. The frame is read again for every piece of a line.
- `video_defocus`: the additions of whole numbers for two disks, by running sums: each array of 16 bits is added once.
- `style_transfer` (drawn styles): the pyramid, each band's mean and deviation, and a product and a sum per value.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported

import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from kernels import scene

from perturbations.suites import mlvp, mm_robustness
from perturbations.suites.suite_registry import Suite
from perturbations.video import blur, defocus, flow_blur, style

_ANGLE = 30.0  # degrees: neither rows nor columns


def seconds(step: Callable[[], object], calls: int = 24) -> float:
    """CPU seconds per call."""
    started = time.process_time()
    for _ in range(calls):
        step()
    return (time.process_time() - started) / calls


Pair = tuple[str, Callable[[], object], Callable[[], object]]
"""A kernel's name and severity, the kernel on one frame, and its step alone."""


def zoom_blur(frame: np.ndarray, severity: int) -> Pair:
    """The kernel, and its enlargements."""
    height, width = frame.shape[:2]
    numbers = parameters(mm_robustness.SUITE, "zoom_blur", severity)
    apply = blur.zoom_blur(None, 1, height, width, **numbers)
    factors = np.arange(1, numbers["stop"], numbers["step"])[1:]
    views = [blur._zoom_matrix(height, width, float(factor)) for factor in factors]
    rgba = cv2.cvtColor(frame, cv2.COLOR_RGB2RGBA)
    into = np.empty_like(rgba)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP

    def step() -> None:
        for view in views:
            cv2.warpAffine(rgba, view, (width, height), dst=into, flags=flags, borderMode=cv2.BORDER_REPLICATE)

    return "mm_robustness/zoom_blur", lambda: apply(frame, 0), step


def motion_blur(frame: np.ndarray, severity: int) -> Pair:
    """The kernel where a half of the frame moves, and its sums along the two lines."""
    height, width = frame.shape[:2]
    numbers = parameters(mlvp.SUITE, "motion_blur", severity)
    apply = flow_blur.motion_blur(None, half_moves(height, width), 1, height, width, **numbers)
    lines = [flow_blur._line(numbers[length], _ANGLE) for length in ("low", "high")]
    pieces = [taps for line in lines for _, _, taps in flow_blur._tiles(line)]
    values = frame.astype(np.float32)
    into = np.empty_like(values)

    def step() -> None:
        for taps in pieces:
            cv2.filter2D(values, cv2.CV_32F, taps, dst=into, anchor=(0, 0), borderType=cv2.BORDER_CONSTANT)

    return "mlvp/motion_blur", lambda: apply(frame, 0), step


def video_defocus(frame: np.ndarray, severity: int) -> Pair:
    """The kernel where a half of the frame moves, and the additions for its two disks."""
    height, width = frame.shape[:2]
    numbers = parameters(mlvp.SUITE, "video_defocus", severity)
    apply = flow_blur.video_defocus(None, half_moves(height, width), 1, height, width, **numbers)
    steps: list[Callable[[], object]] = []
    for radius in (numbers["radius"], 2 * numbers["radius"]):
        padded = np.zeros((height + 2 * radius, width + 2 * radius, 3), np.uint16)
        defocus._add_disk(padded, defocus._half_lengths(radius), np.empty(frame.shape, np.float32), steps)
    return "mlvp/video_defocus", lambda: apply(frame, 0), lambda: [step() for step in steps]


def style_transfer(frame: np.ndarray, severity: int) -> Pair:
    """The kernel with a drawn style, and what it does to the pyramid's values."""
    alpha = parameters(mlvp.SUITE, "style_transfer", severity)["alpha"]
    paint = style.filter_bank(frame[::-1].copy())
    target = style.moments(style.opponent(frame))

    def step() -> None:
        pyramid = style.bands(style.opponent(frame))
        for band in pyramid:
            style.move(band, alpha, target)
        style.joined(pyramid)

    return "mlvp/style_transfer", lambda: paint(frame, alpha), step


def parameters(suite: Suite, name: str, severity: int) -> dict[str, Any]:
    """The published numbers of one severity."""
    return next(entry for entry in suite.videos if entry.name == name).parameters(severity)


def half_moves(height: int, width: int) -> Callable[[int], tuple[np.ndarray, float, bool]]:
    """The motion of a frame whose left half moves most."""
    mask = np.zeros((height, width), bool)
    mask[:, : width // 2] = True
    return lambda index: (mask, _ANGLE, False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="320x240", metavar="WIDTHxHEIGHT")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()

    cv2.setNumThreads(1)
    width, height = map(int, options.size.split("x"))
    frame = scene(1, height, width)[0]
    print("| perturbation | severity | kernel, ms | its step, ms | share |\n|---|---|---|---|---|")
    for pair in (zoom_blur, motion_blur, video_defocus, style_transfer):
        for severity in (3, 5):
            name, kernel, step = pair(frame, severity)
            times = [(seconds(kernel), seconds(step)) for _ in range(options.repeats)]
            whole, part = (1000 * min(values) for values in zip(*times, strict=True))
            print(f"| {name} | {severity} | {whole:.2f} | {part:.2f} | {part / whole:.0%} |", flush=True)


if __name__ == "__main__":
    main()
