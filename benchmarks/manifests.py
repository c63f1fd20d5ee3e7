"""Peak memory and CPU seconds of what reads or writes the manifest of a large corpus, with made-up rows.

    python benchmarks/manifests.py [--clips 100000] [--shard 5000] [--keep FOLDER]

The corpus has 12 perturbations at 5 severities, so 60 rows per clip, and no files: its tier is `recipe`. Every step is
a process of its own. The peak is the largest resident memory of that process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from perturbations.base import storage
from perturbations.engine import clip_rows
from perturbations.engine.journal import Measured
from perturbations.manifest import files, layout, sets
from perturbations.manifest.kinds import COMPLETE, SOURCES, VIDEOS, CompleteSource, VideoRow
from perturbations.plan import listed, recipe, tiers
from perturbations.plan.listed import ListedClip
from perturbations.suites import registry

SUITE = "mm_robustness"
PLACE = {"dataset": "data", "suite": SUITE}
MANIFEST = layout.at("videos", **PLACE)


def write_parts(folder: Path, clips: int, shard_size: int) -> None:
    """Write what planning and the jobs of all shards write."""
    unguided = [entry for entry in registry.perturbations(SUITE, "video") if entry.guide is None][:12]
    recipes = {
        f"{entry.name}/{severity}": recipe.make(entry, severity, seed=0, storage=tiers.Unstored())
        for entry in unguided
        for severity in range(1, 6)
    }
    listed.write_recipes(folder / layout.at("video_recipes", **PLACE), {key: job.text for key, job in recipes.items()})
    sources: list[CompleteSource] = []
    for start in range(0, clips, shard_size):
        # As a hash assigns clips to shards: the items of a shard lie apart.
        members = [source(number) for number in range(start // shard_size, clips, -(-clips // shard_size))]
        shard = f"s{start:012x}"
        places = [ListedClip(item_id=row.item_id, source_video_id=row.item_id, path=row.path) for row in members]
        listed.write(folder / layout.at("shard_list", shard=shard, **PLACE), places)
        for scenario, job in recipes.items():
            name, _, severity = scenario.partition("/")
            part = layout.at("video_part", perturbation=name, severity=severity, shard=shard, **PLACE)
            files.write(folder / part, VIDEOS, (perturbed(job, row) for row in members))
        sources += members
    about = {"root": "../..", "dataset": "data", "set": sets.of_sources(sources).columns()}
    files.write(folder / layout.at("sources", **PLACE), SOURCES, sources, about)


def source(number: int) -> CompleteSource:
    """A made-up clip."""
    digest = storage.sha256_of(str(number).encode())
    return CompleteSource(
        dataset="data",
        split="test",
        item_id=f"video{number:07d}",
        source_video_id=f"video{number:07d}",
        path=f"videos/video{number:07d}.mp4",
        bytes=1_000_000 + number,
        sha256=digest,
        frames_sha256=digest[::-1],
        codec="h264",
        pix_fmt="yuv420p",
        width=320,
        height=240,
        fps=25.0,
        frame_count=250,
        duration_s=10.0,
        rotation=0,
        status=COMPLETE,
    )


def perturbed(job: recipe.VideoRecipe, row: CompleteSource) -> VideoRow:
    """A made-up row of a perturbed clip; what was measured differs from clip to clip."""
    expected = clip_rows.expected_video(job, row, None)
    value = int(expected.recipe_id[:8], 16) / 2**32
    measured = Measured(
        frame_count=row.frame_count,
        stored_frames=0,
        frames_sha256=storage.sha256_of(expected.recipe_id.encode()),
        psnr_db=20 + 10 * value,
        ssim=value,
    )
    return clip_rows.complete_video(expected, measured)


RULE = ("-m", "perturbations", "rule")
MERGE = (
    *(*RULE, "merge-videos", "--dataset", "data", "--adapter", "folder", "--suite", SUITE),
    *("--shards", layout.folder("shard_list", **PLACE, shard=""), "--parts", f"work/data/{SUITE}"),
    *("--recipes", layout.at("video_recipes", **PLACE), "--sources", layout.at("sources", **PLACE)),
    *("--quarantine", layout.at("quarantine", **PLACE), "--card", layout.at("card", **PLACE), "--output", MANIFEST),
)
MIX = (
    *(*RULE, "mix", "--videos", MANIFEST, "--sources", layout.at("sources", **PLACE)),
    *("--severities", layout.at("mixed_severity", **PLACE), "--types", layout.at("mixed_types", **PLACE)),
)
CORPUS = f"""
from perturbations import Corpus
corpus = Corpus("{MANIFEST}")
clips = corpus.where(perturbation="fog", severity=3)
print(len(corpus), corpus.perturbations, sum(clip.frame_count for clip in clips))
"""
POLARS = f"""
import polars
print(polars.scan_parquet("{MANIFEST}").group_by("perturbation").agg(polars.len()).collect(engine="streaming").height)
"""
# What an evaluation reads of a scenario, and of a mix that it draws itself.
EVALUATION = f"""
from pathlib import Path
from perturbations.manifest import layout, sets
from perturbations.manifest.kinds import SOURCES, VIDEOS
from perturbations.plan import listed, mixes
clips = sets.read_part(Path("{layout.at("sources", **PLACE)}"), SOURCES)
shards = listed.shards(Path("{layout.folder("shard_list", **PLACE, shard="")}"))
folder = Path("work/data/{SUITE}/fog/3")
parts = [folder / layout.name("video_part", shard=shard) for shard in shards]
rows = [row for part in parts for row in sets.read_part(part, VIDEOS)]
print(len(rows), len(mixes.drawn("mixed_types", sets.read_part(Path("{MANIFEST}"), VIDEOS), clips, "", ())))
"""
# The clips have no files: what would be packed is listed.
WEBDATASET = f"""
from pathlib import Path
from perturbations.exports.writing import export_columns, export_rows
from perturbations.exports.writing.requests import Request
exported = export_rows.read(Request(manifest=Path("{MANIFEST}"), output=Path("webdataset")))
for name, clips in exported.scenarios.items():
    export_columns.table(export_columns.ClipColumns, [export_columns.of_clip(clip, "") for clip in clips])
print(exported.number)
"""


def exported(form: str) -> tuple[str, ...]:
    """The command of an export; one folder per format."""
    return ("-m", "perturbations", "export", MANIFEST, "--format", form, "--output", f"exported/{form}")


STEPS = {
    "merge-videos": MERGE,
    "mix": MIX,
    "corpus-page": (*RULE, "corpus-page", MANIFEST, "--output", layout.at("corpus_page", **PLACE)),
    "status": ("-m", "perturbations", "status"),
    "retry --dry-run": ("-m", "perturbations", "retry", "--dry-run"),
    "Corpus, where": ("-c", CORPUS),
    "evaluation, reading": ("-c", EVALUATION),
    "polars, streaming": ("-c", POLARS),
    "export webdataset, rows": ("-c", WEBDATASET),
    "export hub, refused": exported("hub"),
    "export croissant, refused": exported("croissant"),
    "export recipe": exported("recipe"),
    "verify --fast": ("-m", "perturbations", "verify", MANIFEST, "--fast"),
}


def measured(command: tuple[str, ...], folder: Path) -> tuple[float, float, int]:
    """Peak MB, CPU seconds and exit status of a step."""
    process = subprocess.Popen([sys.executable, *command], cwd=folder, stdout=sys.stderr)
    _, status, usage = os.wait4(process.pid, 0)
    return usage.ru_maxrss * 1024 / 1e6, usage.ru_utime + usage.ru_stime, os.waitstatus_to_exitcode(status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=100_000)
    parser.add_argument("--shard", type=int, default=5_000)
    parser.add_argument("--steps", nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--keep", type=Path, help="a folder for the corpus, whose parts are made once")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = options.keep or Path(name)
        if not (folder / layout.at("sources", **PLACE)).exists():
            write_parts(folder.resolve(), options.clips, options.shard)
        print("| step | peak, MB | CPU s |\n|---|---|---|")
        for step in options.steps:
            peak, seconds, status = measured(STEPS[step], folder)
            print(f"| {step} | {peak:,.0f} | {seconds:,.0f} |{f' failed: {status}' if status else ''}", flush=True)


if __name__ == "__main__":
    main()
