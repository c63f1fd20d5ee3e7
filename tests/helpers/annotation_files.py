"""Small annotation files in every format that is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from perturbations.datasets.adapter_registry import Dataset


def dataset(folder: Path, adapter: str, annotations: str | bytes, name: str, **keys: Any) -> Dataset:
    path = folder / name
    path.write_bytes(annotations if isinstance(annotations, bytes) else annotations.encode())
    (folder / "videos").mkdir(exist_ok=True)
    return Dataset(adapter=adapter, annotations=path, videos=folder / "videos", **keys)


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
