"""Perception Test, its questions of multiple choice (Patraucean et al., 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from perturbations.base.errors import short
from perturbations.datasets.listing import Collector
from perturbations.datasets.parsing import checked_row, whole_json
from perturbations.datasets.registry import Adapter, Dataset, annotations_of
from perturbations.questions.table import Entry, add_all, row_columns

_COLUMNS = ("id", "question", "options", "answer_id")


class PerceptionTest(Dataset):
    """The keys of `config.yaml`, with that of the frames before which videos end."""

    cut_frame_mapping: Path | None = Field(
        None,
        description="perception_test: cut_frame_mapping_valid.json, the frame before which a video is cut: what "
        "follows gives answers away",
    )


def read(dataset: Dataset, collector: Collector) -> None:
    """Questions by video. A video is cut before the frame that the list has for it, where that is above 0."""
    assert isinstance(dataset, PerceptionTest)
    assert dataset.cut_frame_mapping is not None
    cuts = whole_json(dataset.cut_frame_mapping, dict, "an object {video: frame}")
    videos = whole_json(annotations_of(dataset), dict, "an object {video: {metadata, mc_question}}")
    add_all(_entries(videos, cuts, collector), collector)


def _entries(videos: dict[str, Any], cuts: dict[str, Any], collector: Collector) -> Iterator[Entry]:
    number = 0
    for video, own in videos.items():
        questions = own.get("mc_question") if isinstance(own, dict) else None
        if not isinstance(questions, list):
            collector.reject_malformed(f"video {short(video)}", video, "no list 'mc_question'")
            continue
        try:
            end_s = _end_s(cuts.get(video), own.get("metadata"))
        except ValueError as error:
            collector.reject_malformed(f"video {short(video)}", video, str(error))
            continue
        for place, question in enumerate(questions):
            where, number = f"{video}.mc_question[{place}]", number + 1
            try:
                row = checked_row(question, ("id",), _COLUMNS, "")
            except ValueError as error:
                collector.reject_malformed(where, video, str(error))
                continue
            yield Entry(
                where=where,
                question_id=f"{video}_{row['id']}",
                video=video,
                files=tuple(f"{folder}{video}.mp4" for folder in ("", "videos/")),
                question=row["question"],
                options=row["options"],
                answer=row["answer_id"],
                form="index",
                source_index=number - 1,
                end_s=end_s,
                category=row.get("area"),
                subcategory=row.get("reasoning"),
                more=row_columns(row, (*_COLUMNS, "area", "reasoning")),
            )


def _end_s(frame: object, about: object) -> float | None:
    """The time half a frame before the first frame that is cut off; None where nothing is. Raises `ValueError`."""
    if frame is None or (isinstance(frame, int | float) and frame <= 0):
        return None
    rate = about.get("frame_rate") if isinstance(about, dict) else None
    if not isinstance(frame, int | float) or not isinstance(rate, int | float) or not rate > 0:
        raise ValueError(f"it is to be cut before frame {short(frame)}, at a frame rate of {short(rate)}")
    return (frame - 0.5) / rate


ADAPTER = Adapter(
    name="perception_test",
    title="Perception Test",
    reference="Patraucean et al., NeurIPS 2023",
    url="https://github.com/google-deepmind/perception_test",
    annotations="mc_question_valid.json, and cut_frame_mapping_valid.json",
    published="validation: 19,140 questions",
    split="validation",
    needs=("annotations", "videos", "cut_frame_mapping"),
    settings=PerceptionTest,
    spans=True,
    questions=True,
    read=read,
)
