"""The tasks of this folder for `mteb`: `mteb.evaluate(model, benchmark())`. Needs mteb, and torchcodec for the videos.

Each scenario is a subset of its task. The papers' R@k is `r_at_k`; `r_at_1` is the main score. The main score of
questions is mteb's `accuracy`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parent
_KS = (1, 3, 5, 10, 20, 50, 100)
_DEPTH = 1000
"""How many documents per query mteb keeps: more than the largest k, so that ties among those cut off change no R@k."""


def benchmark(path: str | None = None, revision: str = "main") -> Any:
    """All tasks as one `mteb.Benchmark`: `mteb.evaluate(model, benchmark())` gives every scenario's score.

    `path` and `revision` are as for `tasks`.
    """
    from mteb import Benchmark

    described = _described()
    return Benchmark(
        name=described["name"], description=described["description"], tasks=tasks(path, revision), aggregations=()
    )


def tasks(path: str | None = None, revision: str = "main") -> list[Any]:
    """The tasks that `tasks.json` beside this file describes.

    `path` is the dataset's name on the Hugging Face Hub, with its `revision`; without one, this folder is read.
    """
    # `datasets` takes NAME/NAME.py for a script, which it refuses: this folder may be called `tasks`.
    described = _described()
    return [_task(entry, described["dataset"], path or f"{_FOLDER}/.", revision) for entry in described["tasks"]]


def _described() -> dict[str, Any]:
    described: dict[str, Any] = json.loads((_FOLDER / "tasks.json").read_text(encoding="utf-8"))
    return described


def _task(described: dict[str, Any], corpus: str, path: str, revision: str) -> Any:
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    category = described["category"]
    medium = "video" if "v" in category else "image"
    is_asked = category == "vt2t"
    metadata = TaskMetadata(
        name=described["name"],
        description=described["description"],
        dataset={"path": path, "revision": revision},
        type="VideoCentricQA" if is_asked else "Any2AnyRetrieval",
        category=category,
        modalities=[medium, "text"],
        prompt={"query": described["prompt"]},
        eval_splits=["test"],
        eval_langs={subset: [described["language"]] for subset in described["subsets"]},
        main_score="accuracy" if is_asked else "r_at_1",
    )
    fields = {
        "metadata": metadata,
        "k_values": (*_KS, _DEPTH),
        "task_specific_scores": _scores,
        "perturbed": {name: {"dataset": corpus, **own} for name, own in described["subsets"].items()},
    }
    return type(described["name"], (AbsTaskRetrieval,), fields)()


def _scores(
    self: Any,
    scores: Any,
    qrels: Mapping[str, Mapping[str, int]],
    results: Mapping[str, Mapping[str, float]],
    hf_split: str,
    hf_subset: str,
) -> dict[str, Any]:
    """R@k as a share of the queries. A tie counts against the model, so a constant model finds nothing.

    The scores also hold the scenario, and the numbers of queries and documents: `perturb report` reads mteb's files.
    For ties, mteb's own `hit_rate_at_k` puts the document with the alphabetically later id first.
    """
    ranks = [_rank(relevant, results.get(query, {})) for query, relevant in qrels.items()]
    counts = {"queries": len(ranks), "gallery": len(self.dataset[hf_subset][hf_split]["corpus"])}
    shares = {f"r_at_{k}": sum(rank <= k for rank in ranks) / len(ranks) for k in _KS}
    return {**shares, **counts, "perturbed": self.perturbed[hf_subset]}


def _rank(relevant: Mapping[str, int], documents: Mapping[str, float]) -> float:
    """The rank of a query's best target among the documents that are no targets; infinite where no target was found."""
    targets = {document for document, relevance in relevant.items() if relevance > 0}
    reached = [documents[document] for document in targets if document in documents]
    if not reached:
        return float("inf")
    best = max(reached)
    return 1 + sum(score >= best for document, score in documents.items() if document not in targets)
