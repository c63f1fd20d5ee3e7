"""How each adapter of datasets gives a split for composed retrieval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from perturbations.composed import official, spans
from perturbations.composed.modifications import ComposedQuery, PoolClip, Split
from perturbations.datasets import registry
from perturbations.datasets.demo import has_families
from perturbations.datasets.egocvr import pool_of
from perturbations.datasets.listing import Listing
from perturbations.datasets.registry import Dataset, annotations_of
from perturbations.demo import film


@dataclass(frozen=True)
class SplitKey:
    """What the random choices of a split depend on: the seed, and the dataset's name."""

    seed: int
    dataset: str


def _annotation_files(dataset: Dataset) -> tuple[Path, ...]:
    """The annotation file, where the dataset has one."""
    return () if dataset.annotations is None else (dataset.annotations,)


@dataclass(frozen=True, kw_only=True)
class _SplitSource:
    """How a dataset gives a split for composed retrieval.

    Attributes:
        split: the function (dataset, its listing, key) that reads or builds the split.
        refusal: a function of the dataset: why it gives none, None where it does.
        files: a function of the dataset: the files that the split is made from.
        target: a target of the workflow that evaluates every dataset of the adapter; empty: none.
    """

    split: Callable[[Dataset, Listing, SplitKey], Split]
    refusal: Callable[[Dataset], str | None] = lambda dataset: None
    files: Callable[[Dataset], tuple[Path, ...]] = _annotation_files
    target: str = ""


def _of_spans(dataset: Dataset, listing: Listing, key: SplitKey) -> Split:
    return spans.split_of(listing.items, seed=key.seed, dataset=key.dataset)


# --- EgoCVR ---------------------------------------------------------------------------------------------------------


def _official(dataset: Dataset, listing: Listing, key: SplitKey) -> Split:
    """The official split; `listing` and `key` change nothing."""
    return official.read(annotations_of(dataset), pool_of(dataset))


def _no_pool(dataset: Dataset) -> str | None:
    return None if pool_of(dataset).is_file() else f"there is no {pool_of(dataset)}, the table of all clips"


# --- drawn families --------------------------------------------------------------------------------------------------

_DRAWN = "drawn"


def _of_families(dataset: Dataset, listing: Listing, key: SplitKey) -> Split:
    """Every pair of a family that differs in one thing; each query is asked among its whole family.

    `key` changes nothing: all scenes of a family are distractors of each other.
    """
    listed = {item.item_id for item in listing.items}
    members = [member for member in film.families(dataset.clips) if film.item_id(member.scene) in listed]
    pool = tuple(
        PoolClip(
            name=film.item_id(member.scene),
            video_id=f"family-{member.family:04d}",
            narration=film.caption(member.scene),
            start_s=member.place * film.SECONDS_LONG,
            end_s=(member.place + 1) * film.SECONDS_LONG,
        )
        for member in members
    )
    blocks = {
        clip.name: tuple(
            row for row, other in enumerate(pool) if other.video_id == clip.video_id and other.name != clip.name
        )
        for clip in pool
    }
    return Split(pool, tuple(_queries(members)), blocks, frozenset(blocks))


def _queries(members: list[film.Member]) -> Iterator[ComposedQuery]:
    for query in members:
        for target in members:
            moves, coloured = query.motion != target.motion, query.colour != target.colour
            if query.family != target.family or moves == coloured:
                continue
            caption = film.caption(query.scene)
            old, new = (query.motion, target.motion) if moves else (query.colour, target.colour)
            yield ComposedQuery(
                query_id=f"{film.item_id(query.scene)}:{film.item_id(target.scene)}",
                clip=film.item_id(query.scene),
                targets=(film.item_id(target.scene),),
                instruction=f"Now it {new} instead." if moves else f"Make it {new} instead.",
                narration=caption,
                target_narration=film.caption(target.scene),
                modified_caption=caption.replace(old, new, 1),
                kind="temporal" if moves else "object",
                kind_source=_DRAWN,
                instruction_source=_DRAWN,
            )


def _no_families(dataset: Dataset) -> str | None:
    return None if has_families(dataset) else "its scenes differ in every respect; `families: true` draws those for it"


_OF_ADAPTERS = {
    "egocvr": _SplitSource(
        split=_official,
        refusal=_no_pool,
        files=lambda dataset: (annotations_of(dataset), pool_of(dataset)),
        target="egocvr",
    ),
    "demo": _SplitSource(split=_of_families, refusal=_no_families),
}


def source_of(adapter: str) -> _SplitSource | None:
    """How an adapter's datasets give splits; None where their items are never parts of longer videos."""
    if adapter in _OF_ADAPTERS:
        return _OF_ADAPTERS[adapter]
    declared = registry.get(adapter)
    return _SplitSource(split=_of_spans, refusal=declared.whole) if declared.spans else None
