"""NExT-QA, its questions of multiple choice (Xiao et al., 2021)."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from perturbations.datasets.listing import Collector
from perturbations.datasets.parsing import checked, table, whole_json
from perturbations.datasets.registry import Adapter, Dataset, annotations_of
from perturbations.questions.table import Entry, add_all, row_columns

_OPTIONS = ("a0", "a1", "a2", "a3", "a4")
_COLUMNS = ("video", "question", "answer", "qid", "type", *_OPTIONS)
_KINDS = {"C": "causal", "T": "temporal", "D": "descriptive"}


class NextQa(Dataset):
    """The keys of `config.yaml`, with that of VidOR's names of files."""

    map_vid_vidor_id: Path | None = Field(
        None, description="next_qa: map_vid_vidorID.json, where the videos lie as VidOR has them"
    )


def read(dataset: Dataset, collector: Collector) -> None:
    """A question's id is its video and its `qid`; its category is the first letter of its type."""
    path = getattr(dataset, "map_vid_vidor_id", None)
    places = whole_json(path, dict, "an object {video: name in VidOR}") if path else {}
    rows = table(annotations_of(dataset), _COLUMNS)
    add_all(
        (
            Entry(
                where=where,
                question_id=f"{row['video']}_{row['qid']}",
                video=row["video"],
                files=tuple(f"{name}.mp4" for name in _names(row["video"], places)),
                question=row["question"],
                options=[row[name] for name in _OPTIONS],
                answer=row["answer"],
                form="index",
                source_index=number,
                category=_KINDS.get(row["type"][:1]),
                subcategory=row["type"],
                more=row_columns(row, _COLUMNS),
            )
            for number, (where, row) in enumerate(checked(collector, rows, "video", _COLUMNS, caption=""))
        ),
        collector,
    )


def _names(video: str, places: dict[str, object]) -> list[str]:
    return [video, f"NExTVideo/{video}", *([str(places[video])] if video in places else [])]


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
