"""How each adapter of datasets gives a split for composed retrieval."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from perturbations.base.errors import AnnotationError, ConfigError
from perturbations.composed import official
from perturbations.composed.builder import build
from perturbations.composed.instructions import words_of
from perturbations.composed.modifications import ComposedQuery, PoolClip, Split
from perturbations.config import sections as configuration
from perturbations.datasets import registry, webvid_covr
from perturbations.datasets.egocvr import pool_of
from perturbations.datasets.listing import Collector, Listing
from perturbations.datasets.parsing import header
from perturbations.datasets.registry import Dataset, FamilyMember, annotations_of

_log = logging.getLogger("perturbations")


def _annotation_files(dataset: Dataset) -> tuple[Path, ...]:
    """The annotation file, where the dataset has one."""
    return () if dataset.annotations is None else (dataset.annotations,)


@dataclass(frozen=True, kw_only=True)
class _SplitSource:
    """How a dataset gives a split for composed retrieval.

    Attributes:
        split: the function (dataset, its listing, seed, the dataset's name) that reads or builds the split; random
            choices depend on the last two.
        refusal: a function of the dataset: why it gives none, None where it does.
        files: a function of the dataset: the files that the split is made from.
        target: a target of the workflow that evaluates every dataset of the adapter; empty: none.
    """

    split: Callable[[Dataset, Listing, int, str], Split]
    refusal: Callable[[Dataset], str | None] = lambda dataset: None
    files: Callable[[Dataset], tuple[Path, ...]] = _annotation_files
    target: str = ""


def _of_spans(dataset: Dataset, listing: Listing, seed: int, name: str) -> Split:
    """The split of items that are parts of longer videos, with the tagger and the lemmas that work offline.

    The first caption of each is its narration.
    """
    from perturbations.models import registry as models

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


# --- EgoCVR ---------------------------------------------------------------------------------------------------------


def _official(dataset: Dataset, listing: Listing, seed: int, name: str) -> Split:
    return official.read(annotations_of(dataset), pool_of(dataset))


def _no_pool(dataset: Dataset) -> str | None:
    return None if pool_of(dataset).is_file() else f"there is no {pool_of(dataset)}, the table of all clips"


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
                clip=row["pth1"],
                targets=(row["pth2"],),
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


def _members(dataset: Dataset) -> Sequence[FamilyMember]:
    """The members of the families of a dataset's clips; none where they come in none."""
    families = registry.get(dataset.adapter).families
    return () if families is None else families(dataset)


def _of_families(dataset: Dataset, listing: Listing, seed: int, name: str) -> Split:
    """Every pair of a family that differs in one thing; each query retrieves from its whole family."""
    listed = {item.item_id for item in listing.items}
    members = [member for member in _members(dataset) if member.item_id in listed]
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
                clip=query.item_id,
                targets=(target.item_id,),
                instruction=f"Now it {new} instead." if moves else f"Make it {new} instead.",
                narration=query.caption,
                target_narration=target.caption,
                modified_caption=query.caption.replace(old, new, 1),
                kind="temporal" if moves else "object",
                kind_source=_DRAWN,
                instruction_source=_DRAWN,
            )


def _no_families(dataset: Dataset) -> str | None:
    return None if _members(dataset) else "its scenes differ in every respect; `families: true` draws those for it"


_OF_ADAPTERS = {
    "egocvr": _SplitSource(
        split=_official,
        refusal=_no_pool,
        files=lambda dataset: (annotations_of(dataset), pool_of(dataset)),
        target="egocvr",
    ),
    "webvid_covr": _SplitSource(split=lambda dataset, *_: _webvid(annotations_of(dataset))),
}


def of_file(path: Path) -> Split:
    """The split of an annotation file of EgoCVR or WebVid-CoVR. Raises `AnnotationError`."""
    return _webvid(path) if {*webvid_covr.TEXTS} <= {*header(path)} else official.read(path)


def source_of(adapter: str) -> _SplitSource | None:
    """How an adapter's datasets give splits; None where their items are never parts of longer videos."""
    if adapter in _OF_ADAPTERS:
        return _OF_ADAPTERS[adapter]
    declared = registry.get(adapter)
    if declared.families is not None:
        return _SplitSource(split=_of_families, refusal=_no_families)
    return _SplitSource(split=_of_spans, refusal=declared.whole) if declared.spans else None


def check(config: configuration.Config, dataset: str) -> None:
    """Raise `ConfigError` where a dataset has no split for composed retrieval."""
    settings = config.datasets[dataset]
    source = source_of(settings.adapter)
    reason: str | None = (
        f"the adapter '{settings.adapter}' has whole videos, and a split needs several clips of each video"
    )
    if source is not None:
        reason = source.refusal(settings)
    if reason:
        key = f"datasets.{dataset}"
        raise ConfigError(config.places.before(key, f"{key}: no composed retrieval: {reason}"))
