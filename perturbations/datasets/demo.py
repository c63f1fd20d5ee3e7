"""The scenes that the package draws itself."""

from __future__ import annotations

from perturbations.annotations.listing import Collector, Item
from perturbations.datasets.registry import Adapter, Dataset


def read(dataset: Dataset, collector: Collector) -> None:
    """The package's own scenes."""
    from perturbations.demo import film

    for item_id, text in film.items(dataset.clips):
        collector.add(Item(item_id, item_id, (f"{item_id}.mp4",), (text.strip(),), where=item_id))


ADAPTER = Adapter(
    name="demo",
    title="drawn scenes",
    reference="",
    annotations="none: clips and captions are drawn",
    published="",
    needs=(),
    drawn=True,
    read=read,
)
