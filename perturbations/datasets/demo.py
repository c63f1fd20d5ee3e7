"""The scenes that the package draws itself."""

from __future__ import annotations

from pydantic import Field

from perturbations.datasets.listing import Collector, Item
from perturbations.datasets.registry import Adapter, Dataset
from perturbations.demo import film


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
    read=read,
)
