"""What key frames at the sampled frames cost in size and save in reading, in a storage profile.

    python benchmarks/key_frames.py SUITE SEVERITY VIDEO [VIDEO ...] [--profile lossless]

Each perturbation of a suite, and the clip itself: the change of a file's size by the profile's key frames, CPU
milliseconds to read the sampled frames (one thread, the better of two) without and with them, and their PSNR against
the frames that were encoded.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from perturbations import list_perturbations, perturb
from perturbations.base.arrays import Image
from perturbations.base.errors import MediaError
from perturbations.base.storage import PROFILES
from perturbations.media import decoding, encoding
from perturbations.media.clip import Clip, Frame, Timing, uniform_indices

RATE = Fraction(25)


def timed(read: Callable[[Path, Collection[int]], object], path: Path, places: Collection[int]) -> float:
    times = []
    for _ in range(2):
        started = time.process_time()
        read(path, places)
        times.append(1000 * (time.process_time() - started))
    return min(times)


def read_all(path: Path, places: Collection[int]) -> list[Image]:
    return [frame.image for frame in decoding.decode(Clip(path), only=places)]


def read_stored(path: Path, places: Collection[int]) -> list[Image]:
    return [frame.image for frame in decoding.decode_stored(path, places)]


def psnr_db(frames: list[Image], expected: Image) -> float:
    error = float(np.mean((np.stack(frames).astype(np.float64) - expected) ** 2))
    return float(10 * np.log10(255**2 / error)) if error else float("inf")


def perturbed(clean: Image, name: str, severity: int, item_id: str) -> Image:
    donors = [clean[::-1].copy()]
    return perturb(clean, name, severity, seed=0, item_id=item_id, fps=float(RATE), dataset="bench", donors=donors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite")
    parser.add_argument("severity", type=int)
    parser.add_argument("videos", nargs="+", type=Path)
    parser.add_argument("--profile", choices=("high", "lossless"), default="high")
    options = parser.parse_args()
    keyed_profile = PROFILES[options.profile]
    plain_options = {name: keyed_profile.options[name] for name in ("preset", "qp")}
    plain_profile = replace(keyed_profile, options=plain_options, key_frames=None)
    names = ["clean", *list_perturbations(options.suite, "video")]
    total = [0, 0]
    print("| clip | perturbation | frames | MB | size | read: ms | PSNR: dB |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        for video in options.videos:
            clip = Clip(video)
            clean = np.stack([frame.image for frame in decoding.decode(clip)])
            for name in names:
                try:
                    frames = clean if name == "clean" else perturbed(clean, name, options.severity, video.stem)
                except MediaError as error:
                    print(f"| {video.stem} | {name} | {error} |")
                    continue
                places = uniform_indices(12, len(frames))
                plain, keyed = Path(folder) / "plain.mp4", Path(folder) / "keyed.mp4"
                for path, profile, keys in ((plain, plain_profile, set()), (keyed, keyed_profile, set(places))):
                    pictures = (Frame(image, place, place) for place, image in enumerate(frames))
                    encoding.encode(pictures, path, profile, Timing(1 / RATE, RATE), key_frames=keys)
                sizes = [path.stat().st_size for path in (plain, keyed)]
                total = [before + size for before, size in zip(total, sizes, strict=True)]
                ms = timed(read_all, plain, set(places)), timed(read_stored, keyed, set(places))
                decibels = [
                    psnr_db(read_all(path, set(places)), frames[sorted(set(places))]) for path in (plain, keyed)
                ]
                print(
                    f"| {video.stem} | {name} | {len(frames)} | {sizes[1] / 1e6:.1f} | {sizes[1] / sizes[0] - 1:+.1%} "
                    f"| {ms[0]:.0f} -> {ms[1]:.0f} | {decibels[0]:.1f} -> {decibels[1]:.1f} |",
                    flush=True,
                )
    print(f"all together: {total[1] / total[0] - 1:+.1%}")


if __name__ == "__main__":
    main()
