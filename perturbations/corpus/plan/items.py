"""The items of a dataset, from its annotations. Snakemake reads annotations on every start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from perturbations.base.errors import AnnotationError, ConfigError, did_you_mean, short
from perturbations.base.storage import nfc
from perturbations.config.line_numbers import NOWHERE, LinesOfKeys
from perturbations.config.named_paths import check_paths
from perturbations.datasets import adapter_registry
from perturbations.datasets.adapter_registry import Dataset
from perturbations.datasets.listing import Collector, Item, Listing
from perturbations.datasets.parsing import lines


def read(name: str, dataset: Dataset, *, videos: bool = True, places: LinesOfKeys = NOWHERE) -> Listing:
    """Every entry of a dataset's annotations: as an item, or rejected with a reason.

    An entry that does not follow the format is rejected when other entries of the file do. A video whose caption is
    empty or only white space stays, with an empty text that no job perturbs. Set `videos` to False to read captions
    only; then the videos directory need not exist. `places` is where the configuration's keys are written.

    Raises:
        ConfigError: a path or a subset id does not exist; the message names the key.
        AnnotationError: the file cannot be parsed, or no entry follows the format.
    """
    check_paths(name, dataset, places, videos=videos)
    collector = Collector(dataset.annotations or Path(dataset.adapter))
    adapter_registry.get(dataset.adapter).read(dataset, collector)
    listing = collector.listing(dataset.adapter)
    if dataset.subset is not None:
        listing = _subset(name, dataset.subset, listing, places)
    if not listing.items and not listing.rejected:
        hint = "a row per clip below its header" if collector.place.suffix in (".csv", ".tsv") else "an entry per clip"
        raise AnnotationError(f"datasets.{name}.annotations: {collector.place} lists no item; it needs {hint}")
    return listing


_LOOKED_AT = 10_000
"""With how many ids a mistyped id is compared."""


def _subset(name: str, wanted: Sequence[str], listing: Listing, places: LinesOfKeys) -> Listing:
    """The part of a listing about the wanted items. Raises `ConfigError` for an item that is not in it."""
    chosen = set(map(nfc, wanted))
    ids = [item.item_id for item in listing.items] + [entry.item_id for entry in listing.rejected]
    known = set(map(nfc, ids))
    if unknown := [item_id for item_id in wanted if nfc(item_id) not in known]:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        key = f"datasets.{name}.subset"
        hint = did_you_mean(unknown[0], ids[:_LOOKED_AT]) or f"; ids are such as {', '.join(map(short, ids[:2]))}"
        line = f"{key}: not in the annotations: {', '.join(map(short, unknown[:5]))}{more}{hint}"
        raise ConfigError(places.before(key, line))
    items = tuple(item for item in listing.items if nfc(item.item_id) in chosen)
    listed = {item.item_id for item in items}
    return replace(
        listing,
        items=items,
        rejected=tuple(entry for entry in listing.rejected if nfc(entry.item_id) in chosen),
        questions=tuple(row for row in listing.questions if row.item_id in listed),
        attributes={item_id: own for item_id, own in listing.attributes.items() if item_id in listed},
    )


def whole_videos(dataset: Dataset, listing: Listing) -> Listing:
    """The videos that contain a listing's items, each once, in the listing's order, without captions.

    If `ids` lists the split's videos, the videos without any item follow.
    """
    videos = {item.source_video_id: item for item in reversed(listing.items)}
    forms = set(map(nfc, videos))
    whole = [
        replace(item, item_id=video, texts=(), start_s=None, end_s=None) for video, item in reversed(videos.items())
    ]
    listed = _split_videos(dataset) if dataset.ids is not None else []
    whole += [
        Item(video, video, (), (), extensions=adapter_registry.get(dataset.adapter).extensions)
        for video in dict.fromkeys(listed)
        if nfc(video) not in forms
    ]
    return Listing(tuple(whole), ())


def _split_videos(dataset: Dataset) -> list[str]:
    """The ids of a split's videos, one per line, each after a folder as in YouCook2's lists: `101/0O4bxhpFX9o`."""
    assert dataset.ids is not None
    return [os.path.basename(line.strip()) for _, line in lines(dataset.ids)]
