"""COCO captions (Chen et al., 2015): Karpathy's split, or the official validation set of 2017."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from perturbations.datasets import flickr30k
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of, split_of
from perturbations.datasets.listing import Collector
from perturbations.datasets.parsing import whole_json


def read(dataset: Dataset, collector: Collector) -> None:
    """The pictures of Karpathy's split, or those of an official file, which has one split."""
    described = whole_json(annotations_of(dataset), dict, "an object with `images`")
    if "annotations" in described:
        _official(described, collector)
    else:
        flickr30k.karpathy(described, split_of(dataset), collector)


def _official(described: Mapping[str, Any], collector: Collector) -> None:
    """The pictures of an official file, with their captions in the order of the captions' ids."""
    images, annotations = (described.get(name) for name in ("images", "annotations"))
    texts: dict[object, list[tuple[int, str]]] = defaultdict(list)
    for number, entry in enumerate(annotations if isinstance(annotations, list) else ()):
        kinds = {"image_id": int, "id": int, "caption": str}
        if isinstance(entry, dict) and all(type(entry.get(name)) is kind for name, kind in kinds.items()):
            texts[entry["image_id"]].append((entry["id"], entry["caption"]))
        else:
            collector.reject_malformed(f"annotation {number}", "", f"it has no {', '.join(kinds)} of a caption")
    for number, image in enumerate(images if isinstance(images, list) else ()):
        description = image if isinstance(image, dict) else {}
        own = texts.get(description["id"], []) if type(description.get("id")) is int else []
        flickr30k.add(collector, f"image {number}", description.get("file_name"), [text for _, text in sorted(own)])


ADAPTER = Adapter(
    name="coco",
    title="COCO captions",
    reference="Chen et al., 2015; split of Karpathy and Fei-Fei, CVPR 2015",
    url="https://cocodataset.org",
    annotations="dataset_coco.json, or captions_val2017.json",
    published="5,000 pictures, 25,000 captions",
    pictures=True,
    read=read,
)
