"""CPU seconds and memory of a dry run of a whole corpus, and what the corpus takes.

    python benchmarks/planning.py [--suite mlvp] [--clips 1000] [--pixels 100e6]

The clips are listed, and empty files: planning reads none of them. `--pixels` are those of a clip, in all its frames.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
STORED = {"high": (19, 0.4), "compatible": (19, 0.08), "frames": (7, 0.95), "recipe": (17, 0.0)}
"""Of storage: CPU hours of MLVP on the 1,000 clips of MSR-VTT, of 27 million pixels; bytes per stored pixel."""
FRAMES, FRAME_PIXELS = 12, 640 * 360


def write_dataset(folder: Path, clips: int, suite: str) -> None:
    (folder / "videos").mkdir()
    with (folder / "captions.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["item_id", "caption"])
        for number in range(clips):
            rows.writerow([f"video{number}", f"caption number {number} of a man who walks a dog on a beach"])
            (folder / "videos" / f"video{number}.mp4").touch()
    dataset = {"adapter": "folder", "annotations": "captions.csv", "videos": "videos"}
    config = {"datasets": {"d": dataset}, "suites": {suite: {}}}
    (folder / "config.yaml").write_text(json.dumps(config))


def dry_run(folder: Path, target: str) -> tuple[float, int]:
    """CPU seconds (user and system, with child processes) of a dry run, and the number of jobs that it would start."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", PROJECT / "Snakefile", "--cores", "2", "-n"]
    command += ["--workflow-profile", PROJECT / "workflow/profiles/default", "--", target]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = (done.stdout + done.stderr).splitlines()
    jobs = next(int(line.split()[0].replace(",", "")) for line in lines if " jobs: " in line)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="mlvp")
    parser.add_argument("--clips", type=int, default=1000)
    parser.add_argument("--pixels", type=float, default=100e6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        write_dataset(Path(name), options.clips, options.suite)
        print("| corpus | jobs | first, CPU s | again, CPU s | peak, GB |\n|---|---|---|---|---|")
        first, jobs = dry_run(Path(name), f"{options.suite}_d")
        again, _ = dry_run(Path(name), f"{options.suite}_d")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        print(f"| {options.suite} of {options.clips:,} | {jobs:,} | {first:.1f} | {again:.1f} | {peak:.2f} |")
    videos = options.clips * 60
    print("\n| MLVP as | CPU hours | TB of videos | files |\n|---|---|---|---|")
    for storage, (hours, per_pixel) in STORED.items():
        stored = FRAMES * FRAME_PIXELS if storage == "frames" else options.pixels
        cost, size = hours * options.clips / 1000 * options.pixels / 27e6, videos * stored * per_pixel / 1e12
        print(f"| {storage} | {cost:,.0f} | {size:,.1f} | {videos if per_pixel else 0:,} |")


if __name__ == "__main__":
    main()
