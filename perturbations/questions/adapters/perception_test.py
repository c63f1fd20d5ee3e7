"""Perception Test, its questions of multiple choice (Patraucean et al., 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from perturbations.base.errors import short
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.listing import AnnotationPlace, Collector
from perturbations.datasets.parsing import whole_json
from perturbations.questions.table import add_all, entries


class PerceptionTest(Dataset):
    """The keys of `config.yaml`, also for the list of frames before which videos end."""

    cut_frame_mapping: Path | None = Field(
        None,
        description="perception_test: cut_frame_mapping_valid.json, the frame before which a video is cut: what "
        "follows gives answers away",
    )


def read(dataset: PerceptionTest, collector: Collector) -> None:
    """Questions by video. A video is cut before the frame in the list, if that is above 0."""
    assert dataset.cut_frame_mapping is not None
    cuts = whole_json(dataset.cut_frame_mapping, dict, "an object {video: frame}")
    videos = whole_json(annotations_of(dataset), dict, "an object {video: {metadata, mc_question}}")
    rows = _rows(videos, cuts, collector)
    needed = ("question", "options", "answer_id", "end_s", "area", "reasoning")
    add_all(entries(collector, rows, ("video", "id"), needed, _fields), collector)


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    video = row["video"]
    return {
        **{name: row[name] for name in ("video", "question", "options", "end_s")},
        "question_id": f"{video}_{row['id']}",
        "files": (f"{video}.mp4", f"videos/{video}.mp4"),
        "answer": row["answer_id"],
        "form": "index",
        "category": row["area"],
        "subcategory": row["reasoning"],
    }


def _rows(
    videos: dict[str, Any], cuts: dict[str, Any], collector: Collector
) -> Iterator[tuple[AnnotationPlace, object]]:
    for video, own in videos.items():
        try:
            questions, end_s = own["mc_question"], _end_s(cuts.get(video), own.get("metadata"))
            if not isinstance(questions, list):
                raise TypeError
            for place, row in enumerate(questions):
                whole = {"video": video, "end_s": end_s, **row} if isinstance(row, dict) else row
                yield f"{video}.mc_question[{place}]", whole
        except (TypeError, KeyError, ValueError) as error:
            reason = str(error) if isinstance(error, ValueError) else "no list 'mc_question'"
            collector.reject_malformed(f"video {short(video)}", video, reason)


_MOST = 1e9
"""Of frames, and of frames per second; a NaN is no number of frames."""


def _end_s(frame: object, about: object) -> float | None:
    """The time half a frame before the first frame that is cut off; None where nothing is cut. Raises `ValueError`."""
    if frame is None or (isinstance(frame, int | float) and frame <= 0):
        return None
    rate = about.get("frame_rate") if isinstance(about, dict) else None
    if isinstance(frame, int | float) and isinstance(rate, int | float) and frame <= _MOST and 0 < rate <= _MOST:
        return (frame - 0.5) / rate
    raise ValueError(f"it is to be cut before frame {short(frame)}, at a frame rate of {short(rate)}")


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
