"""CPU seconds per clip of our jobs, and of the least that ffmpeg needs for the same work: the floor.

The floor is to decode the clean clip, to encode the same perturbed frames with the same storage settings, and, because
every job checks what it stored, to decode and hash the stored file. ffmpeg's encode is its transcode of the stored file
without the decode of it. Of three measurements the least counts, because programs as short as these vary.

    python benchmarks/corpus.py VIDEO [VIDEO ...] [--shard 50] [--severities 1 3 5]

Every job is the workflow's own command (`perturb rule videos`), imports and process start included, on a shard in which
the given videos take turns.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from perturbations.base import storage
from perturbations.config import sections as config
from perturbations.engine import shards
from perturbations.manifest import files
from perturbations.manifest.kinds import SOURCES, VIDEOS
from perturbations.media import program
from perturbations.plan import recipe, tiers
from perturbations.plan.listed import ListedClip
from perturbations.suites import registry


def cpu_of(command: list[str], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def floor_cpu(clean: list[Path], stored: list[Path], arguments: str, folder: Path) -> float:
    """Mean CPU seconds of ffmpeg for decode + encode + decode and hash, of clips and their stored files."""
    decoded = ["-pix_fmt", "rgb24", "-f", "null", "-"]
    hashed = ["-pix_fmt", "rgb24", "-f", "hash", "-hash", "sha256", "-"]
    encoded = [*shlex.split(arguments), "-threads", "1", "plain.mp4"]
    total = sum(_ffmpeg_cpu(path, decoded, folder) for path in clean)
    for path in stored:
        encode = _ffmpeg_cpu(path, encoded, folder) - _ffmpeg_cpu(path, decoded[2:], folder)
        total += encode + _ffmpeg_cpu(path, hashed, folder)
    return total / len(clean)


def _ffmpeg_cpu(video: Path, output: list[str], folder: Path) -> float:
    command = [program.ffmpeg_program(), "-v", "error", "-y", "-threads", "1", "-i", str(video), "-an"]
    return cpu_of([*command, *output], folder)


def plain_arguments(job_recipe: recipe.VideoRecipe) -> str:
    """The ffmpeg options of the same storage settings."""
    if job_recipe.entry.method == "codec":
        options = job_recipe.entry.kernel(**job_recipe.params)
        return " ".join(f"-{name.replace('vcodec', 'c:v')} {value}" for name, value in options.items())
    if not isinstance(job_recipe.storage, tiers.StoredVideo):
        return "-c:v libx264rgb -preset ultrafast -qp 18"
    profile = storage.PROFILES[job_recipe.storage.profile]
    options_text = " ".join(f"-{name} {value}" for name, value in profile.options.items())
    return f"-c:v {profile.codec} -pix_fmt {profile.pix_fmt} {options_text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path)
    parser.add_argument("--shard", type=int, default=50)
    parser.add_argument("--severities", nargs="+", type=int, default=[1, 3, 5])
    parser.add_argument(
        "--perturbations", nargs="+", default=[entry.key for entry in registry.perturbations(kind="video")]
    )
    options = parser.parse_args()
    videos = [path.resolve() for path in options.videos]

    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        described = [shards.source_row("bench", _listed(path)) for path in videos]
        rows = [replace(described[index % len(videos)], item_id=f"clip-{index:03d}") for index in range(options.shard)]
        files.write(folder / "sources.parquet", SOURCES, rows)
        print("| analysis, once a clip | full length | 12 frames |")
        print("|---|---|---|")
        for name in filter(_needed(options.perturbations).__contains__, ANALYSES):
            full, twelve = (_analysed(name, tier, folder) / options.shard for tier in (HIGH, TWELVE))
            print(f"| {name} | {full:.3f} | {twelve:.3f} |", flush=True)
        columns = ("perturbation", "severity", "floor", "job", "12 frames", "MB")
        print("\n| " + " | ".join(columns) + " |")
        print("|---" * len(columns) + "|")
        for key in options.perturbations:
            for severity in options.severities:
                print(_line(key, severity, videos, folder, options.shard), flush=True)


HIGH = tiers.stored_video("high")
TWELVE = tiers.StoredFrames(num_frames=12)
ANALYSES = ("motion", "main_object", "embedding")


def _needed(keys: list[str]) -> set[str]:
    """The analyses that the guides of perturbations need."""
    recipes = (recipe.make(registry.get(key), 1, seed=0, storage=HIGH, donors="bench") for key in keys)
    return {job.analysis.analysis for job in recipes if job.analysis is not None}


def _analysed(name: str, tier: tiers.Storage, folder: Path) -> float:
    """CPU seconds of an analysis of the whole shard, whose part then lies in `folder`."""
    job_recipe = recipe.analysis(name, config.Backends(), tier)
    settings = json.dumps({"recipe": json.loads(job_recipe.text)})
    command = [sys.executable, "-P", "-m", "perturbations", "rule", "analyses", settings]
    command += ["--sources", "sources.parquet", "--part", f"{name}-{tier.tier}/s1.parquet"]
    return cpu_of(command, folder)


def _listed(path: Path) -> ListedClip:
    return ListedClip(item_id=path.stem, source_video_id=path.stem, path=str(path))


def _line(key: str, severity: int, videos: list[Path], folder: Path, shard: int) -> str:
    def job(tier: tiers.Storage) -> tuple[float, float, float]:
        job_recipe = recipe.make(registry.get(key), severity, seed=0, storage=tier, donors="bench")
        work = Path(tempfile.mkdtemp(dir=folder))
        settings = json.dumps({"recipe": json.loads(job_recipe.text)})
        command = [sys.executable, "-P", "-m", "perturbations", "rule", "videos", settings]
        command += ["--sources", "../sources.parquet", "--output+", "corpus/.s1.json", "part.parquet"]
        if job_recipe.analysis is not None:
            name = f"{job_recipe.analysis.analysis}-{tier.tier}"
            (work / name).symlink_to(folder / name)  # paths in the part start from the folder of the run
            command += ["--analysis", f"{name}/s1.parquet"]
            if job_recipe.donors is not None:
                command += ["--donors", f"{name}/s1.parquet"]
        cpu = cpu_of(command, work) / shard
        rows = files.read_rows(work / "part.parquet", VIDEOS)
        size = sum(row.bytes or 0 for row in rows) / shard
        floor = 0.0
        if tier == HIGH:
            paths = {row.source_path: work / (row.path or "") for row in rows}
            stored = [paths[str(video)] for video in videos]
            floor = min(floor_cpu(videos, stored, plain_arguments(job_recipe), folder) for _ in range(3))
        subprocess.run(["rm", "-r", str(work)], check=True)
        return cpu, size, floor

    full, _, floor = job(HIGH)
    twelve, size, _ = job(TWELVE)
    name = key.partition("/")[2]
    return (
        f"| {name} | {severity} | {floor:.3f} | {full:.3f} ({full / floor:.2f} x) | {twelve:.3f} | {size / 1e6:.2f} |"
    )


if __name__ == "__main__":
    main()
