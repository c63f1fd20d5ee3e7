"""Which items a job handles. Standard library only: Snakemake plans on every start.

Items go to shards by a hash of their video's id and their own. A shard holds the items whose hashes share a prefix, as
long as needed to hold at most `shard_size`: an item that comes or goes changes its own shard and no other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from perturbations import config as configuration
from perturbations import datasets, storage
from perturbations.recipe import canonical

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """The work for one collection: its shards by name, each with its list file, and what is known before any job.

    Attributes:
        shards: their names.
        videos: of each shard, the ids of the videos that its items are parts of.
        listed: how many items the annotations list.
        rejected: how many of them cannot be used.
    """

    shards: tuple[str, ...]
    videos: Mapping[str, frozenset[str]]
    listed: int
    rejected: int


def shards_of(
    items: Sequence[T], shard_size: int, item_id: Callable[[T], str], video_id: Callable[[T], str]
) -> dict[str, list[T]]:
    """Split items into shards of at most `shard_size`, by the leading bits of a hash of their video's ids and theirs.

    Clips of one video stay together while they fit. A shard is named after the smallest hash in it, so that it keeps
    its name for as long as it keeps its items.
    Raises `ValueError` when more than `shard_size` items have one id.
    """
    shards: dict[str, list[T]] = {}
    hashed = sorted(
        ((_hash(video_id(item))[:32] + _hash(item_id(item))[:32], item) for item in items), key=lambda pair: pair[0]
    )
    pending = [(0, hashed)]
    while pending:
        depth, members = pending.pop()
        if len(members) <= shard_size:
            if members:
                shards[f"s{_hash(members[0][0])[:12]}"] = sorted((item for _, item in members), key=item_id)
            continue
        if depth == 256:
            raise ValueError(f"more than {shard_size} items have the id {item_id(members[0][1])!r}")
        upper = [pair for pair in members if int(pair[0], 16) >> (255 - depth) & 1]
        pending += [(depth + 1, members[: len(members) - len(upper)]), (depth + 1, upper)]
    return dict(sorted(shards.items()))


def _hash(item_id: str) -> str:
    return hashlib.sha256(item_id.encode("utf-8", "surrogatepass")).hexdigest()


_WHOLE = "/whole"


def whole(dataset: str) -> str:
    """The name of the collection of a dataset's whole videos, of which its items are parts."""
    return dataset + _WHOLE


def dataset_of(collection: str) -> str:
    """The dataset that a collection, itself or its whole videos, belongs to."""
    return collection.removesuffix(_WHOLE)


def make(name: str, config: configuration.Config, root: Path) -> Plan:
    """Read a dataset's annotations, look for its videos, and write the list files below `root`.

    `name` is the dataset's, or `whole` of it. Files whose content stays the same are not touched.
    Raises `ConfigError` and `AnnotationError`.
    """
    dataset = config.datasets[dataset_of(name)]
    listing = datasets.read(dataset_of(name), dataset)
    if name.endswith(_WHOLE):
        listing = datasets.whole_videos(dataset, listing)
    split = datasets.split_of(dataset)
    if dataset.adapter == "demo":
        located = [_Listed(item, split, root / "videos" / f"{item.item_id}.mp4", None) for item in listing.items]
        missing: list[datasets.Rejected] = []
    else:
        found, missing = datasets.locate(dataset, listing)
        located = [_Listed(one.item, split, one.path, one.bytes) for one in found]
    shards = shards_of(located, config.shard_size, lambda one: one.item.item_id, lambda one: one.item.source_video_id)
    for shard, members in shards.items():
        _write_lines(list_path(root, shard), [member.line() for member in members])
    for stale in set((root / "shards").glob("*.jsonl")) - {list_path(root, shard) for shard in shards}:
        stale.unlink()
    rejected = [
        {"item_id": entry.item_id, "split": split, "error": entry.reason, "missing": is_missing}
        for is_missing, entries in ((False, listing.rejected), (True, missing))
        for entry in entries
    ]
    _write_lines(root / "rejected.jsonl", sorted(rejected, key=canonical))
    captions = [
        {"caption_id": caption.caption_id, "item_id": item.item_id, "text": caption.text}
        for item in listing.items
        for caption in item.captions
    ]
    _write_lines(root / "captions.jsonl", sorted(captions, key=canonical))
    videos = {shard: frozenset(member.item.source_video_id for member in members) for shard, members in shards.items()}
    return Plan(tuple(shards), videos, len(listing.items) + len(listing.rejected), len(rejected))


CAPTIONS_A_JOB = 1000


def captions(name: str, config: configuration.Config, root: Path) -> tuple[str, ...]:
    """Read a dataset's captions and write list files of them below `root`, one a shard; no video is looked for.

    Raises `ConfigError` and `AnnotationError`.
    """
    listing = datasets.read(name, config.datasets[name], videos=False)
    rows = [
        {"caption_id": caption.caption_id, "item_id": item.item_id, "text": caption.text}
        for item in listing.items
        for caption in item.captions
    ]
    shards = shards_of(rows, CAPTIONS_A_JOB, lambda row: str(row["caption_id"]), lambda row: str(row["item_id"]))
    for shard, members in shards.items():
        _write_lines(root / "captions" / f"{shard}.jsonl", members)
    for stale in set((root / "captions").glob("*.jsonl")) - {root / "captions" / f"{shard}.jsonl" for shard in shards}:
        stale.unlink()
    return tuple(shards)


def list_path(root: Path, shard: str) -> Path:
    """The list file of a shard: one JSON object an item, sorted by item id."""
    return root / "shards" / f"{shard}.jsonl"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a list file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@dataclass(frozen=True)
class _Listed:
    item: datasets.Item
    split: str
    path: Path
    bytes: int | None  # in the list, so that a replaced video is noticed; its time is not, so that a touched one is not

    def line(self) -> dict[str, Any]:
        return {
            "item_id": self.item.item_id,
            "source_video_id": self.item.source_video_id,
            "path": str(self.path),
            "bytes": self.bytes,
            "start_s": self.item.start_s,
            "end_s": self.item.end_s,
            "split": self.split,
        }


def _write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    # ASCII only: names may hold characters that some readers take for line ends.
    text = "".join(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n" for row in rows)
    storage.write_text_if_changed(path, text)
