"""CPU seconds per clip of our jobs, and of the least that ffmpeg needs for the same work: the floor.

The floor is to decode the clean clip, to encode the same perturbed frames with the same storage settings, and, because
every job checks what it stored, to decode and hash the stored file. ffmpeg's encode is its transcode of the stored file
without the decode of it. Of the repeated measurements the least counts, because programs as short as these vary.

    python benchmarks/corpus.py VIDEO [VIDEO ...] [--shard 50] [--severities 1 3 5] [--repeats 3]

Snakemake makes the corpus, of a shard in which the given videos take turns. Then each job runs again, alone, imports
and process start included: Snakemake's own figures end with its last look at a process, up to half a minute early.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from perturbations import read_manifest
from perturbations.media import encoding, profiles
from perturbations.suites import suite_registry

PROJECT = Path(__file__).parents[1]
PROFILE = "high"


def cpu(command: list[str], folder: Path) -> float:
    """CPU seconds of a program and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def floor_cpu(pairs: list[tuple[str, str]], arguments: str, folder: Path) -> float:
    """Mean CPU seconds of ffmpeg for decode + encode + decode and hash, of clips and their stored files."""
    begin = [encoding.ffmpeg_program(), "-v", "error", "-y", "-threads", "1", "-i"]
    decoded = ["-pix_fmt", "rgb24", "-f", "null", "-"]
    hashed = ["-pix_fmt", "rgb24", "-f", "hash", "-hash", "sha256", "-"]
    encoded = [*shlex.split(arguments), "-threads", "1", "plain.mp4"]
    total = 0.0
    for clean, stored in pairs:
        runs = ((1, stored, encoded), (-1, stored, decoded[2:]), (1, clean, decoded), (1, stored, hashed))
        total += sum(sign * cpu([*begin, video, "-an", *output], folder) for sign, video, output in runs)
    return total / len(pairs)


def plain_arguments(entry: suite_registry.Perturbation, severity: int) -> str:
    """The ffmpeg options of the same storage settings."""
    if entry.method == "codec":
        options = entry.kernel(**entry.parameters(severity))
        return " ".join(f"-{name.replace('vcodec', 'c:v')} {value}" for name, value in options.items())
    profile = profiles.PROFILES[PROFILE]
    settings = " ".join(f"-{name} {value}" for name, value in profile.options.items())
    return f"-c:v {profile.codec} -pix_fmt {profile.pix_fmt} {settings}"


def job_commands(snakemake: list[str], folder: Path, targets: list[str]) -> dict[tuple[str, int], list[str]]:
    """The command of each job that makes videos, by the perturbation's key and its severity."""
    options = ["--dry-run", "--printshellcmds", "--quiet", "host", "--forcerun", "videos"]
    run = subprocess.run([*snakemake, *options, *targets], cwd=folder, check=True, capture_output=True, text=True)
    commands = {}
    for line in (run.stdout + run.stderr).splitlines():
        _, is_job, rest = line.partition("perturb rule videos ")
        if is_job:
            words = shlex.split(rest.partition(" 2> ")[0])
            recipe = json.loads(words[0])["recipe"]
            command = [str(Path(sys.executable).with_name("perturb")), "rule", "videos", *words]
            commands[f"{recipe['suite']}/{recipe['perturbation']}", recipe["severity"]] = command
    return commands


def job_cpu(command: list[str], key: str, severity: int, folder: Path) -> float:
    """CPU seconds of a job that makes its clips again."""
    clips = folder / "corpora/d" / key / str(severity)
    shutil.rmtree(clips)
    clips.mkdir()
    return cpu(command, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path)
    parser.add_argument("--shard", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--severities", nargs="+", type=int, default=[1, 3, 5])
    keys = [entry.key for entry in suite_registry.perturbations(kind="video")]
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
        snakemake = [sys.executable, "-m", "snakemake", "--snakefile", str(PROJECT / "Snakefile"), "--cores", "1"]
        targets = ["--no-hooks", "--", *(f"{suite}_d" for suite in suites)]
        subprocess.run([*snakemake, *targets], cwd=folder, check=True, stdout=sys.stderr)
        commands = job_commands(snakemake, folder, targets)
        print("perturbation | severity | floor | job | MB\n---|---|---|---|---")
        for key in options.perturbations:
            entry = suite_registry.get(key)
            table = read_manifest(folder / "manifests/d" / entry.suite / "videos.parquet")
            for severity in options.severities:
                clips = table.query("perturbation == @entry.name and severity == @severity")
                pairs = [(row.source_path, row.path) for row in clips.head(len(videos)).itertuples()]
                arguments, command = plain_arguments(entry, severity), commands[key, severity]
                measured = [
                    (floor_cpu(pairs, arguments, folder), job_cpu(command, key, severity, folder) / options.shard)
                    for _ in range(options.repeats)
                ]
                floor, job = map(min, zip(*measured, strict=True))
                cells = (key, severity, f"{floor:.3f}", f"{job:.3f} ({job / floor:.2f} x)")
                print(*cells, f"{clips['bytes'].mean() / 1e6:.2f}", sep=" | ", flush=True)


if __name__ == "__main__":
    main()
