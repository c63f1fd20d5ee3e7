"""The tasks of this folder for `mteb`: `mteb.evaluate(model, tasks())`. Needs mteb, and torchcodec to decode videos.

Each scenario is a subset of its task. R@k of the papers is `hit_rate_at_k`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def tasks(path: str | None = None, revision: str = "main") -> list[Any]:
    """The tasks that `tasks.json` beside this file describes.

    `path` is the dataset's name on the Hugging Face Hub, with its `revision`; without one, this folder is read.
    """
    folder = Path(__file__).resolve().parent
    described = json.loads((folder / "tasks.json").read_text(encoding="utf-8"))
    return [_task(entry, path or str(folder), revision) for entry in described]


def _task(described: dict[str, Any], path: str, revision: str) -> Any:
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    metadata = TaskMetadata(
        name=described["name"],
        description=described["description"],
        dataset={"path": path, "revision": revision},
        type="Any2AnyRetrieval",
        category=described["category"],
        modalities=["video", "text"],
        eval_splits=["test"],
        eval_langs={subset: [described["language"]] for subset in described["subsets"]},
        main_score="hit_rate_at_1",
    )
    fields = {"metadata": metadata, "k_values": (1, 3, 5, 10, 20, 50, 100, 1000)}
    return type(described["name"], (AbsTaskRetrieval,), fields)()
