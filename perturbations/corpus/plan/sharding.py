"""Which items a job handles, and the list files from which the jobs read that.

Items are assigned to shards by a hash of their video's id and their own id. A shard holds the items whose hashes share
a prefix; the prefix is as long as needed to hold at most `shard_size` items. So an item that is added or removed
changes its own shard and usually no other.
"""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.base.records import canonical
from perturbations.config import named_paths
from perturbations.config.sections import Config
from perturbations.corpus.plan import clip_lists, items, resources, video_files
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.datasets import adapter_registry as datasets
from perturbations.datasets.listing import Listing, Rejected
from perturbations.manifest import manifest_paths
from perturbations.manifest.rows import MISSING, QUARANTINED, CaptionRow, SourceRow

_T = TypeVar("_T")


@dataclass(frozen=True)
class DatasetPlan:
    """The work for one collection, as far as it is known before any job."""

    shards: tuple[str, ...]  # each has a list file
    videos: Mapping[str, frozenset[str]]  # where items are parts of videos: per shard, the ids of these videos
    listed: int  # items in the annotations
    captions: int = 0  # that can be used
    rejected_captions: int = 0
    largest: resources.ClipSize = resources.UNKNOWN
    shard_size: int = 100  # the most items per job


def shards_of(
    items: Sequence[_T], shard_size: int, item_id: Callable[[_T], str], video_id: Callable[[_T], str]
) -> dict[str, list[_T]]:
    """Split items into shards of at most `shard_size`, by the leading bits of a hash of their video's id and their id.

    Clips of one video stay together where they fit into one shard. A shard is named after its smallest hash, so that
    it keeps its name as long as it keeps its items.
    Raises `ValueError` when more than `shard_size` items have one id.
    """
    hash_of_video = lru_cache(maxsize=50_000)(_hash)  # the items of a video often follow each other
    # Each hash is followed by the item's index, which orders equal hashes.
    hashed = sorted(
        hash_of_video(video_id(item))[:16] + _hash(item_id(item))[:16] + index.to_bytes(8, "big")
        for index, item in enumerate(items)
    )
    shards: dict[str, list[_T]] = {}
    pending = [(0, 0, len(hashed))]
    while pending:
        depth, start, stop = pending.pop()
        if stop - start > shard_size:
            if depth == 256:
                same = item_id(items[int.from_bytes(hashed[start][32:], "big")])
                raise ValueError(f"more than {shard_size} items have the id {same!r}")
            # The hashes are sorted: those of one prefix are adjacent, and those whose next bit is 0 come first.
            middle = bisect_left(hashed, 1, start, stop, key=lambda key: key[depth // 8] >> (7 - depth % 8) & 1)
            pending += [(depth + 1, start, middle), (depth + 1, middle, stop)]
        elif start < stop:
            members = [items[int.from_bytes(key[32:], "big")] for key in hashed[start:stop]]
            shards[f"s{_hash(hashed[start][:32].hex()).hex()[:12]}"] = sorted(members, key=item_id)
    return dict(sorted(shards.items()))


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


# --- collections ------------------------------------------------------------------------------------------------------

_WHOLE, _COMPOSED = f"/{manifest_paths.WHOLE}", f"/{manifest_paths.COMPOSED}"

COMPOSED_SHARD = "s0"
"""The one shard of a dataset's instructions, which a job lists."""


def whole(dataset: str) -> str:
    """The name of the collection of a dataset's whole videos, from which its clips are cut."""
    return dataset + _WHOLE


def composed(dataset: str) -> str:
    """The name of the collection of a dataset's composed queries, whose captions are the instructions."""
    return dataset + _COMPOSED


def is_composed(collection: str) -> bool:
    """Whether a collection holds composed queries."""
    return collection.endswith(_COMPOSED)


def dataset_of(collection: str) -> str:
    """The dataset that a collection belongs to."""
    return collection.removesuffix(_WHOLE).removesuffix(_COMPOSED)


# --- plans ------------------------------------------------------------------------------------------------------------


_SMALL = 10_000


def derived_size(items: int) -> int:
    """The most items per job, from the dataset's size: 100, doubled with each doubling of the dataset beyond 10,000.

    So a perturbation of any dataset is a hundred to two hundred jobs, and planning takes seconds.
    """
    return 100 << max(0, math.ceil(math.log2(max(items, 1) / _SMALL)))


def plan_clips(config: Config, collection: str) -> DatasetPlan:
    """Read a dataset's annotations, look for its videos, and write the lists of its clips and captions.

    `collection` is the dataset's name, or `whole` of it. Files whose content stays the same are not touched.
    Raises `ConfigError` and `AnnotationError`.
    """
    named_paths.check_backend_files(config)
    name = dataset_of(collection)
    dataset, work = config.datasets[name], Path(manifest_paths.WORK) / collection
    listing = items.read(name, dataset, places=config.places)
    if collection.endswith(_WHOLE):
        listing = items.whole_videos(dataset, listing)
    unusable, rejected_captions = listing.rejected_items(), listing.rejected_captions()
    _write_rejected(config, collection, "rejected_captions", rejected_captions)
    # Captions are written before clips are found, and the listing is freed early: a million of each take much memory.
    _write_questions(config, collection, listing)
    of_items = {item_id: canonical(columns) for item_id, columns in sorted(listing.attributes.items())}
    clip_lists.write_texts(config.at(manifest_paths.at("attributes", dataset=collection)), of_items)
    num_captions, num_listed = _write_captions(config, collection, listing), len(listing.items) + len(unusable)
    missing: list[Rejected] = []
    if drawn := datasets.get(dataset.adapter).synthetic:
        clips = [
            video_files.listed_clip(item, dataset, str(work / "videos" / f"{item.item_id}.mp4"))
            for item in listing.items
        ]
        largest: resources.ClipSize = (drawn[0] * drawn[1], drawn[2])
    else:
        clips, missing = video_files.locate(dataset, listing)
        largest = resources.largest(clips)
    del listing
    size = config.shard_size or derived_size(num_listed)
    shards = shards_of(clips, size, lambda clip: clip.item_id, lambda clip: clip.source_video_id)
    times = config.at(manifest_paths.at("times", dataset=collection))
    seen: _Times = {}
    with suppress(OSError, ValueError):
        seen = json.loads(times.read_bytes())
    corrected = partial(_with_known_times, config, collection, seen)
    clip_lists.write_shards(config.at(manifest_paths.folder("shard_list", dataset=collection)), shards, corrected)
    if seen:
        storage.write_text_if_changed(times, json.dumps(seen))
    _write_rejected(config, collection, "rejected", unusable, missing)
    cut_from = shards if dataset.has_spans else {}
    return DatasetPlan(
        tuple(shards),
        {shard: frozenset(clip.source_video_id for clip in members) for shard, members in cut_from.items()},
        num_listed,
        num_captions,
        len(rejected_captions),
        largest,
        size,
    )


_Times = dict[str, list[int | None]]
"""Path of a video with a new time and the same content -> the new time, and the time in the list."""


def _with_known_times(
    config: Config, collection: str, seen: _Times, shard: str, before: Sequence[ListedClip], clips: Sequence[ListedClip]
) -> list[ListedClip]:
    """The clips of a shard. A video whose time alone is new keeps its earlier time, so that no job runs again for it.

    The hash of the content decides, which the rule `sources` recorded. `seen` remembers the videos that were compared.
    """
    from perturbations.manifest import files  # which planning needs only where a video has a new time

    listed_before = {clip.item_id: clip for clip in before}
    hashes: dict[str, str] = {}
    part = config.at(manifest_paths.at("source_part", dataset=collection, shard=shard))
    with suppress(ManifestError):
        hashes.update(zip(*files.read_columns(part, "item_id", "sha256").to_pydict().values(), strict=True))

    def known(clip: ListedClip) -> ListedClip:
        own = listed_before.get(clip.item_id)
        if own is None or own == clip or replace(clip, time_ns=own.time_ns) != own:
            return clip
        times = [clip.time_ns, own.time_ns]
        with suppress(OSError):
            if seen.get(clip.path) == times or storage.sha256(clip.path) == hashes.get(clip.item_id):
                seen[clip.path] = times
                return own
        return clip

    return [known(clip) for clip in clips]


CAPTIONS_PER_JOB = 1000


def plan_captions(config: Config, collection: str) -> tuple[str, ...]:
    """Read a dataset's captions, write their lists, and return their shards. Videos are not needed.

    Raises `ConfigError` and `AnnotationError`.
    """
    if is_composed(collection):
        return (COMPOSED_SHARD,)
    listing = items.read(collection, config.datasets[collection], videos=False, places=config.places)
    _write_rejected(config, collection, "rejected_captions", listing.rejected_captions())
    _write_questions(config, collection, listing)
    shards = shards_of(
        _captions(collection, listing),
        CAPTIONS_PER_JOB,
        lambda caption: caption.caption_id,
        lambda caption: caption.item_id,
    )
    clip_lists.write_shards(config.at(manifest_paths.folder("caption_list", dataset=collection)), shards)
    return tuple(shards)


def _write_questions(config: Config, collection: str, listing: Listing) -> None:
    """Write the list of all questions, of a set of questions."""
    if datasets.get(config.datasets[dataset_of(collection)].adapter).questions:
        clip_lists.write(config.at(manifest_paths.at("all_questions", dataset=collection)), listing.questions)


def _write_captions(config: Config, collection: str, listing: Listing) -> int:
    """Write the list of all captions, sorted by their ids, and return their number."""
    captions = _captions(dataset_of(collection), listing)
    captions.sort(key=attrgetter("caption_id"))
    clip_lists.write(config.at(manifest_paths.at("all_captions", dataset=collection)), captions)
    return len(captions)


def _captions(dataset: str, listing: Listing) -> list[CaptionRow]:
    """The captions of a listing that are not empty."""
    return [
        CaptionRow(dataset=dataset, caption_id=item.caption_id(number), item_id=item.item_id, text=text)
        for item in listing.items
        for number, text in enumerate(item.texts)
        if text
    ]


def _write_rejected(
    config: Config, collection: str, kind: str, unusable: Sequence[Rejected], missing: Sequence[Rejected] = ()
) -> None:
    dataset = dataset_of(collection)
    split = datasets.split_of(config.datasets[dataset])
    rejected = [
        SourceRow(
            dataset=dataset,
            split=split,
            item_id=entry.item_id,
            status=status,
            stage="annotation",
            error=entry.reason,
        )
        for status, entries in ((QUARANTINED, unusable), (MISSING, missing))
        for entry in entries
    ]
    clip_lists.write(config.at(manifest_paths.at(kind, dataset=collection)), sorted(rejected, key=clip_lists.line))
