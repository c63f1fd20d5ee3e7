"""Video-MME (Fu et al., 2024)."""

from __future__ import annotations

from typing import Any

from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.listing import VIDEO_EXTENSIONS, Collector
from perturbations.datasets.parsing import parquet
from perturbations.questions.table import add_all, entries

_TEXTS = ("question_id", "videoID", "duration", "domain", "sub_category", "task_type")
_OTHERS = ("question", "options", "answer")


def read(dataset: Dataset, collector: Collector) -> None:
    """Videos are named by YouTube's id. A question's category is the length of its video, its subcategory its task."""
    rows = parquet(annotations_of(dataset), (*_TEXTS, *_OTHERS))
    add_all(entries(collector, rows, _TEXTS, _OTHERS, _fields), collector)


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("question_id", *_OTHERS)},
        "video": row["videoID"],
        "files": tuple(f"{folder}{row['videoID']}{ending}" for folder in ("", "data/") for ending in VIDEO_EXTENSIONS),
        "form": "letter",
        "category": row["duration"],
        "subcategory": row["task_type"],
        "more": {name: row[name] for name in ("domain", "sub_category")},
    }


ADAPTER = Adapter(
    name="video_mme",
    title="Video-MME",
    reference="Fu et al., CVPR 2025",
    url="https://video-mme.github.io",
    annotations="videomme/test-00000-of-00001.parquet",
    published="2,700 questions on 900 videos, 3 each",
    questions=True,
    read=read,
)
