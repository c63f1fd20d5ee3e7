"""Peak resident memory of each perturbation's job on one long synthetic clip.

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

from perturbations import config, manifest, media, recipe, registry, shards


def peak_mib(command: list[str], folder: Path) -> tuple[float, float]:
    """Peak MiB and seconds of a command with all its children."""
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=folder)
    watched = psutil.Process(process.pid)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(_resident(one) for one in [watched, *_children(watched)]))
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


def _described(name: str, path: Path) -> dict[str, object]:
    listed = {"item_id": name, "path": str(path), "bytes": None, "start_s": None, "end_s": None}
    return shards.source_row("bench", {**listed, "source_video_id": name})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--size", default="640x360")
    parser.add_argument("--severity", type=int, default=3)
    parser.add_argument("--perturbations", nargs="+", default=[one.key for one in registry.perturbations(kind="video")])
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        clip = folder / "long.mp4"
        source = f"testsrc2=size={options.size}:rate=25:duration={60 * options.minutes}"
        command = [media.ffmpeg_program(), "-v", "error", "-f", "lavfi", "-i", source]
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
        manifest.write(folder / "sources.parquet", manifest.SOURCES, [row])
        manifest.write(folder / "both.parquet", manifest.SOURCES, [row, _described("other", other)])
        print(f"{row['frame_count']} frames, {row['width']}x{row['height']}")
        print("| analysis | peak MiB | seconds |")
        print("|---|---|---|")
        needed = {registry.get(key).guide for key in options.perturbations}
        for guide, analysis in (("motion", "motion"), ("main_object", "main_object"), ("donor", "embedding")):
            if guide in needed:
                made = recipe.analysis(analysis, config.Backends(), {})
                command = [sys.executable, "-m", "perturbations", "analyse", "--recipe", json.dumps(made)]
                command += ["--sources", "both.parquet", "--folder", analysis, "--output", f"{analysis}.parquet"]
                peak, seconds = peak_mib(command, folder)
                print(f"| {analysis} | {peak:.0f} | {seconds:.0f} |", flush=True)
        print("| perturbation | peak MiB | seconds | stored, dB |")
        print("|---|---|---|---|")
        for key in options.perturbations:
            storage = recipe.storage_settings({"tier": "video", "profile": "high"})
            made = recipe.make(
                registry.get(key), options.severity, variant="released", seed=0, storage=storage, donors="bench"
            )
            command = [sys.executable, "-m", "perturbations", "videos", "--recipe", json.dumps(made)]
            command += ["--sources", "sources.parquet", "--corpus", "corpus", "--output", "part.parquet"]
            if analysis_of := recipe.analysis_of(made):
                command += ["--analysis", f"{analysis_of['analysis']}.parquet"]
            if recipe.donor_corpus(made):
                command += ["--donors", "embedding.parquet"]
            peak, seconds = peak_mib(command, folder)
            (made_row,) = manifest.read_rows(folder / "part.parquet")
            if made_row["status"] != manifest.COMPLETE:
                raise SystemExit(f"{key}: {made_row['error']}")
            (folder / made_row["path"]).unlink()
            (folder / "part.jsonl").unlink()
            print(f"| {key} | {peak:.0f} | {seconds:.0f} | {made_row['storage_psnr_db']:.1f} |", flush=True)


if __name__ == "__main__":
    main()
