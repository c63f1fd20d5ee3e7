"""Which items a job handles. Standard library only: Snakemake plans on every start.

Items go to shards by a hash of their id. A shard is a prefix of that hash, as long as needed to hold at most
`shard_size` items: an item that comes or goes changes its own shard and no other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from perturbations import config as configuration
from perturbations import datasets, storage
from perturbations.recipe import canonical

T = TypeVar("T")

ROOT_SHARD = "s"


@dataclass(frozen=True)
class Plan:
    """The work for one dataset: its shards by name, each with its list file, and what is known before any job."""

    shards: tuple[str, ...]
    listed: int
    rejected: int


def shards_of(items: Sequence[T], shard_size: int, item_id: Callable[[T], str]) -> dict[str, list[T]]:
    """Split items into shards of at most `shard_size`; names are `s` and the bits of the hash prefix.

    Raises `ValueError` when more than `shard_size` items have one id.
    """
    shards: dict[str, list[T]] = {}
    pending = [(ROOT_SHARD, [(_bits(item_id(item)), item) for item in sorted(items, key=item_id)])]
    while pending:
        name, members = pending.pop()
        depth = len(name) - len(ROOT_SHARD)
        if len(members) <= shard_size:
            if members:
                shards[name] = [item for _, item in members]
            continue
        if depth == 256:
            raise ValueError(f"more than {shard_size} items have the id {item_id(members[0][1])!r}")
        for bit in "01":
            pending.append((name + bit, [member for member in members if member[0][depth] == bit]))
    return dict(sorted(shards.items()))


def related(shard: str, other: str) -> bool:
    """Whether two shards (of one dataset at different times) can have items in common."""
    return shard.startswith(other) or other.startswith(shard)


def _bits(item_id: str) -> str:
    number = int.from_bytes(hashlib.sha256(item_id.encode("utf-8", "surrogatepass")).digest())
    return f"{number:0256b}"


def make(name: str, config: configuration.Config, root: Path) -> Plan:
    """Read a dataset's annotations, look for its videos, and write the list files below `root`.

    Files whose content stays the same are not touched. Raises `ConfigError` and `AnnotationError`.
    """
    dataset = config.datasets[name]
    listing = datasets.read(name, dataset)
    if dataset.adapter == "demo":
        located = [_Listed(item, root / "videos" / f"{item.item_id}.mp4", None) for item in listing.items]
        missing: list[datasets.Rejected] = []
    else:
        found, missing = datasets.locate(dataset, listing)
        located = [_Listed(one.item, one.path, one.bytes) for one in found]
    shards = shards_of(located, config.shard_size, lambda one: one.item.item_id)
    for shard, members in shards.items():
        _write_lines(list_path(root, shard), [member.line() for member in members])
    for stale in set((root / "shards").glob("*.jsonl")) - {list_path(root, shard) for shard in shards}:
        stale.unlink()
    rejected = [{"item_id": one.item_id, "error": one.reason} for one in (*listing.rejected, *missing)]
    _write_lines(root / "rejected.jsonl", sorted(rejected, key=canonical))
    captions = [
        {"caption_id": caption.caption_id, "item_id": item.item_id, "text": caption.text}
        for item in listing.items
        for caption in item.captions
    ]
    _write_lines(root / "captions.jsonl", sorted(captions, key=canonical))
    return Plan(tuple(shards), len(listing.items) + len(listing.rejected), len(rejected))


def list_path(root: Path, shard: str) -> Path:
    """The list file of a shard: one JSON object an item, sorted by item id."""
    return root / "shards" / f"{shard}.jsonl"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a list file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@dataclass(frozen=True)
class _Listed:
    item: datasets.Item
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
        }


def _write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    # ASCII only: names may hold characters that some readers take for line ends.
    text = "".join(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n" for row in rows)
    storage.write_text_if_changed(path, text)
