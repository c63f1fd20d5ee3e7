"""How each adapter of datasets gives a split for composed retrieval."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from perturbations.base.errors import AnnotationError, ConfigError
from perturbations.composed import official
from perturbations.composed.split import ComposedQuery, PoolClip, Split, as_text
from perturbations.composed.split_builder import build, words_of
from perturbations.config import sections as configuration
from perturbations.datasets import adapter_registry, webvid_covr
from perturbations.datasets.adapter_registry import Dataset, FamilyMember, annotations_of
from perturbations.datasets.egocvr import pool_of
from perturbations.datasets.listing import Collector, Listing
from perturbations.datasets.parsing import header

_log = logging.getLogger("perturbations")


def gives_splits(adapter: str) -> bool:
    """Whether an adapter's datasets give splits: whether their items are, or may be, parts of longer videos."""
    declared = adapter_registry.get(adapter)
    return adapter in _PUBLISHED or declared.families is not None or bool(declared.spans)


def files_of(dataset: Dataset) -> tuple[Path, ...]:
    """The files that a dataset's split is made from."""
    files = () if dataset.annotations is None else (dataset.annotations,)
    return (*files, pool_of(dataset)) if dataset.adapter == "egocvr" else files


def read_split(dataset: Dataset, listing: Listing, seed: int, name: str) -> Split:
    """The split of a dataset, read or built; random choices depend on the seed and the dataset's name."""
    if dataset.adapter == "egocvr":
        return official.read(annotations_of(dataset), pool_of(dataset))
    if dataset.adapter == "webvid_covr":
        return _webvid(annotations_of(dataset))
    if adapter_registry.get(dataset.adapter).families is not None:
        return _of_families(dataset, listing)
    return _of_spans(listing, seed, name)


def check(config: configuration.Config, name: str) -> None:
    """Raise `ConfigError` where a dataset has no split for composed retrieval."""
    if reason := _refusal(config.datasets[name]):
        key = f"datasets.{name}"
        raise ConfigError(config.places.before(key, f"{key}: no composed retrieval: {reason}"))


_PUBLISHED = ("egocvr", "webvid_covr")
"""Adapters whose annotations are a split."""


def _refusal(dataset: Dataset) -> str | None:
    declared = adapter_registry.get(dataset.adapter)
    if dataset.adapter in _PUBLISHED:
        has_pool = dataset.adapter != "egocvr" or pool_of(dataset).is_file()
        return None if has_pool else f"there is no {pool_of(dataset)}, the table of all clips"
    if declared.families is not None:
        drawn = "its scenes differ in every respect; `families: true` draws those for it"
        return None if declared.families(dataset) else drawn
    if declared.spans:
        return declared.whole(dataset)
    return f"the adapter '{dataset.adapter}' has whole videos, and a split needs several clips of each video"


def _of_spans(listing: Listing, seed: int, name: str) -> Split:
    """The split of items that are parts of longer videos, with the tagger and the lemmas that work offline.

    The first caption of each is its narration.
    """
    from perturbations.models import role_registry as models

    tagger, inflector = models.load("tagger", "offline"), models.load("inflector", "offline")
    pool = [
        PoolClip(
            clip_id=item.item_id,
            video_id=item.source_video_id,
            narration=item.texts[0] if item.texts else "",
            start_s=item.start_s,
            end_s=item.end_s,
        )
        for item in listing.items
    ]
    return build(pool, partial(words_of, tagger=tagger, lemma=inflector.lemma), seed=seed, dataset=name)


# --- WebVid-CoVR ----------------------------------------------------------------------------------------------------


def _webvid(path: Path) -> Split:
    """The split of WebVid-CoVR (Ventura et al., 2024): each row's video and instruction ask for its other video.

    A query retrieves from the targets of all rows without its own video: the gallery `global_targets`. Rows that cannot
    be used are logged; raises `AnnotationError` where none is left.
    """
    collector, clips, queries = Collector(path), dict[str, PoolClip](), list[ComposedQuery]()
    for _, row in webvid_covr.rows(path, collector):
        for side in "12":
            name, caption = row[f"pth{side}"], row[f"txt{side}"].strip()
            clips.setdefault(name, PoolClip(clip_id=name, video_id=name, narration=caption))
        queries.append(
            ComposedQuery(
                query_id=f"{len(queries):06d}",
                clip_id=row["pth1"],
                targets=as_text([row["pth2"]]),
                instruction=row["edit"].strip(),
                narration=clips[row["pth1"]].narration,
                target_narration=clips[row["pth2"]].narration,
                instruction_source="official",
            )
        )
    for entry in collector.rejected:
        _log.warning("%s: not a query: %s", path, entry.reason)
    if not queries:
        raise AnnotationError(f"{path} lists no query")
    return Split(tuple(clips.values()), tuple(queries), {})


# --- synthetic families ---------------------------------------------------------------------------------------------

_DRAWN = "drawn"


def _of_families(dataset: Dataset, listing: Listing) -> Split:
    """Every pair of a family that differs in one thing; each query retrieves from its whole family."""
    families = adapter_registry.get(dataset.adapter).families
    assert families is not None
    listed = {item.item_id for item in listing.items}
    members = [member for member in families(dataset) if member.item_id in listed]
    pool = tuple(
        PoolClip(
            clip_id=member.item_id,
            video_id=f"family-{member.family:04d}",
            narration=member.caption,
            start_s=member.start_s,
            end_s=member.end_s,
        )
        for member in members
    )
    blocks = {
        clip.clip_id: tuple(
            row for row, other in enumerate(pool) if other.video_id == clip.video_id and other.clip_id != clip.clip_id
        )
        for clip in pool
    }
    return Split(pool, tuple(_queries(members)), blocks, frozenset(blocks))


def _queries(members: Sequence[FamilyMember]) -> Iterator[ComposedQuery]:
    for query in members:
        for target in members:
            moves, coloured = query.motion != target.motion, query.colour != target.colour
            if query.family != target.family or moves == coloured:
                continue
            old, new = (query.motion, target.motion) if moves else (query.colour, target.colour)
            yield ComposedQuery(
                query_id=f"{query.item_id}:{target.item_id}",
                clip_id=query.item_id,
                targets=as_text([target.item_id]),
                instruction=f"Now it {new} instead." if moves else f"Make it {new} instead.",
                narration=query.caption,
                target_narration=target.caption,
                modified_caption=query.caption.replace(old, new, 1),
                change="temporal" if moves else "object",
                change_source=_DRAWN,
                instruction_source=_DRAWN,
            )


def of_file(path: Path) -> Split:
    """The split of an annotation file of EgoCVR or WebVid-CoVR. Raises `AnnotationError`."""
    return _webvid(path) if {*webvid_covr.TEXTS} <= {*header(path)} else official.read(path)
