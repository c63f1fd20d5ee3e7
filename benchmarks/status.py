"""CPU and wall-clock seconds of `perturb status` in the middle of a run, on files drawn for it.

    python benchmarks/status.py [--repeat 3] [--case NAME]

The files have the form and the size of real ones: lists, parts, journals, locks, logs and benchmarks of shards. 70 % of
the jobs are finished, some with a quarantined clip, eight are at work, and one journal's last line is torn.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = {
    # name: clips, clips per shard, scenarios, the finished part of the shards
    "60,000 videos (1,000 clips)": (1_000, 64, 60, 0.7),
    "60,000 videos (12,000 clips)": (12_000, 80, 5, 0.7),
    "600,000 videos (10,000 clips)": (10_000, 80, 60, 0.7),
}


def write(root: Path, clips: int, per_shard: int, scenarios: int, finished: float) -> None:
    from perturbations.manifest import files
    from perturbations.manifest.kinds import SOURCES, VIDEOS, CompleteSource, VideoRow

    work = root / "work" / "d"
    shards = {f"s{number:012x}": per_shard for number in range(clips // per_shard)}
    (work / "shards").mkdir(parents=True)
    (work / "sources").mkdir()
    for shard, size in shards.items():
        listed = {"item_id": "video7021", "path": "/data/videos/video7021.mp4", "bytes": 1234567, "split": "test"}
        (work / "shards" / f"{shard}.jsonl").write_text((json.dumps(listed) + "\n") * size)
    row = dict.fromkeys(("frame_count", "width", "height", "rotation", "bytes"), 1)
    text = dict.fromkeys(("dataset", "split", "path", "sha256", "frames_sha256", "codec", "pix_fmt"), "0" * 64)
    complete = [
        CompleteSource(**row, **text, item_id=f"video{n}", fps=25.0, duration_s=1.0, status="complete")  # type: ignore[arg-type]
        for n in range(per_shard)
    ]
    files.write(root / "part.parquet", SOURCES, complete)
    of_sources = (root / "part.parquet").read_bytes()
    for shard in shards:
        (work / "sources" / f"{shard}.parquet").write_bytes(of_sources)
    parts = {failed: _video_part(root, VIDEOS, VideoRow, per_shard, failed) for failed in (0, 1)}
    (root / "part.parquet").unlink()
    line = '{"frame_count":300,"stored_frames":300,"bytes":388395,"sha256":"' + "d" * 64 + '","codec":"h264",'
    line += '"pix_fmt":"gbrp","bitrate_bps":1032704.0,"frames_sha256":"' + "f" * 64 + '","storage_psnr_db":45.954895,'
    line += '"psnr_db":16.17079253003886,"ssim":0.8732204939211806}\n'
    names = [f"perturbation_{number // 5}/{number % 5 + 1}" for number in range(scenarios)]
    (work / "suite").mkdir()
    (work / "suite" / "recipes.jsonl").write_text("".join(json.dumps([name, "{}"]) + "\n" for name in names))
    running, number = 8, 0
    for name in names:
        folder = work / "suite" / name
        logs, benchmarks = (root / "work" / kind / "d" / "suite" / name for kind in ("logs", "benchmarks"))
        for path in (folder, logs, benchmarks):
            path.mkdir(parents=True)
        for shard, size in shards.items():
            number += 1
            if number <= finished * scenarios * len(shards):
                failed = int(number % 50 == 0)
                clips = size - failed
                (folder / f"{shard}.parquet").write_bytes(parts[failed])
                (benchmarks / f"{shard}.tsv").write_text(f"s\th:m:s\n{4.5 * size}\t0:05:00\n")
                (folder / f"{shard}.lock").touch()
            elif running:
                running -= 1
                clips = size // 2
                (folder / f"{shard}.lock").write_text(f"{os.getpid()} on {platform.node()}")
                (logs / f"{shard}.log").write_text(f"11:20:58  50% {clips}/{size} [02:25<02:25,  4.5 s/clips]\n")
            else:
                continue
            whole = "".join(f"{number:016x}{clip:016x}{line}" for clip in range(clips))
            (folder / f"{shard}.jsonl").write_text(whole + ("0" * 32 + line[:99] if running == 0 else ""))


def _video_part(root: Path, kind: object, row: object, size: int, failed: int) -> bytes:
    from perturbations.manifest import files

    text = dict.fromkeys(("recipe", "recipe_id", "source_sha256", "sha256", "frames_sha256"), "0" * 64)
    known = {
        "dataset": "d",
        "suite": "suite",
        "perturbation": "p",
        "severity": 1,
        "level": "low",
        "variant": "released",
    }
    known |= {
        "calibrated": False,
        "draw": "clip",
        "params": "{}",
        "backend": "none",
        "seed": 0,
        "storage": "video/high",
    }
    known |= {
        "width": 320,
        "height": 240,
        "fps": 25.0,
        "frame_count": 300,
        "duration_s": 12.0,
    }
    rows = [
        row(  # type: ignore[operator]
            **text,
            **known,
            item_id=f"video{n}",
            source_frame_count=300,
            source_path=f"/data/videos/video{n}.mp4",
            bytes=388395,
            status="quarantined" if n < failed else "complete",
            stage="video" if n < failed else None,
            error="no frame could be decoded" if n < failed else None,
        )
        for n in range(size)
    ]
    files.write(root / "part.parquet", kind, rows)  # type: ignore[arg-type]
    return (root / "part.parquet").read_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--repeat", type=int, default=3, help="runs per case, of which the quickest counts")
    options = parser.parse_args()
    print("| case | files read | CPU s | wall s |\n|---|---|---|---|")
    for name in options.case or CASES:
        with tempfile.TemporaryDirectory() as temporary:
            write(Path(temporary), *CASES[name])
            count = sum(len(names) for _, _, names in os.walk(temporary))
            timed = [_timed(Path(temporary)) for _ in range(options.repeat)]
            cpu, wall = (min(column) for column in zip(*timed, strict=True))
            print(f"| {name} | {count:,} | {cpu:.2f} | {wall:.2f} |", flush=True)


def _timed(folder: Path) -> tuple[float, float]:
    command = [sys.executable, "-P", "-m", "perturbations", "status", "--json"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    stages = json.loads(done.stdout)["stages"]
    assert stages[1]["jobs"] == 8, stages
    assert stages[1]["failed"], stages
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


if __name__ == "__main__":
    main()
