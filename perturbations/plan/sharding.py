"""Which items a job handles. Standard library only: Snakemake plans at every start.

Items are assigned to shards by a hash of their video's id and their own id. A shard holds the items whose hashes share
a prefix; the prefix is as long as needed to hold at most `shard_size` items. So an item that is added or removed
changes its own shard and usually no other.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from json.encoder import encode_basestring
from pathlib import Path
from typing import TypeVar

from perturbations.base.records import canonical
from perturbations.config import sections as configuration
from perturbations.datasets import registry as datasets
from perturbations.datasets.listing import Item, Listing, Rejected
from perturbations.manifest import layout
from perturbations.plan import costs, items, listed
from perturbations.plan.costs import Workload
from perturbations.plan.listed import ListedClip, RejectedItem

_T = TypeVar("_T")


@dataclass(frozen=True)
class DatasetPlan:
    """The work for one collection, as far as it is known before any job."""

    shards: tuple[str, ...]  # each has a list file
    videos: Mapping[str, frozenset[str]]  # per shard, the ids of the videos that contain its items
    listed: int  # items in the annotations
    rejected: int  # items that cannot be used
    captions: int = 0  # that can be used
    rejected_captions: int = 0
    shard_size: int = 0  # the most items per shard
    work: Mapping[str, Workload] = field(default_factory=dict)  # per shard, the size of its clips

    def size_of(self, shard: str) -> Workload:
        """The size of a shard's clips; of one that an earlier plan had, none."""
        return self.work.get(shard, costs.NOTHING)

    @property
    def size(self) -> Workload:
        """The size of all clips."""
        return costs.together(self.work.values())


def shards_of(
    items: Sequence[_T], shard_size: int, item_id: Callable[[_T], str], video_id: Callable[[_T], str]
) -> dict[str, list[_T]]:
    """Split items into shards of at most `shard_size`, by the leading bits of a hash of their video's id and their id.

    Clips of one video stay together where they fit into one shard. A shard is named after its smallest hash, so that
    it keeps its name as long as it keeps its items.
    Raises `ValueError` when more than `shard_size` items have one id.
    """
    return dict(sorted(_shards(items, shard_size, item_id, video_id)))


def _shards(
    items: Sequence[_T], shard_size: int, item_id: Callable[[_T], str], video_id: Callable[[_T], str]
) -> Iterator[tuple[str, list[_T]]]:
    hashed = _hashed(items, item_id, video_id)
    pending = [(0, 0, len(hashed))]
    while pending:
        depth, start, stop = pending.pop()
        if stop - start > shard_size:
            if depth == 256:
                raise ValueError(f"more than {shard_size} items have the id {item_id(_item(items, hashed[start]))!r}")
            # The hashes are sorted: those of one prefix are adjacent, and those whose next bit is 0 come first.
            middle = bisect_left(hashed, 1, start, stop, key=lambda key: key[depth // 8] >> (7 - depth % 8) & 1)
            pending += [(depth + 1, start, middle), (depth + 1, middle, stop)]
        elif start < stop:
            members = [_item(items, key) for key in hashed[start:stop]]
            yield f"s{_hash(hashed[start][:32].hex()).hex()[:12]}", sorted(members, key=item_id)


def _hashed(items: Sequence[_T], item_id: Callable[[_T], str], video_id: Callable[[_T], str]) -> list[bytes]:
    """The sorted hashes of the items, each followed by the item's index, which orders equal hashes."""
    hash_of_video = lru_cache(maxsize=50_000)(_hash)  # the items of a video often follow each other
    return sorted(
        hash_of_video(video_id(item))[:16] + _hash(item_id(item))[:16] + index.to_bytes(8, "big")
        for index, item in enumerate(items)
    )


def _item(items: Sequence[_T], key: bytes) -> _T:
    return items[int.from_bytes(key[32:], "big")]


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


_WHOLE = f"/{layout.WHOLE}"


def whole(dataset: str) -> str:
    """The name of the collection of a dataset's whole videos, from which its clips are cut."""
    return dataset + _WHOLE


_COMPOSED = f"/{layout.COMPOSED}"


def composed(dataset: str) -> str:
    """The name of the collection of a dataset's composed queries, whose captions are the instructions."""
    return dataset + _COMPOSED


def is_composed(collection: str) -> bool:
    """Whether a collection holds composed queries."""
    return collection.endswith(_COMPOSED)


def dataset_of(collection: str) -> str:
    """The dataset that a collection belongs to."""
    return collection.removesuffix(_WHOLE).removesuffix(_COMPOSED)


def make(name: str, config: configuration.Config, root: Path) -> DatasetPlan:
    """Read a dataset's annotations, look for its videos, and write the list files below `root`, where jobs work.

    `name` is the dataset's, or `whole` of it. Files whose content stays the same are not touched.
    Raises `ConfigError` and `AnnotationError`.
    """
    dataset, folder = config.datasets[dataset_of(name)], config.at(root)
    listing = items.read(dataset_of(name), dataset, places=config.places)
    if name.endswith(_WHOLE):
        listing = items.whole_videos(dataset, listing)
    split = datasets.split_of(dataset)
    drawn = datasets.get(dataset.adapter).synthetic
    if drawn:
        located = [_clip(item, split, str(root / "videos" / f"{item.item_id}.mp4"), None) for item in listing.items]
        missing: list[Rejected] = []
    else:
        videos_found, missing = items.locate(dataset, listing)
        located = [_clip(video.item, split, video.path, video.bytes) for video in videos_found]
    survey = costs.Survey(located, seed=config.seed, drawn=drawn)
    size = costs.shard_size(config, dataset_of(name), survey.of(located))
    shards = shards_of(located, size, lambda clip: clip.item_id, lambda clip: clip.source_video_id)
    for shard, members in shards.items():
        listed.write(list_path(folder, shard), members)
    for stale in {*listed.shards(list_path(folder, "").parent)} - {*shards}:
        list_path(folder, stale).unlink(missing_ok=True)  # another plan may be as far
    unusable = listing.rejected_items()
    _write_rejected(folder / layout.in_dataset("rejected"), split, unusable, missing)
    numbered = _Captions(listing)
    # The order of the lines' canonical JSON: each line begins with the id, and ids are unique.
    order = sorted(range(len(numbered)), key=lambda number: encode_basestring(numbered.caption_id(number)))
    listed.write_captions(folder / layout.in_dataset("all_captions"), map(numbered.fields, order))
    rejected_captions = listing.rejected_captions()
    _write_rejected(folder / layout.in_dataset("rejected_captions"), split, rejected_captions)
    videos = {shard: frozenset(clip.source_video_id for clip in members) for shard, members in shards.items()}
    return DatasetPlan(
        tuple(shards),
        videos,
        len(listing.items) + len(unusable),
        len(unusable) + len(missing),
        len(numbered),
        len(rejected_captions),
        size,
        {shard: survey.of(members) for shard, members in shards.items()},
    )


def _write_rejected(path: Path, split: str, unusable: Sequence[Rejected], missing: Sequence[Rejected] = ()) -> None:
    rejected = [
        RejectedItem(item_id=entry.item_id, split=split, error=entry.reason, missing=is_missing)
        for is_missing, entries in ((False, unusable), (True, missing))
        for entry in entries
    ]
    listed.write(path, sorted(rejected, key=lambda item: canonical(asdict(item))))


CAPTIONS_PER_JOB = 1000


def captions(name: str, config: configuration.Config, root: Path) -> tuple[str, ...]:
    """Read a dataset's captions and write their list files below `root`, where jobs work, one per shard.

    Videos are not needed.

    Raises `ConfigError` and `AnnotationError`.
    """
    dataset = config.datasets[name]
    listing = items.read(name, dataset, videos=False, places=config.places)
    folder = config.at(root)
    rejected = listing.rejected_captions()
    _write_rejected(folder / layout.in_dataset("rejected_captions"), datasets.split_of(dataset), rejected)
    numbered = _Captions(listing)
    shards = []
    for shard, members in _shards(range(len(numbered)), CAPTIONS_PER_JOB, numbered.caption_id, numbered.item_id):
        path = folder / layout.in_dataset("caption_list", shard=shard)
        listed.write_captions(path, map(numbered.fields, members))
        shards.append(shard)
    lists = folder / layout.in_dataset("caption_list", shard="")
    for stale in {*listed.shards(lists.parent)} - {*shards}:
        lists.with_name(layout.name("caption_list", shard=stale)).unlink(missing_ok=True)  # another plan may be as far
    return tuple(sorted(shards))


def list_path(root: Path, shard: str) -> Path:
    """The list file of a shard: one JSON object per item, sorted by item id."""
    return root / layout.in_dataset("shard_list", shard=shard)


class _Captions:
    """The captions of a listing that are not empty, by number.

    They are not copied from their items: there may be a million.
    """

    def __init__(self, listing: Listing) -> None:
        self._items = listing.items
        self._owners = array("I")  # of each caption, its item's place
        self._within = array("I")  # of each caption, its number in its item
        for place, item in enumerate(listing.items):
            usable = [number for number, text in enumerate(item.texts) if text]
            self._owners.extend([place] * len(usable))
            self._within.extend(usable)

    def __len__(self) -> int:
        return len(self._owners)

    def item_id(self, number: int) -> str:
        return self._items[self._owners[number]].item_id

    def caption_id(self, number: int) -> str:
        return self._items[self._owners[number]].caption_id(self._within[number])

    def fields(self, number: int) -> tuple[str, str, str]:
        """The ids of the caption and of its item, and its text."""
        item, within = self._items[self._owners[number]], self._within[number]
        return item.caption_id(within), item.item_id, item.texts[within]


def _clip(item: Item, split: str, path: str, size: int | None) -> ListedClip:
    return ListedClip(
        item_id=item.item_id,
        source_video_id=item.source_video_id,
        path=path,
        bytes=size,  # so that a replaced video is noticed; a new time alone changes nothing
        start_s=item.start_s,
        end_s=item.end_s,
        split=split,
    )
