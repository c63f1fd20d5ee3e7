"""The clips of a table of captions and a folder of videos that no configuration names yet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from perturbations.datasets import folder
from perturbations.datasets.listing import VIDEO_EXTENSIONS, Rejected
from perturbations.datasets.registry import Dataset
from perturbations.plan import items
from perturbations.plan.listed import ListedClip


@dataclass(frozen=True)
class OwnItems:
    """The clips that have a video, and what was left out.

    Attributes:
        columns: the table's columns whose names are not the defaults.
        clips: the clips, with their numbers of captions.
        rejected: what cannot be used, and why.
        unlisted: videos of the folder that no caption names.
    """

    columns: dict[str, str]
    clips: list[tuple[ListedClip, int]]
    rejected: list[Rejected]
    unlisted: list[str]


def match(name: str, videos: Path, captions: Path) -> OwnItems:
    """Match captions with videos. Raises `ConfigError` and `AnnotationError`."""
    columns = folder.guessed_columns(captions)
    given = {"adapter": "folder", "annotations": captions, "videos": videos, "columns": columns}
    dataset = Dataset.model_validate(given)
    listing = items.read(name, dataset)
    located, missing = items.locate(dataset, listing)
    clips = [
        (
            ListedClip(item_id=entry.item.item_id, source_video_id="", path=str(entry.path), bytes=entry.bytes),
            len(entry.item.texts),
        )
        for entry in located
    ]
    named = {os.path.realpath(clip.path) for clip, _ in clips}
    there = sorted(path for path in videos.iterdir() if path.suffix.lower() in VIDEO_EXTENSIONS)
    unlisted = [path.name for path in there if os.path.realpath(path) not in named]
    return OwnItems(columns, clips, [*listing.rejected, *missing], unlisted)
