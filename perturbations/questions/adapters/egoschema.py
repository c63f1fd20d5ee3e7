"""EgoSchema (Mangalam et al., 2023)."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from perturbations.datasets.listing import Collector
from perturbations.datasets.parsing import checked, json_rows, whole_json
from perturbations.datasets.registry import Adapter, Dataset, annotations_of
from perturbations.questions.table import Entry, add_all, row_columns

_OPTIONS = tuple(f"option {number}" for number in range(5))


class EgoSchema(Dataset):
    """The keys of `config.yaml`, with those of the public answers and of the places in Ego4D."""

    answers: Path | None = Field(
        None, description="egoschema: subset_answers.json, whose questions alone are listed: others have no answer"
    )
    uid_to_ego4d: Path | None = Field(
        None, description="egoschema: uid_to_ego4d.json, where the videos are Ego4D's and are cut by it"
    )


def read(dataset: Dataset, collector: Collector) -> None:
    """The questions that have public answers; each has a video of its own."""
    assert isinstance(dataset, EgoSchema)
    answers = whole_json(dataset.answers, dict, "an object {q_uid: 0 to 4}") if dataset.answers else {}
    spans = whole_json(dataset.uid_to_ego4d, dict, "an object {q_uid: span}") if dataset.uid_to_ego4d else {}
    rows = json_rows(annotations_of(dataset), None)
    known = {"q_uid", "question", *_OPTIONS}
    add_all(
        (
            _entry(where, row, number, answers[row["q_uid"]], spans, row_columns(row, known))
            for number, (where, row) in enumerate(
                checked(collector, rows, "q_uid", ("q_uid",), ("question", *_OPTIONS), caption="")
            )
            if row["q_uid"] in answers
        ),
        collector,
    )
    listed = {row.question_id for row in collector.questions} | {entry.item_id for entry in collector.rejected}
    for name in sorted({*answers} - listed):
        collector.reject(f"answer of {name}", name, f"there is an answer and no question in {collector.place.name}")


def _entry(
    where: int | str, row: dict[str, object], number: int, answer: object, spans: dict[str, object], more: object
) -> Entry:
    name = str(row["q_uid"])
    span = spans.get(name)
    own = span if isinstance(span, dict) else {}
    video = str(own.get("video_uid", name))
    return Entry(
        where=where,
        question_id=name,
        video=video,
        files=tuple(f"{folder}{video}.mp4" for folder in ("", "videos/")),
        question=row["question"],
        options=[row[option] for option in _OPTIONS],
        answer=answer,
        form="index",
        source_index=number,
        start_s=own.get("starting_sec"),
        end_s=own.get("ending_sec"),
        more=more if isinstance(more, dict) else {},
    )


ADAPTER = Adapter(
    name="egoschema",
    title="EgoSchema",
    reference="Mangalam et al., NeurIPS 2023",
    url="https://egoschema.github.io",
    annotations="questions.json, and subset_answers.json",
    published="500 questions with public answers, of 5,031",
    needs=("annotations", "videos", "answers"),
    settings=EgoSchema,
    spans=lambda dataset: isinstance(dataset, EgoSchema) and dataset.uid_to_ego4d is not None,
    questions=True,
    read=read,
)
