"""The clips of a file of captions and a folder of videos or pictures that no configuration names yet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from perturbations.base.errors import AnnotationError, short
from perturbations.base.storage import PICTURE_EXTENSIONS
from perturbations.datasets import folder
from perturbations.datasets.listing import VIDEO_EXTENSIONS, Rejected
from perturbations.datasets.parsing import whole_json
from perturbations.datasets.registry import Dataset
from perturbations.plan import items
from perturbations.plan.listed import ListedClip


@dataclass(frozen=True)
class OwnItems:
    """The clips that have a file, and what was left out.

    Attributes:
        adapter: what reads the captions.
        columns: those of the captions' file whose names are not the defaults.
        split: the key below which the captions' file has them, where it has keys of splits; else "".
        other_splits: its other keys.
        clips: the clips, with their numbers of captions.
        rejected: what cannot be used, and why.
        unlisted: files of the folder that no caption names.
    """

    adapter: str
    columns: dict[str, str]
    split: str
    other_splits: list[str]
    clips: list[tuple[ListedClip, int]]
    rejected: list[Rejected]
    unlisted: list[str]


def match(name: str, videos: Path, captions: Path, *, pictures: bool = False) -> OwnItems:
    """Match captions with videos or pictures. Raises `ConfigError` and `AnnotationError`."""
    if not captions.is_file():
        raise AnnotationError(f"{captions}: no such file")
    if not videos.is_dir():  # as a shell leaves it in `--videos=~/clips`, where the configuration's `~` is a folder
        raise AnnotationError(f"{videos}: no such directory{'; it is a file' if videos.exists() else ''}")
    adapter = _adapter(captions) if pictures else folder.ADAPTER.name
    is_table = adapter in (folder.ADAPTER.name, "pictures")
    columns = folder.guessed_columns(captions) if is_table else {}
    splits = folder.splits(captions) if is_table else []
    split = splits[0] if len(splits) == 1 else folder.ADAPTER.split if splits else ""
    given = {"adapter": adapter, "annotations": captions, "videos": videos, "columns": columns, "split": split or None}
    dataset = Dataset.model_validate(given)
    listing = items.read(name, dataset)
    located, missing = items.locate(dataset, listing)
    captions_of = {item.item_id: sum(map(bool, item.texts)) for item in listing.items}
    clips = [(clip, captions_of[clip.item_id]) for clip in located]
    named = {os.path.realpath(clip.path) for clip, _ in clips}
    extensions = PICTURE_EXTENSIONS if pictures else VIDEO_EXTENSIONS
    there = sorted(path for path in videos.iterdir() if path.suffix.lower() in extensions)
    unlisted = [path.name for path in there if os.path.realpath(path) not in named]
    others = [name for name in splits if name != split]
    return OwnItems(adapter, columns, split, others, clips, [*listing.rejected_captions(), *missing], unlisted)


def _adapter(captions: Path) -> str:
    """Which adapter of pictures reads a file of captions: an object in JSON is Karpathy's or COCO's own file."""
    if captions.suffix.lower() != ".json" or not captions.read_bytes()[:1000].lstrip().startswith(b"{"):
        return "pictures"
    described = whole_json(captions, dict, "an object with `images`")
    name = "coco" if "annotations" in described else described.get("dataset")
    if name in ("coco", "flickr30k"):
        return str(name)
    if all(isinstance(entries, list) for entries in described.values()):
        return "pictures"
    raise AnnotationError(f"{captions} has no `annotations`, and its `dataset` is {short(name)}, not coco or flickr30k")
