"""`perturbations.corrupt` beside imagecorruptions, as a table: names, differences, CPU time, in one run.

    pip install --no-deps imagecorruptions numba "setuptools<81" && python benchmarks/peer.py [PICTURE]

Both perturb one picture at all five severities, ours in the variant `paper`; the best of several repeats counts. Of
what is not random, the largest difference in grey levels; of what is, the ratio of the mean absolute changes.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable

import cv2
import numpy as np
from kernels import scene

import perturbations

NOISE = ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise")
RANDOM = (*NOISE, "glass_blur", "motion_blur", "snow", "frost", "elastic_transform")
FIXED = ("defocus_blur", "zoom_blur", "fog", "brightness", "contrast", "pixelate", "jpeg_compression")
REPEATS = 5


def timed(function: Callable[..., np.ndarray], *arguments: object, **named: object) -> tuple[np.ndarray, float]:
    """The result, and CPU milliseconds, the best of the repeats."""
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        result = function(*arguments, **named)
        times.append(time.process_time() - started)
    return result, 1000 * min(times)


def compared(name: str, picture: np.ndarray) -> str:
    """The row of a corruption: what differs, and the ratio of CPU times."""
    from imagecorruptions import corrupt

    ours, theirs, differences, changes = 0.0, 0.0, [], []
    for severity in range(1, 6):
        here, ms = timed(perturbations.corrupt, picture, f"mm_robustness/{name}", severity, variant="paper")
        ours += ms
        try:
            there, ms = timed(corrupt, picture, severity=severity, corruption_name=name)
        except (AttributeError, TypeError) as error:
            return f"fails there: {type(error).__name__} | - |"
        theirs += ms
        there = there.astype(int)
        differences.append(np.abs(here - there).max())
        changes.append(np.abs(here.astype(int) - picture).mean() / np.abs(there - picture).mean())
    text = ", ".join(map(str, differences))
    if name in RANDOM:
        text = f"random: change x {min(changes):.2f} to {max(changes):.2f}"
    return f"{text} | {ours / theirs:.2f} |"


def main() -> None:
    cv2.setNumThreads(1)
    warnings.simplefilter("ignore")
    picture = cv2.imread(sys.argv[1])[..., ::-1].copy() if len(sys.argv) > 1 else scene(1, 240, 320)[0]
    print("| `mm_robustness/` | largest difference per severity | CPU time |\n|---|---|---|")
    for name in (*RANDOM, *FIXED):
        print(f"| `{name}` | {compared(name, picture)}", flush=True)


if __name__ == "__main__":
    main()
