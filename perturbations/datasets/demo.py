"""The scenes that the package draws itself."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from perturbations.composed.records import ComposedQuery, PoolClip, Split
from perturbations.datasets.listing import Collector, Item, Listing
from perturbations.datasets.registry import Adapter, Composed, Dataset, SplitKey
from perturbations.demo import film

_SOURCE = "drawn"


class Demo(Dataset):
    """The keys of `config.yaml`, with that of families."""

    families: bool = Field(
        False,
        description=f"demo: the clips come in families of {film.FAMILY} scenes that differ in their motion or colour "
        "alone; composed retrieval needs them",
    )


def has_families(dataset: Dataset) -> bool:
    """Whether the scenes come in families."""
    return isinstance(dataset, Demo) and dataset.families


def read(dataset: Dataset, collector: Collector) -> None:
    """The package's own scenes."""
    scenes = film.family_items(dataset.clips) if has_families(dataset) else film.items(dataset.clips)
    for item_id, text in scenes:
        collector.add(Item(item_id, item_id, (f"{item_id}.mp4",), (text.strip(),), where=item_id))


def split(dataset: Dataset, listing: Listing, key: SplitKey) -> Split:
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
                kind_source=_SOURCE,
                instruction_source=_SOURCE,
            )


def _refusal(dataset: Dataset) -> str | None:
    return None if has_families(dataset) else "its scenes differ in every respect; `families: true` draws those for it"


ADAPTER = Adapter(
    name="demo",
    title="drawn scenes",
    reference="",
    annotations="none: clips and captions are drawn",
    published="",
    needs=(),
    takes=("clips",),
    settings=Demo,
    drawn=True,
    composed=Composed(split=split, refusal=_refusal),
    read=read,
)
