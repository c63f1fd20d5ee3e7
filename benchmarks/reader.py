"""Milliseconds to give a model the 12 frames of a perturbed clip, from each storage tier.

    python benchmarks/reader.py VIDEO [VIDEO ...] [--perturbation mlvp/gaussian_noise] [--severity 3]

`read` decodes (or renders) the sampled frames, `fit` resizes them to 224 pixels as CLIP takes them: both once per clip
and scenario, however many methods adapt. `prepared` is what every method then takes: the kept bytes, normalized. CPU
time of one thread, the mean over the videos, the best of the repeats.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from perturbations.engine import shards
from perturbations.evaluation import queries
from perturbations.evaluation.processors import Images
from perturbations.manifest import files
from perturbations.manifest.kinds import SOURCES, VIDEOS, VideoRow
from perturbations.plan import recipe
from perturbations.plan.listed import ListedClip
from perturbations.suites import registry
from perturbations.tta import frames

TIERS: dict[str, recipe.Storage] = {
    "video/lossless": recipe.stored_video("lossless"),
    "video/high": recipe.stored_video("high"),
    "video/compatible": recipe.stored_video("compatible"),
    "frames/12": recipe.StoredFrames(num_frames=12),
    "recipe": recipe.Unstored(),
}
FRAMES, SIDE, BATCH = 12, 224, 16


def cpu_ms(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append((time.process_time() - started) * 1000)
    return min(times)


def read_all(rows: Sequence[VideoRow]) -> list[np.ndarray]:
    return [queries.sampled(row, FRAMES) for row in rows]


def fit_all(clips: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [frames.resized(clip, SIDE) for clip in clips]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path)
    parser.add_argument("--perturbation", default="mlvp/gaussian_noise")
    parser.add_argument("--severity", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    videos = [path.resolve() for path in options.videos]
    print("| tier | read | fit | prepared, of a batch of 16 | MB per clip |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name, contextlib.chdir(name):
        listed = [ListedClip(item_id=path.stem, source_video_id=path.stem, path=str(path)) for path in videos]
        files.write(Path("sources.parquet"), SOURCES, [shards.source_row("bench", clip) for clip in listed])
        for tier, storage in TIERS.items():
            job_recipe = recipe.make(
                registry.get(options.perturbation),
                options.severity,
                seed=0,
                storage=storage,
            )
            command = [sys.executable, "-P", "-m", "perturbations", "rule", "videos", "--recipe", job_recipe.text]
            command += ["--sources", "sources.parquet", "--corpus", tier, "--output", "part.parquet"]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            rows = files.read_rows(Path("part.parquet"), VIDEOS)
            read = cpu_ms(partial(read_all, rows), options.repeats) / len(rows)
            fit = cpu_ms(partial(fit_all, read_all(rows)), options.repeats) / len(rows)
            images = Images(SIDE)
            clips = queries.Clips([rows[index % len(rows)] for index in range(BATCH)], FRAMES, images, Path())
            kept = clips.batch(slice(0, BATCH)).values.numpy()
            prepared = cpu_ms(partial(images.normalized, kept), options.repeats) / BATCH
            size = sum(row.bytes or 0 for row in rows) / len(rows) / 1e6
            print(f"| {tier} | {read:.1f} | {fit:.1f} | {prepared:.1f} | {size:.2f} |", flush=True)


if __name__ == "__main__":
    main()
