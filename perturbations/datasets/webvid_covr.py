"""WebVid-CoVR (Ventura et al., 2024): a video and an instruction ask for another video."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.listing import AnnotationPlace, Collector, Item
from perturbations.datasets.parsing import checked, table

TEXTS = ("pth1", "pth2", "txt1", "txt2", "edit")
"""The columns that are read: the query's video, the target's, their captions, and the instruction."""


def rows(path: Path, collector: Collector) -> Iterator[tuple[AnnotationPlace, dict[str, str]]]:
    """The rows of the CSV that have both videos and an instruction; the others are rejected."""
    collector.place = path
    for where, row in checked(collector, table(path, TEXTS), "pth2", TEXTS, caption="edit"):
        if row["pth1"] and row["pth2"] and row["edit"].strip():
            yield where, row
        else:
            collector.reject(where, row["pth2"], "a row needs pth1, pth2 and edit")


def read(dataset: Dataset, collector: Collector) -> None:
    """Every video of a row, once, with its own caption: `<pth>.mp4` below the videos."""
    for where, row in rows(annotations_of(dataset), collector):
        for side in "12":
            name, caption = row[f"pth{side}"], row[f"txt{side}"].strip()
            if name not in collector.items:
                collector.add(Item(name, name, (f"{name}.mp4",), (caption,), where=where))


ADAPTER = Adapter(
    name="webvid_covr",
    title="WebVid-CoVR-Test",
    reference="Ventura et al., AAAI 2024",
    url="https://github.com/lucas-ventura/CoVR",
    annotations="webvid8m-covr_test.csv",
    published="2,556 queries",
    read=read,
)
