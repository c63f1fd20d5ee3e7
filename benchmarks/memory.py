"""Peak resident memory of each perturbation's job on one long synthetic clip, and on eight clips cut from it.

    python benchmarks/memory.py [--minutes 20] [--size 640x360] [--severity 3]

The figure is the largest sum over a job's processes (the job, its child, ffmpeg) of their resident memory, so pages
that they share count more than once.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from perturbations.config import sections as config
from perturbations.engine import shards
from perturbations.manifest import files
from perturbations.manifest.kinds import COMPLETE, SOURCES, VIDEOS, CompleteSource
from perturbations.media import program
from perturbations.plan import recipe, tiers
from perturbations.plan.listed import ListedClip
from perturbations.suites import registry


def peak_mib(command: list[str], folder: Path) -> tuple[float, float]:
    """Peak MiB and seconds of a command with all its children."""
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=folder)
    watched = psutil.Process(process.pid)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(_resident(process) for process in [watched, *_children(watched)]))
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    if process.returncode != 0:
        raise SystemExit(f"{command} failed")
    return peak / 2**20, time.monotonic() - started


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _described(name: str, path: Path, start_s: float | None = None, end_s: float | None = None) -> CompleteSource:
    item_id = name if start_s is None else f"{name}_{start_s:g}"
    clip = ListedClip(item_id=item_id, source_video_id=name, path=str(path), start_s=start_s, end_s=end_s)
    return shards.source_row("bench", clip)


_CLIPS, _CLIP_S = 8, 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--size", default="640x360")
    parser.add_argument("--severity", type=int, default=3)
    parser.add_argument(
        "--perturbations", nargs="+", default=[entry.key for entry in registry.perturbations(kind="video")]
    )
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        clip = folder / "long.mp4"
        source = f"testsrc2=size={options.size}:rate=25:duration={60 * options.minutes}"
        command = [program.ffmpeg_program(), "-v", "error", "-f", "lavfi", "-i", source]
        subprocess.run(
            [*command, "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", str(clip)], check=True
        )
        other = folder / "other.mp4"  # to take frames from
        subprocess.run(
            [
                *command[:5],
                "-i",
                f"life=size={options.size}:rate=25:mold=10",
                "-t",
                "20",
                "-pix_fmt",
                "yuv420p",
                str(other),
            ],
            check=True,
        )
        row = _described("long", clip)
        files.write(folder / "sources.parquet", SOURCES, [row])
        files.write(folder / "both.parquet", SOURCES, [row, _described("other", other)])
        starts = [60 * options.minutes * (place + 0.5) / _CLIPS for place in range(_CLIPS)]
        clips = [_described("long", clip, start, start + _CLIP_S) for start in starts]
        files.write(folder / "clips.parquet", SOURCES, clips)
        print(f"{row.frame_count} frames, {row.width}x{row.height}")
        print("| analysis | peak MiB | seconds |")
        print("|---|---|---|")
        needed = {registry.get(key).guide for key in options.perturbations}
        for guide, analysis in (("motion", "motion"), ("main_object", "main_object"), ("donor", "embedding")):
            if guide in needed:
                job_recipe = recipe.analysis(analysis, config.Backends(), tiers.stored_video("high"))
                settings = json.dumps({"recipe": json.loads(job_recipe.text)})
                command = [sys.executable, "-P", "-m", "perturbations", "rule", "analyses", settings]
                command += ["--sources", "both.parquet", "--part", f"{analysis}/s1.parquet"]
                peak, seconds = peak_mib(command, folder)
                print(f"| {analysis} | {peak:.0f} | {seconds:.0f} |", flush=True)
        print("| perturbation | peak MiB | seconds | stored, dB |")
        print("|---|---|---|---|")
        storage = tiers.stored_video("high")
        for key in options.perturbations:
            entry = registry.get(key)
            for whole in (False, True) if registry.suite(entry.suite).whole_videos else (False,):
                job_recipe = recipe.make(
                    entry,
                    options.severity,
                    seed=0,
                    storage=storage,
                    donors="bench",
                    whole_videos=whole,
                )
                _measure(job_recipe, f"{key}, {_CLIPS} clips" if whole else key, folder)


def _measure(job_recipe: recipe.VideoRecipe, title: str, folder: Path) -> None:
    whole = job_recipe.whole_videos
    settings = json.dumps({"recipe": json.loads(job_recipe.text)})
    command = [sys.executable, "-P", "-m", "perturbations", "rule", "videos", settings]
    command += ["--sources", "clips.parquet" if whole else "sources.parquet"]
    command += ["--whole+", "sources.parquet"] if whole else []
    command += ["--output+", "corpus/.s1.json", "part.parquet"]
    if job_recipe.analysis is not None:
        command += ["--analysis", f"{job_recipe.analysis.analysis}/s1.parquet"]
    if job_recipe.donors is not None:
        command += ["--donors", "embedding/s1.parquet"]
    peak, seconds = peak_mib(command, folder)
    rows = files.read_rows(folder / "part.parquet", VIDEOS)
    for row in rows:
        if row.status != COMPLETE or row.path is None:
            raise SystemExit(f"{title}: {row.error}")
        (folder / row.path).unlink()
    (folder / "part.jsonl").unlink()
    least_db = min(row.storage_psnr_db for row in rows if row.storage_psnr_db is not None)
    print(f"| {title} | {peak:.0f} | {seconds:.0f} | {least_db:.1f} |", flush=True)


if __name__ == "__main__":
    main()
