"""CPU seconds per clip of our jobs, and of the least that ffmpeg needs for the same work: the floor.

The floor is to decode the clean clip, to encode the same perturbed frames with the same storage settings, and, because
every job checks what it stored, to decode and hash the stored file. ffmpeg's encode is its transcode of the stored file
without the decode of it. Of three measurements the least counts, because programs as short as these vary.

    python benchmarks/corpus.py VIDEO [VIDEO ...] [--shard 50] [--severities 1 3 5]

Snakemake runs the jobs one after the other, on a shard in which the given videos take turns; their CPU time, imports
and process start included, is that of Snakemake's benchmark files.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from perturbations import read_manifest
from perturbations.base import storage
from perturbations.media import encoding
from perturbations.suites import registry

PROJECT = Path(__file__).parents[1]
PROFILE = "high"


def ffmpeg_cpu(video: str, output: list[str], folder: Path) -> float:
    command = [encoding.ffmpeg_program(), "-v", "error", "-y", "-threads", "1", "-i", video, "-an", *output]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def floor_cpu(pairs: list[tuple[str, str]], arguments: str, folder: Path) -> float:
    """Mean CPU seconds of ffmpeg for decode + encode + decode and hash, of clips and their stored files."""
    decoded = ["-pix_fmt", "rgb24", "-f", "null", "-"]
    hashed = ["-pix_fmt", "rgb24", "-f", "hash", "-hash", "sha256", "-"]
    encoded = [*shlex.split(arguments), "-threads", "1", "plain.mp4"]
    total = 0.0
    for clean, stored in pairs:
        encode = ffmpeg_cpu(stored, encoded, folder) - ffmpeg_cpu(stored, decoded[2:], folder)
        total += ffmpeg_cpu(clean, decoded, folder) + encode + ffmpeg_cpu(stored, hashed, folder)
    return total / len(pairs)


def plain_arguments(entry: registry.Perturbation, severity: int) -> str:
    """The ffmpeg options of the same storage settings."""
    if entry.method == "codec":
        options = entry.kernel(**entry.parameters(severity))
        return " ".join(f"-{name.replace('vcodec', 'c:v')} {value}" for name, value in options.items())
    profile = storage.PROFILES[PROFILE]
    settings = " ".join(f"-{name} {value}" for name, value in profile.options.items())
    return f"-c:v {profile.codec} -pix_fmt {profile.pix_fmt} {settings}"


def measured_cpu(folder: Path, *parts: str) -> float:
    """CPU seconds of the job whose benchmark file lies there."""
    (path,) = (folder / "work/benchmarks/d").joinpath(*parts).glob("*.tsv")
    with path.open(newline="") as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    return float(row["cpu_time"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path)
    parser.add_argument("--shard", type=int, default=50)
    parser.add_argument("--severities", nargs="+", type=int, default=[1, 3, 5])
    keys = [entry.key for entry in registry.perturbations(kind="video")]
    parser.add_argument("--perturbations", nargs="+", choices=keys, default=keys)
    options = parser.parse_args()
    videos = [path.resolve() for path in options.videos]
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        rows = [f"clip{index:03d},{videos[index % len(videos)].name},a caption" for index in range(options.shard)]
        (folder / "clips").mkdir()
        for video in videos:
            (folder / "clips" / video.name).symlink_to(video)
        (folder / "captions.csv").write_text("\n".join(["item_id,video,caption", *rows]))
        dataset = {"adapter": "folder", "annotations": "captions.csv", "videos": "clips", "columns": {"video": "video"}}
        suites: dict[str, list[str]] = {}
        for key in options.perturbations:
            suites.setdefault(key.partition("/")[0], []).append(key.partition("/")[2])
        chosen = {suite: {"perturbations": names, "severities": options.severities} for suite, names in suites.items()}
        config = {"datasets": {"d": dataset}, "suites": chosen, "shard_size": options.shard}
        (folder / "config.yaml").write_text(json.dumps({**config, "storage": {"tier": "video", "profile": PROFILE}}))
        command = [
            sys.executable,
            "-m",
            "snakemake",
            "--snakefile",
            PROJECT / "Snakefile",
            "--cores",
            "1",
            "--no-hooks",
        ]
        subprocess.run([*command, "--", *(f"{suite}_d" for suite in suites)], cwd=folder, check=True, stdout=sys.stderr)
        print("| perturbation | severity | floor | job | MB |\n|---|---|---|---|---|")
        for key in options.perturbations:
            entry = registry.get(key)
            table = read_manifest(folder / "manifests/d" / entry.suite / "videos.parquet")
            for severity in options.severities:
                clips = table.query("perturbation == @entry.name and severity == @severity")
                pairs = [(row.source_path, row.path) for row in clips.head(len(videos)).itertuples()]
                floor = min(floor_cpu(pairs, plain_arguments(entry, severity), folder) for _ in range(3))
                job = measured_cpu(folder, entry.suite, entry.name, str(severity)) / options.shard
                size = clips["bytes"].mean() / 1e6
                print(
                    f"| {key} | {severity} | {floor:.3f} | {job:.3f} ({job / floor:.2f} x) | {size:.2f} |", flush=True
                )


if __name__ == "__main__":
    main()
