"""Peak memory and CPU seconds of what reads or writes the manifest of a large corpus, with made-up rows.

    python benchmarks/manifests.py [--clips 100000] [--shard 5000] [--keep FOLDER]
    python benchmarks/manifests.py --stored [--scenarios 60]

The corpus has 12 perturbations at 5 severities, so 60 rows per clip, and no files: its tier is `recipe`. With
`--stored`, each clip has a file of 1,000 bytes, and a caption under `--scenarios` perturbations.
Every step is a process of its own. The peak is the largest resident memory of that process.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from perturbations.base import storage
from perturbations.captions import caption_rows
from perturbations.engine import clip_rows, shards
from perturbations.engine.journal import Measured
from perturbations.manifest import files, layout, sets
from perturbations.manifest.kinds import (
    CAPTIONS,
    COMPLETE,
    SOURCES,
    TEXTS,
    VIDEOS,
    CaptionRow,
    CompleteSource,
    TextRow,
    VideoRow,
)
from perturbations.plan import caption_recipes, listed, recipe, tiers
from perturbations.plan.listed import ListedCaption, ListedClip
from perturbations.suites import registry

SUITE = "mm_robustness"
PLACE = {"dataset": "data", "suite": SUITE}
MANIFEST = layout.at("videos", **PLACE)
TEXTS_FILE = layout.at("texts", **PLACE)
FILE = bytes(1_000)
SHA256 = storage.sha256_of(FILE)


def write_parts(folder: Path, clips: int, shard_size: int, scenarios: int, *, stored: bool) -> None:
    """Write what planning and the jobs of all shards write."""
    unguided = [entry for entry in registry.perturbations(SUITE, "video") if entry.guide is None][:12]
    storage_of = tiers.stored_video("high") if stored else tiers.Unstored()
    pairs = itertools.islice(itertools.product(unguided, range(1, 6)), scenarios)
    recipes = {
        f"{entry.name}/{severity}": recipe.make(entry, severity, seed=0, storage=storage_of)
        for entry, severity in pairs
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
    if stored:
        for path in (folder / path_of(job, row) for job in recipes.values() for row in sources):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(FILE)
        write_captions(folder, sources, shard_size, scenarios, about)
    files.write(folder / layout.at("sources", **PLACE), SOURCES, sources, about)


def write_captions(
    folder: Path, sources: list[CompleteSource], shard_size: int, scenarios: int, about: dict[str, object]
) -> None:
    """Write a caption per clip, and the parts of perturbed ones."""
    lines = [ListedCaption(caption_id=f"{row.item_id}#0", item_id=row.item_id, text=TEXT) for row in sources]
    clean = [CaptionRow(dataset="data", caption_id=line.caption_id, item_id=line.item_id, text=TEXT) for line in lines]
    files.write(folder / layout.at("captions", **PLACE), CAPTIONS, clean, about)
    entries = [entry for entry in registry.perturbations(SUITE, "text") if not entry.gated]
    every = ((entry, severity) for entry in entries for severity in entry.severities)
    recipes = {
        f"{entry.name}/{severity}": caption_recipes.make(entry, severity, seed=0)
        for entry, severity in itertools.islice(every, scenarios)
    }
    listed.write_recipes(folder / layout.at("text_recipes", **PLACE), {key: job.text for key, job in recipes.items()})
    for start in range(0, len(lines), shard_size):
        members, shard = lines[start : start + shard_size], f"s{start:012x}"
        listed.write(folder / layout.at("caption_list", shard=shard, **PLACE), members)
        for scenario, job in recipes.items():
            name, _, severity = scenario.partition("/")
            part = layout.at("text_part", perturbation=name, severity=severity, shard=shard, **PLACE)
            files.write(folder / part, TEXTS, (perturbed_text(job, line) for line in members))


TEXT = "a man walks his dog along the beach while two women play the guitar"


def perturbed_text(job: recipe.TextRecipe, line: ListedCaption) -> TextRow:
    """A made-up row of a perturbed caption."""
    return TextRow(
        **caption_rows.of_recipe(job, "data", line),
        dataset="data",
        caption_id=line.caption_id,
        item_id=line.item_id,
        text=f"{line.text} {line.item_id}",
        backend="rules",
        changed=True,
        effective_change=True,
        attempts=1,
        accepted=True,
    )


def path_of(job: recipe.VideoRecipe, row: CompleteSource) -> str | None:
    """The path of a perturbed clip's file; None where it has none."""
    names = {"suite": job.suite, "perturbation": job.perturbation, "severity": job.severity}
    path = shards.target_of(job, Path(layout.at("clips", dataset="data", **names)), row.item_id)
    return path and path.as_posix()


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
    expected = clip_rows.expected_video(job, row, path_of(job, row))
    value = int(expected.recipe_id[:8], 16) / 2**32
    measured = Measured(
        frame_count=row.frame_count,
        stored_frames=row.frame_count if expected.path else 0,
        bytes=len(FILE) if expected.path else None,
        sha256=SHA256 if expected.path else None,
        frames_sha256=storage.sha256_of(expected.recipe_id.encode()),
        psnr_db=20 + 10 * value,
        ssim=value,
    )
    return clip_rows.complete_video(expected, measured)


RULE = ("-m", "perturbations", "rule")
MERGE = (
    *(*RULE, "videos_manifest"),
    json.dumps({"dataset": "data", "adapter": "folder", "suite": SUITE, "captions": [0, 0]}),
    *("--work", "work/data", "--recipes", layout.at("video_recipes", **PLACE)),
    *("--sources", layout.at("sources", **PLACE), "--videos", MANIFEST),
    *("--quarantine", layout.at("quarantine", **PLACE), "--card", layout.at("card", **PLACE)),
)
MIX = (
    *(*RULE, "mixes", "--videos", MANIFEST, "--sources", layout.at("sources", **PLACE)),
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
# The files are as they were published, so that each clip is kept.
REGENERATE = """
import shutil, os
from perturbations.cli.main import main
if not os.path.exists("again/corpora"):
    shutil.copytree("corpora", "again/corpora", copy_function=os.link)
main(["regenerate", "exported/recipe", "--clips", "videos", "-o", "again"])
"""
# The clips have no files: what would be packed is listed.
WEBDATASET = f"""
from pathlib import Path
from perturbations.exports import columns, corpus
from perturbations.exports.registry import Request
exported = corpus.read(Request(manifest=Path("{MANIFEST}"), output=Path("webdataset")))
count = 0
for name, clips in exported.scenarios():
    count += len([columns.of_clip(clip, "") for clip in clips])
print(count)
"""


def exported(form: str, manifest: str = MANIFEST) -> tuple[str, ...]:
    """The command of an export; one folder per format and manifest."""
    output = f"exported/{form}" if manifest == MANIFEST else f"exported/{form}_{Path(manifest).stem}"
    return ("-m", "perturbations", "export", manifest, "--format", form, "--output", output)


STEPS = {
    "videos_manifest": MERGE,
    "mixes": MIX,
    "corpus_page": (*RULE, "corpus_page", "--videos", MANIFEST, "--page", layout.at("corpus_page", **PLACE)),
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

MERGE_TEXTS = (
    *(*RULE, "texts_manifest"),
    json.dumps({"dataset": "data", "adapter": "folder", "suite": SUITE, "skipped": []}),
    *("--work", "work/data", "--recipes", layout.at("text_recipes", **PLACE)),
    *("--rejected", layout.at("rejected_captions", **PLACE), "--texts", TEXTS_FILE),
    *("--statistics", layout.at("text_statistics", **PLACE)),
)
STORED_STEPS = {
    "videos_manifest": MERGE,
    "export webdataset": exported("webdataset"),
    "export hub": exported("hub"),
    "export croissant": exported("croissant"),
    "export mteb": exported("mteb"),
    "export recipe": exported("recipe"),
    "regenerate": ("-c", REGENERATE),
    "merge-texts": MERGE_TEXTS,
    "export captions, webdataset": exported("webdataset", TEXTS_FILE),
    "export captions, hub": exported("hub", TEXTS_FILE),
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
    parser.add_argument("--steps", nargs="+", choices=[*STEPS, *STORED_STEPS])
    parser.add_argument("--stored", action="store_true", help="clips that have files and captions")
    parser.add_argument("--scenarios", type=int, default=60, help="of clips, and of captions")
    parser.add_argument("--keep", type=Path, help="a folder for the corpus, whose parts are made once")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = options.keep or Path(name)
        if not (folder / layout.at("sources", **PLACE)).exists():
            write_parts(folder.resolve(), options.clips, options.shard, options.scenarios, stored=options.stored)
        print("| step | peak, MB | CPU s |\n|---|---|---|")
        steps = STORED_STEPS if options.stored else STEPS
        for step in options.steps or steps:
            peak, seconds, status = measured(steps[step], folder)
            print(f"| {step} | {peak:,.0f} | {seconds:,.0f} |{f' failed: {status}' if status else ''}", flush=True)


if __name__ == "__main__":
    main()
