"""The synthetic scenes."""

from __future__ import annotations

from pydantic import Field

from perturbations.datasets.adapter_registry import Adapter, Dataset
from perturbations.datasets.listing import Collector, Item
from perturbations.demo import film


class Demo(Dataset):
    """The keys of `config.yaml`, with that of families."""

    families: bool = Field(
        False,
        description=f"demo: the clips come in families of {film.FAMILY} scenes that differ in their motion or colour "
        "alone; composed retrieval needs them",
    )


def families(dataset: Dataset) -> list[film.FamilyMember]:
    """The members of the scenes' families; none where the scenes differ in every respect."""
    return film.families(dataset.clips) if isinstance(dataset, Demo) and dataset.families else []


def read(dataset: Dataset, collector: Collector) -> None:
    """The package's own scenes."""
    members = families(dataset)
    scenes = [(member.item_id, member.caption) for member in members] or film.items(dataset.clips)
    for item_id, text in scenes:
        collector.add(Item(item_id, item_id, (f"{item_id}.mp4",), (text.strip(),), where=item_id))


ADAPTER = Adapter(
    name="demo",
    title="synthetic scenes",
    reference="",
    annotations="none: clips and captions are synthetic",
    published="",
    needs=(),
    takes=("clips",),
    settings=Demo,
    synthetic=(film.WIDTH, film.HEIGHT, film.NUM_FRAMES),
    read=read,
)
