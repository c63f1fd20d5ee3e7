"""A small corpus as a run leaves it: manifests and videos of items of any name, two tiers, mixes, captions, pairs."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import clips

from perturbations.corpus.captions import mixes
from perturbations.corpus.plan import caption_recipes, recipe, tiers
from perturbations.corpus.store import clip_rows as manifest_rows
from perturbations.manifest import files, sets
from perturbations.manifest.rows import (
    CAPTIONS,
    MIXES,
    MULTIMODAL,
    SOURCES,
    TEXTS,
    VIDEOS,
    CaptionRow,
    SourceRow,
    VideoRow,
)
from perturbations.suites import suite_registry

ITEMS = ["clip_7", "video1", "Video1", '..\\"q" <b>影片', "a/b\nc.d"]
"""The first is a part of a longer video, the last an AVI."""

SCENARIOS = [("gaussian_noise", 1), ("gaussian_noise", 3), ("fog", 1)]


def make(root: Path) -> Path:
    """Write the corpus below `root`: manifests/data/mlvp/videos.parquet and its neighbours; returns `root`."""
    dataset, suite = root / "manifests/data", root / "manifests/data/mlvp"
    sources = _sources(root / "clean")
    videos = _videos(root, [row for row in sources if row.status == "complete"])
    # As where config.yaml names the videos by a path from the working directory.
    videos = [replace(row, source_path=os.path.relpath(row.source_path, root)) for row in videos]
    sources = [replace(row, path=row.path and os.path.relpath(row.path, root)) for row in sources]
    about = {"root": "../..", "dataset": "data", sets.SET: sets.of_sources(sources).columns()}
    files.write(dataset / "sources.parquet", SOURCES, sources, about)
    files.write(dataset / "captions.parquet", CAPTIONS, clean_captions(), about)
    complete = Counter(row.item_id for row in videos if row.status == "complete")
    listed = sets.of_sources(sources, complete, len(SCENARIOS)).columns()
    about = {"root": "../../..", "dataset": "data", "suite": "mlvp", sets.SET: listed}
    files.write(suite / "videos.parquet", VIDEOS, videos, about)
    mixed = {"mixed_types": mixes.mixed_types(videos, sources), "mixed_severity": mixes.mixed_severity(videos)}
    for name, rows in mixed.items():
        files.write(suite / f"{name}.parquet", MIXES, list(rows), {"root": "../../.."})
    (suite / "README.md").write_text("---\ntitle: x\n---\n\n# MLVP on data\n\nThe corpus's own card.\n", "utf-8")
    swapped = caption_recipes.make(suite_registry.get("mm_robustness/word_swap"), 3)
    rows_of_texts = [
        clips.text_row(
            swapped,
            caption_id=row.caption_id,
            item_id=row.item_id,
            source_text=row.text,
            text=f"swapped {row.text}",
            accepted=row.caption_id != "c1",
        )
        for row in clean_captions()
    ]
    files.write(dataset / "mm_robustness/captions.parquet", TEXTS, rows_of_texts, {"root": "../../.."})
    others = [replace(row, perturbation="typos", text=f"typos {row.source_text}") for row in rows_of_texts]
    combined = suite_registry.Combined(severity=1, video=("gaussian_noise", "fog"), text=("word_swap", "typos"))
    pairs = list(mixes.multimodal(videos, [*rows_of_texts, *others], combined))
    files.write(suite / "multimodal.parquet", MULTIMODAL, pairs, {"root": "../../.."})
    return root


def clean_captions() -> list[CaptionRow]:
    """Two captions per item; the tenth of the first item comes after its second."""
    return [
        CaptionRow(
            dataset="data",
            caption_id=f"c{10 * number + item}",
            item_id=name,
            text=f'"{number}" of item {item}\n影',
        )
        for number in (0, 1)
        for item, name in enumerate(ITEMS)
    ]


def _sources(folder: Path) -> list[SourceRow]:
    folder.mkdir(parents=True)
    rows: list[SourceRow] = []
    for place, name in enumerate(ITEMS):
        moving = clips.noise(1, 48, 64 + 30, seed=place)[0]
        frames = [moving[:, at : at + 64] for at in range(8)]
        path = clips.written(folder / f"{place}.mp4", clips.np.stack(frames))
        if place == len(ITEMS) - 1:
            path = clips.copied(path, folder / f"{place}.avi")
        span = {"start_s": 0.08, "end_s": 0.24} if place == 0 else {}
        rows.append(clips.source_row(path, name, **span))
    rows.append(manifest_rows.quarantined_source("data", clips.listed(folder / "0.mp4", "bad"), "no frames"))
    return rows


def _videos(root: Path, sources: list[SourceRow]) -> list[VideoRow]:
    rows: list[VideoRow] = []
    for name, severity in SCENARIOS:
        tier: tiers.Storage = tiers.UNSTORED if name == "fog" else tiers.stored_video("lossless")
        wanted = recipe.make(suite_registry.get(f"mlvp/{name}"), severity, seed=0, storage=tier)
        folder = root / f"corpora/data/mlvp/{name}_{severity}"
        part = root / f"work/{name}_{severity}.parquet"
        rows += clips.video_rows(wanted, sources, root=root, folder=folder, part=part)
    return rows
