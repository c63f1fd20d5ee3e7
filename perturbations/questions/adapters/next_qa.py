"""NExT-QA, its questions of multiple choice (Xiao et al., 2021)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.listing import Collector
from perturbations.datasets.parsing import table, whole_json
from perturbations.questions.table import add_all, entries

_OPTIONS = ("a0", "a1", "a2", "a3", "a4")
_COLUMNS = ("video", "question", "answer", "qid", "type", *_OPTIONS)
_KINDS = {"C": "causal", "T": "temporal", "D": "descriptive"}


class NextQa(Dataset):
    """The keys of `config.yaml`, also for VidOR's names of files."""

    map_vid_vidor_id: Path | None = Field(
        None, description="next_qa: map_vid_vidorID.json, where the videos lie as VidOR has them"
    )


def read(dataset: NextQa, collector: Collector) -> None:
    """A question's id is its video and its `qid`; its category is the first letter of its type."""
    path = dataset.map_vid_vidor_id
    in_vidor = whole_json(path, dict, "an object {video: name in VidOR}") if path else {}

    def fields(row: dict[str, Any]) -> dict[str, Any]:
        video = row["video"]
        names = (video, f"NExTVideo/{video}", *([in_vidor[video]] if video in in_vidor else []))
        return {
            **{name: row[name] for name in ("video", "question", "answer")},
            "question_id": f"{video}_{row['qid']}",
            "files": tuple(f"{name}.mp4" for name in names),
            "options": [row[name] for name in _OPTIONS],
            "form": "index",
            "category": _KINDS.get(row["type"][:1]),
            "subcategory": row["type"],
        }

    add_all(entries(collector, table(annotations_of(dataset), _COLUMNS), _COLUMNS, (), fields), collector)


ADAPTER = Adapter(
    name="next_qa",
    title="NExT-QA",
    reference="Xiao et al., CVPR 2021",
    url="https://github.com/doc-doc/NExT-QA",
    annotations="test.csv or val.csv of multiple choice",
    published="test: 8,564 questions on 1,000 videos",
    settings=NextQa,
    questions=True,
    read=read,
)
