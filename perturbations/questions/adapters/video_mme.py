"""Video-MME (Fu et al., 2024)."""

from __future__ import annotations

from perturbations.datasets.listing import VIDEO_EXTENSIONS, Collector
from perturbations.datasets.parsing import checked, parquet
from perturbations.datasets.registry import Adapter, Dataset, annotations_of
from perturbations.questions.table import Entry, add_all

_TEXTS = ("videoID", "question_id", "duration", "domain", "sub_category", "task_type")
_COLUMNS = (*_TEXTS, "question", "options", "answer")


def read(dataset: Dataset, collector: Collector) -> None:
    """Videos are named by YouTube's id. A question's category is the length of its video, its subcategory its task."""
    rows = parquet(annotations_of(dataset), _COLUMNS, lists=("options",))
    add_all(
        (
            Entry(
                where=where,
                question_id=row["question_id"],
                video=row["videoID"],
                files=tuple(
                    f"{folder}{row['videoID']}{ending}" for folder in ("", "data/") for ending in VIDEO_EXTENSIONS
                ),
                question=row["question"],
                options=row["options"],
                answer=row["answer"],
                form="letter",
                source_index=number,
                category=row["duration"],
                subcategory=row["task_type"],
                more={name: row[name] for name in ("domain", "sub_category")},
            )
            for number, (where, row) in enumerate(
                checked(collector, rows, "question_id", _TEXTS, ("question", "options", "answer"), caption="")
            )
        ),
        collector,
    )


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
