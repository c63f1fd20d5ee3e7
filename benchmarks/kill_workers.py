"""Kills workers and ffmpegs of running jobs at random moments, and counts what became of the clips.

    python benchmarks/kill_workers.py --kills 100

A round is a shard's job (`perturb rule videos`) in an empty folder, run again when it stops, until it ends well. Its
rows and files are compared with those of a job that nobody disturbed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq

from perturbations.media import encoding
from perturbations.media.clip import Frame, Timing
from perturbations.plan import recipe
from perturbations.suites import registry
from perturbations.system import storage

VICTIMS = {
    "workers": ("mlvp/gaussian_noise", "msrvtt_p/mpeg2"),
    "ffmpeg": ("mlvp/h264_compression", "msrvtt_p/mpeg1", "msrvtt_p/mpeg2"),
}
COUNTED = ("kills", "jobs", "stopped", "clips", "complete", "quarantined", "differ")
SIGNALS = (signal.SIGKILL, signal.SIGTERM)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="of each kind")
    parser.add_argument("--clips", type=int, default=8)
    parser.add_argument("--pause", type=float, default=3.0, help="most seconds between two kills")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{'victims':8}", *(f"{name:>{len(name)}}" for name in COUNTED))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        draw_clips(root / "videos", options.clips)
        describe(root)
        for victims, entries in VICTIMS.items():
            undisturbed = {entry: run_round(root, entry, None, options)[0] for entry in entries}
            total: Counter[str] = Counter()
            reasons: Counter[str] = Counter()
            generator = random.Random(options.seed)
            while total["kills"] < options.kills:
                for entry in entries:
                    options.left = options.kills - total["kills"]
                    kept, counts = run_round(root, entry, victims, options, generator)
                    total += counts
                    expected = undisturbed[entry]
                    total["clips"] += len(expected)
                    for item, (row, content) in kept.items():
                        total[row["status"]] += 1
                        reasons[row["error"] or ""] += 1
                        total["differ"] += row["status"] == "complete" and (row, content) != expected[item]
            print(f"{victims:8}", *(f"{total[name]:{len(name)}}" for name in COUNTED))
            for reason, count in reasons.most_common():
                if reason:
                    print(f"    {count} x {reason}")
            left = [
                process for process in psutil.process_iter(["cwd"]) if (process.info["cwd"] or "").startswith(folder)
            ]
            print(f"    {len(left)} processes left behind")


def draw_clips(folder: Path, count: int) -> None:
    folder.mkdir()
    rate = Fraction(25)
    for index in range(count):
        still = np.random.default_rng(index).integers(0, 256, (240, 320, 3), dtype=np.uint8)
        frames = (Frame(np.roll(still, 3 * number, axis=1), number, number) for number in range(100))
        encoding.encode(frames, folder / f"c{index}.mp4", storage.PROFILES["compatible"], Timing(1 / rate, rate))


def describe(root: Path) -> None:
    listed = [
        {
            **dict.fromkeys(("start_s", "end_s")),
            "item_id": path.stem,
            "source_video_id": path.stem,
            "path": f"videos/{path.name}",
            "bytes": path.stat().st_size,
            "split": "test",
        }
        for path in sorted((root / "videos").iterdir())
    ]
    (root / "listed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))
    subprocess.run(
        [*perturb("rule", "sources"), "--dataset", "drawn", "--listed", "listed.jsonl", "--output", "sources.parquet"],
        cwd=root,
        check=True,
        stderr=subprocess.DEVNULL,
    )


def perturb(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "perturbations", *arguments]


def run_round(
    root: Path, entry: str, victims: str | None, options: argparse.Namespace, generator: random.Random | None = None
) -> tuple[dict[str, tuple[dict[str, object], str | None]], Counter[str]]:
    """The rows and files of a job that ended well, by item, and what was counted on the way."""
    job_recipe = recipe.make(registry.get(entry), 3, seed=0, storage=recipe.stored_video("high"))
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir=root) as folder:
        name = Path(folder).name
        part = f"{name}/s1.parquet"
        command = [*perturb("rule", "videos"), "--recipe", job_recipe.text, "--sources", "sources.parquet"]
        command += ["--corpus", f"{name}/corpus", "--output", part]
        while True:
            with open(root / "job.log", "wb") as log, subprocess.Popen(command, cwd=root, stderr=log) as job:
                while victims and counts["kills"] < options.left and job.poll() is None:
                    counts["kills"] += kill_one(job.pid, victims, generator)
                    with suppress(subprocess.TimeoutExpired):
                        job.wait(generator.uniform(0, options.pause))
                counts["jobs"] += 1
            if job.returncode == 0:
                break
            counts["stopped"] += 1
            words = (root / "job.log").read_text("utf-8").strip().splitlines()
            if counts["stopped"] > 50 or not victims:
                raise SystemExit(words[-1] if words else f"exit status {job.returncode}")
        rows = pq.read_table(root / part, partitioning=None).to_pylist()
        return {row["item_id"]: ({**row, "path": None}, content(root, row["path"])) for row in rows}, counts


def content(root: Path, path: str | None) -> str | None:
    return None if path is None else hashlib.sha256((root / path).read_bytes()).hexdigest()


def kill_one(job: int, victims: str, generator: random.Random) -> int:
    """Send a signal to a worker of a job, or to its ffmpeg; 1 where there was one."""
    try:
        workers = psutil.Process(job).children()
        targets = workers if victims == "workers" else [child for worker in workers for child in worker.children()]
        if not targets:
            return 0
        os.kill(generator.choice(targets).pid, generator.choice(SIGNALS))
    except (psutil.NoSuchProcess, ProcessLookupError):
        return 0
    return 1


if __name__ == "__main__":
    main()
