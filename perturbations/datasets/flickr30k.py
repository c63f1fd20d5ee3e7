"""Flickr30K (Young et al., 2014) in Karpathy's split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perturbations.base.errors import short
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of, split_of
from perturbations.datasets.listing import AnnotationPlace, Collector, Item
from perturbations.datasets.parsing import whole_json

CAPTIONS = 5
"""Captions per picture in published evaluations. Some pictures of COCO have six or seven: their first five count."""


def read(dataset: Dataset, collector: Collector) -> None:
    """The pictures of the split."""
    described = whole_json(annotations_of(dataset), dict, "an object with `images`")
    karpathy(described, split_of(dataset), collector)


def karpathy(described: Mapping[str, Any], split: str, collector: Collector) -> None:
    """The pictures of a split, each `filepath/filename` or `filename`, with their first five sentences."""
    images = described.get("images")
    for number, image in enumerate(images if isinstance(images, list) else ()):
        where = f"image {number}"
        if not isinstance(image, dict) or not isinstance(image.get("split"), str):
            collector.reject_malformed(where, "", "no object with a `split`")
        elif image["split"] == split:
            listed = image.get("sentences")
            sentences = listed if isinstance(listed, list) else []
            texts = [sentence.get("raw") for sentence in sentences if isinstance(sentence, dict)]
            add(collector, where, image.get("filename"), texts, image.get("filepath"))


def add(collector: Collector, where: AnnotationPlace, name: object, texts: list[Any], folder: object = None) -> None:
    """Add a picture with its first five captions; it is called by its file's name without the extension."""
    if not isinstance(name, str):
        collector.reject_malformed(where, "", f"the name of its file is {short(name)}, not a text")
    elif not texts or not all(isinstance(text, str) for text in texts):
        collector.reject_malformed(where, name, "no list of captions")
    else:
        item_id, dot, _ = name.rpartition(".")
        names = (f"{folder}/{name}", name) if isinstance(folder, str) else (name,)
        kept = tuple(text.strip() for text in texts[:CAPTIONS])
        collector.add(Item(item_id if dot else name, item_id if dot else name, names, kept, where=where))


ADAPTER = Adapter(
    name="flickr30k",
    title="Flickr30K",
    reference="Young et al., TACL 2014; split of Karpathy and Fei-Fei, CVPR 2015",
    url="https://shannon.cs.illinois.edu/DenotationGraph/",
    annotations="dataset_flickr30k.json",
    published="1,000 pictures, 5,000 captions",
    pictures=True,
    read=read,
)
