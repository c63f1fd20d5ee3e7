"""DREAM-1K (Wang et al., 2024): clips with detailed references, here as captions for retrieval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.fields import checked
from perturbations.datasets.listing import Collector, Item
from perturbations.datasets.parsing import json_lines


def _references(messages: Any) -> Iterator[str]:
    """What the assistant's messages hold as `reference`, or as text."""
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") == "assistant":
            content = message.get("content", message)
            for part in content if isinstance(content, list) else [content]:
                text = (part.get("reference") or part.get("text")) if isinstance(part, dict) else part
                if isinstance(text, str) and text.strip():
                    yield text.strip()


def read(dataset: Dataset, collector: Collector) -> None:
    """A clip per line; its caption is the reference of the assistant's message."""
    for where, row in checked(collector, json_lines(annotations_of(dataset)), ["vid"], ["messages"]):
        texts = tuple(_references(row["messages"]))[:1]
        if texts:
            collector.add(Item(row["vid"], row["vid"], (f"{row['vid']}.mp4",), texts, where=where))
        else:
            collector.reject(where, row["vid"], "its messages hold no reference")


ADAPTER = Adapter(
    name="dream_1k",
    title="DREAM-1K",
    reference="Wang et al., 2024",
    url="https://huggingface.co/datasets/omni-research/DREAM-1K",
    annotations="DREAM-1k.jsonl",
    published="1,000 clips with one reference each, 59 words on average",
    read=read,
)
