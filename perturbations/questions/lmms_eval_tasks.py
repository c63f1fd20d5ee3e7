"""The functions that the tasks of this folder name, for lmms-eval. Nothing but its own environment is needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from perturbations.questions.answering import LETTERS, PROMPT, parsed, prompt  # replaced in exports

_FOLDER = Path(__file__).resolve().parent


def __getattr__(name: str) -> Callable[[Any], Any]:
    """`docs_fog_3` is the function of the cell `fog_3`, by which its task chooses its questions."""
    if name.startswith("docs_"):
        return partial(_docs, name.removeprefix("docs_"))
    raise AttributeError(name)


def _docs(cell: str, dataset: Any) -> Any:
    """The questions that have a clip in this cell, in the file's order, each with that clip."""
    datasets: Any = import_module("datasets")  # of lmms-eval's environment

    # By line feeds alone: a text may hold U+2028, at which `splitlines` would cut it.
    lines = (_FOLDER / "questions.jsonl").read_text(encoding="utf-8").rstrip("\n").split("\n")
    about = json.loads((_FOLDER / "cells.json").read_text(encoding="utf-8"))
    rows = []
    for question in map(json.loads, lines):
        here = question.pop("cells")[cell]
        if here["path"]:
            own = {**question, **about["cells"][cell], "questions_sha256": about["questions_sha256"]}
            rows.append({**own, "cell": cell, "prompt": PROMPT, **here})
    return datasets.Dataset.from_list(rows)


def visuals(doc: Mapping[str, Any]) -> list[str]:
    """The clip's file."""
    return [str(_FOLDER / doc["path"])]


def text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, str] | None = None) -> str:
    """The prompt, in which neither the cell nor the clip's file is named."""
    return prompt(doc["question"], doc["options"])


def target(doc: Mapping[str, Any]) -> str:
    """The right option's letter."""
    return LETTERS[doc["answer"]]


_RECORDED = (
    *("question_id", "item_id", "video_id", "dataset", "suite", "perturbation", "severity", "cell"),
    *("frames_sha256", "questions_sha256", "prompt"),
)


def results(doc: Mapping[str, Any], responses: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What is recorded of a question."""
    place = parsed(str(responses[0]), doc["options"])
    record = {name: doc[name] for name in _RECORDED}
    record["answer"] = target(doc)
    record["parsed_answer"] = "" if place is None else LETTERS[place]
    return {"accuracy": {**record, "score": float(place == doc["answer"])}}


def mean(records: Sequence[Mapping[str, Any]]) -> float:
    """The share of right answers."""
    return float(sum(record["score"] for record in records) / len(records))
