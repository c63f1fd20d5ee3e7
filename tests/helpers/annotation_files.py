"""Small annotation files in every format that is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from perturbations.composed import sources
from perturbations.composed.split import Split
from perturbations.config import file as config_file
from perturbations.config import sections as configuration
from perturbations.corpus.plan import items
from perturbations.datasets.adapter_registry import Dataset, adapters
from perturbations.evaluation.composed.ways import STRATEGIES
from perturbations.retrieval.composed import AVERAGES


def dataset(folder: Path, adapter: str, annotations: str | bytes, name: str, **keys: Any) -> Dataset:
    path = folder / name
    path.write_bytes(annotations if isinstance(annotations, bytes) else annotations.encode())
    (folder / "videos").mkdir(exist_ok=True)
    return adapters()[adapter].settings(adapter=adapter, annotations=path, videos=folder / "videos", **keys)


WRITERS: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    "csv": lambda table, path: table.to_csv(path, index=False),
    "tsv": lambda table, path: table.to_csv(path, index=False, sep="\t"),
    "json": lambda table, path: table.to_json(path, orient="records"),
    "jsonl": lambda table, path: table.to_json(path, orient="records", lines=True),
    "parquet": lambda table, path: table.to_parquet(path),
}


def videodatainfo(*splits: str | None) -> dict[str, Any]:
    videos = [{"id": place, "video_id": f"video{place}", "start time": 1.5} for place in range(len(splits))]
    videos = [video | ({"split": split} if split else {}) for video, split in zip(videos, splits, strict=True)]
    sentences = [
        {"caption": f"{text} {video['id']}", "video_id": video["video_id"]} for text in "ab" for video in videos
    ]
    return {"videos": videos, "sentences": sentences}


def folder_dataset(folder: Path, rows: list[dict[str, Any]], **keys: Any) -> Dataset:
    return dataset(folder, "folder", json.dumps(rows), "captions.json", **keys)


EGOCVR_POOL = [("u_0_9", "#C C cuts", "u"), ("u_9_18", "#C C peels", "u"), ("u_20_29", "#C C walks", "u")]


def write_egocvr(folder: Path, pool: Sequence[tuple[str, ...]] = EGOCVR_POOL) -> dict[str, str]:
    """The official files, of one query, and the settings of the dataset."""
    folder.mkdir(exist_ok=True)
    lines = ["clip_name,narration_text,video_uid", *(",".join(row) for row in pool)]
    (folder / "egocvr_data.csv").write_text("\n".join(lines) + "\n")
    header = "video_clip_id,target_clip_ids,video_clip_narration,target_clip_narration,instruction,modified_captions"
    row = "u_0_9,['u_9_18'],#C C cuts,#C C peels,Peel it., #C C peels"
    (folder / "egocvr_annotations.csv").write_text(f"{header}\n{row}\n")
    return {"adapter": "egocvr", "annotations": str(folder / "egocvr_annotations.csv"), "videos": str(folder)}


def parse(dataset: dict[str, Any], **more: Any) -> configuration.Config:
    return config_file.parse({"datasets": {"mine": dataset}, "suites": {"mlvp": {}}, **more})


def split_of(dataset: dict[str, Any]) -> Split:
    config = parse(dataset)
    settings = config.datasets["mine"]
    return sources.read_split(settings, items.read("mine", settings, videos=False), 0, "mine")


EVERY = {
    "galleries": ("local_full",),
    "strategies": STRATEGIES,
    "words": ("instruction", "tfcvr", "gt"),
    "averages": AVERAGES,
    "first_stage": ("visual",),
    "shortlist": 15,
    "source_in_gallery": None,
    "top_k": None,
}
