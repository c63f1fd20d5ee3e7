"""EgoSchema (Mangalam et al., 2023)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.listing import Collector
from perturbations.datasets.parsing import json_rows, whole_json
from perturbations.questions.table import add_all, entries

_OPTIONS = tuple(f"option {number}" for number in range(5))


class EgoSchema(Dataset):
    """The keys of `config.yaml`, also for the public answers and for the places in Ego4D."""

    answers: Path | None = Field(
        None, description="egoschema: subset_answers.json, whose questions alone are listed: others have no answer"
    )
    uid_to_ego4d: Path | None = Field(
        None, description="egoschema: uid_to_ego4d.json, where the videos are Ego4D's and are cut by it"
    )


def read(dataset: EgoSchema, collector: Collector) -> None:
    """The questions that have public answers; each has a video of its own."""
    assert dataset.answers is not None
    answers = whole_json(dataset.answers, dict, "an object {q_uid: 0 to 4}")
    spans = whole_json(dataset.uid_to_ego4d, dict, "an object {q_uid: span}") if dataset.uid_to_ego4d else {}

    def fields(row: dict[str, Any]) -> dict[str, Any]:
        name, span = row["q_uid"], spans.get(row["q_uid"])
        span = span if isinstance(span, dict) else {}
        video = str(span.get("video_uid", name))
        return {
            "question_id": name,
            "video": video,
            "files": (f"{video}.mp4", f"videos/{video}.mp4"),
            "question": row["question"],
            "options": [row[option] for option in _OPTIONS],
            "answer": answers.get(name),
            "form": "index",
            "start_s": span.get("starting_sec"),
            "end_s": span.get("ending_sec"),
        }

    rows = json_rows(annotations_of(dataset), None, "q_uid", ())
    every = entries(collector, rows, ("q_uid",), ("question", *_OPTIONS), fields)
    add_all((entry for entry in every if entry.question_id in answers), collector)
    listed = {row.question_id for row in collector.questions} | {entry.item_id for entry in collector.rejected}
    for name in sorted({*answers} - listed):
        collector.reject(f"answer of {name}", name, f"there is an answer and no question in {collector.place.name}")


ADAPTER = Adapter(
    name="egoschema",
    title="EgoSchema",
    reference="Mangalam et al., NeurIPS 2023",
    url="https://egoschema.github.io",
    annotations="questions.json, and subset_answers.json",
    published="500 questions with public answers, of 5,031",
    needs=("annotations", "videos", "answers"),
    settings=EgoSchema,
    spans=lambda dataset: dataset.uid_to_ego4d is not None,
    questions=True,
    read=read,
)
