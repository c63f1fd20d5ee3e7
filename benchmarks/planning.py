"""CPU seconds of dry runs of whole corpora, before and after everything is made.

    python benchmarks/planning.py [--repeat 1]
    python benchmarks/planning.py --clips 1000000 --pixels 100e6    clips that are listed, and need not exist

Other code is measured with PYTHONPATH set to its folder.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from perturbations.engine import clip_files
from perturbations.manifest import layout
from perturbations.plan import listed

RUNS = {
    # name: suite, videos; each is made at 5 severities
    "60,000 outputs: MLVP of 1,000 videos": ("mlvp", 1_000),
    "90,000 outputs: MSRVTT-P of 1,000 videos": ("msrvtt_p", 1_000),
    "MLVP of 10,000 videos": ("mlvp", 10_000),
}


def write_dataset(folder: Path, videos: int, *, exist: bool = True) -> None:
    (folder / "videos").mkdir(parents=True)
    with (folder / "captions.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["item_id", "caption"])
        for number in range(videos):
            rows.writerow([f"video{number}", f"caption number {number} of a man who walks a dog on a beach"])
            if exist:
                (folder / "videos" / f"video{number}.mp4").touch()


def dry_run(folder: Path, target: str, program: Sequence[str] = ("-m", "snakemake")) -> tuple[float, int]:
    """CPU seconds (user and system, with child processes) of a dry run, and the number of jobs that it would start."""
    command = [sys.executable, *program, "--snakefile", str(Path(__file__).parents[1] / "Snakefile")]
    command += [
        "--workflow-profile",
        str(Path(__file__).parents[1] / "workflow/profiles/default"),
        "--cores",
        "2",
        "-n",
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*command, target], cwd=folder, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    totals = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("total ")]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, (totals or [0])[0]


_LISTED = """
import os
import runpy
from pathlib import Path
from perturbations.plan import costs, items

def locate(dataset, listing):
    paths = [os.path.join(dataset.videos, item.files[0]) for item in listing.items]
    return [items.clip(item, dataset, path, 1_000_000) for item, path in zip(listing.items, paths)], []

items.locate = locate
costs.largest = lambda clips: costs.ClipSize(640 * 360, {pixels} / (640 * 360))
runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
"""


def measure_listing(clips: int, pixels: float) -> None:
    """A dry run of clips that are listed, each of `pixels` pixels in all frames, and that need not exist."""
    print("| corpus | clips per shard, at most | jobs | planning, CPU s | peak, GB |\n|---|---|---|---|---|")
    for suite in ("mlvp", "mm_robustness"):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            write_dataset(folder, clips, exist=False)
            configured = {
                "datasets": {"d": dataset_in(folder)},
                "suites": {suite: {}},
                "shard_size": max(100, clips // 250),
            }
            (folder / "config.yaml").write_text(json.dumps(configured))
            seconds, jobs = dry_run(folder, f"{suite}_d", ["-c", _LISTED.format(pixels=pixels)])
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
            lists = listed.counts(folder / layout.folder("shard_list", dataset="d")).values()
            print(f"| {suite} of {clips:,} | {max(lists):,} | {jobs:,} | {seconds:.1f} | {peak:.2f} |", flush=True)


_MEASURED = {
    # of storage: CPU hours per 60,000 clips of MLVP on MSR-VTT, of 27 million pixels, and bytes per stored pixel
    "high": (19, clip_files.BYTES_PER_PIXEL["high"]),
    "compatible": (19, clip_files.BYTES_PER_PIXEL["compatible"]),
    "frames": (7, clip_files.BYTES_PER_PIXEL["frames"]),
    "recipe": (17, 0.0),
}


def print_sizes(clips: int, pixels: float, frame_pixels: int = 640 * 360) -> None:
    """What MLVP of so many clips takes, by storage, from rates that were measured on MSR-VTT."""
    videos = clips * 60
    print("\n| storage | CPU hours | TB of videos | files |\n|---|---|---|---|")
    for name, (hours, per_pixel) in _MEASURED.items():
        stored = 12 * frame_pixels if name == "frames" else pixels
        cost, size = hours * videos / 60_000 * pixels / 27e6, videos * stored * per_pixel / 1e12
        print(f"| {name} | {cost:,.0f} | {size:,.0f} | {videos if per_pixel else 0:,} |")


def make_everything(folder: Path, suite: str) -> None:
    """In the child: write empty files in place of all results, in the order of work, so that nothing is left to do."""
    from perturbations.config import file as config_file
    from perturbations.guides import registry as guides
    from perturbations.plan import paths, recipe, sharding, targets
    from perturbations.plan.rules import CorpusRules

    parsed = config_file.parse({"datasets": {"d": dataset_in(folder)}, "suites": {suite: {}}})
    shards = sharding.plan_clips(parsed, "d").shards
    corpus = targets.corpus(parsed, suite, "d", lambda name: sharding.plan_clips(parsed, name)).files
    CorpusRules(parsed).video_recipes(SimpleNamespace(dataset="d", suite=suite))
    analyses = [
        part for name in guides.ANALYSES for part in paths.of_shards("analysis_part", "d", shards, analysis=name)
    ]
    stages = [
        paths.of_shards("source_part", "d", shards),
        ["manifests/d/sources.parquet"],
        analyses,
        [f"manifests/d/{name}.parquet" for name in guides.ANALYSES],
        paths.of_scenarios("video_part", "d", suite, recipe.scenarios(parsed, suite), shards),
        [f"manifests/d/{suite}/{name}" for name in ("videos.parquet", "quarantine.parquet", "README.md")],
        [name for name in corpus if not Path(name).exists()],
    ]
    for number, stage in enumerate(stages):
        for name in stage:
            path = Path(name)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
                moment = time.time() + number
                os.utime(path, (moment, moment))


def dataset_in(folder: Path) -> dict[str, str]:
    return {"adapter": "folder", "annotations": str(folder / "captions.csv"), "videos": str(folder / "videos")}


def measure_runs(repeat: int) -> None:
    print("| dry run | jobs | CPU s, first | CPU s, again | nothing to do, CPU s |\n|---|---|---|---|---|")
    for name, (suite, videos) in RUNS.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            write_dataset(folder, videos)
            suites = {suite: {}}
            (folder / "config.yaml").write_text(json.dumps({"datasets": {"d": dataset_in(folder)}, "suites": suites}))
            target = f"{suite}_d"
            first, jobs = dry_run(folder, target)
            again = min(dry_run(folder, target)[0] for _ in range(repeat))
            subprocess.run([sys.executable, __file__, "--everything", suite, temporary], cwd=folder, check=True)
            idle = [dry_run(folder, target) for _ in range(repeat)]
            assert {left for _, left in idle} == {0}, idle
            print(
                f"| {name} | {jobs:,} | {first:.1f} | {again:.1f} | {min(seconds for seconds, _ in idle):.1f} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=1, help="runs of which the quickest counts")
    parser.add_argument("--everything", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--clips", type=int, help="plan a listing of so many clips, without files")
    parser.add_argument("--pixels", type=float, default=100e6, help="pixels of a clip, all of its frames")
    options = parser.parse_args()
    if options.clips:
        print_sizes(options.clips, options.pixels)
        measure_listing(options.clips, options.pixels)
    elif options.everything:
        make_everything(Path(options.everything[1]), options.everything[0])
    else:
        measure_runs(options.repeat)


if __name__ == "__main__":
    main()
