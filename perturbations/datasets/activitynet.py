"""ActivityNet Captions (Krishna et al., 2017): one paragraph per video, or its sentences with their spans."""

from __future__ import annotations

from perturbations.base.errors import short
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.fields import checked, seconds
from perturbations.datasets.listing import VIDEO_EXTENSIONS, Collector, Item
from perturbations.datasets.parsing import json_lines, whole_json


def read(dataset: Dataset, collector: Collector) -> None:
    """One paragraph per video, from JSON lines; or one sentence per span, from the official JSON."""
    if _has_spans(dataset):
        _read_spans(dataset, collector)
        return
    rows = json_lines(annotations_of(dataset))
    for where, row in checked(collector, rows, ("clip_id", "text"), caption="text"):
        item_id = row["clip_id"]
        collector.add(Item(item_id, item_id, (f"{item_id}.mp4",), (row["text"].strip(),), where=where))


def _has_spans(dataset: Dataset) -> bool:
    """Whether the annotations are the official JSON, which has the span of each sentence."""
    return dataset.annotations is not None and dataset.annotations.suffix.lower() == ".json"


def _read_spans(dataset: Dataset, collector: Collector) -> None:
    """`{video: {"duration": s, "timestamps": [[start, end], ...], "sentences": [...]}}`; ids are `video_0`, ..."""
    videos = whole_json(annotations_of(dataset), dict, "an object of videos with 'timestamps' and 'sentences'")
    for video, entry in videos.items():
        timestamps = entry.get("timestamps") if isinstance(entry, dict) else None
        sentences = entry.get("sentences") if isinstance(entry, dict) else None
        if not isinstance(timestamps, list) or not isinstance(sentences, list) or len(timestamps) != len(sentences):
            collector.reject_malformed(video, video, "no lists 'timestamps' and 'sentences' of one length")
            continue
        for number, (span, sentence) in enumerate(zip(timestamps, sentences, strict=True)):
            where, item_id = f"{video}, sentence {number}", f"{video}_{number}"
            try:
                start_s, end_s = map(seconds, span)
            except (ValueError, TypeError):
                start_s = end_s = None
            if start_s is None or end_s is None or not isinstance(sentence, str):
                collector.reject(where, item_id, f"it has no start, end or sentence: {short([span, sentence])}")
                continue
            texts = (sentence.strip(),)
            collector.add(Item(item_id, video, (), texts, start_s, end_s, VIDEO_EXTENSIONS, where=where))


ADAPTER = Adapter(
    name="activitynet",
    title="ActivityNet Captions",
    reference="Krishna et al., ICCV 2017",
    url="https://cs.stanford.edu/people/ranjaykrishna/densevid/",
    annotations="val1_anno.jsonl, or the official val_1.json, whose sentences are then the items",
    published="4,917 videos with one paragraph each",
    split="val1",
    spans=_has_spans,
    whole="its annotations are one paragraph per video, without spans; the official captions JSON (val_1.json) has the "
    "span of each sentence",
    read=read,
)
