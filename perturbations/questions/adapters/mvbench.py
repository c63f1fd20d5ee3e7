"""MVBench (Li et al., 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from perturbations.base.errors import AnnotationError, short
from perturbations.datasets.adapter_registry import Adapter, Dataset, annotations_of
from perturbations.datasets.listing import Collector
from perturbations.datasets.parsing import numbered, whole_json
from perturbations.questions.table import Entry, add_all, entries

FOLDERS = {
    **dict.fromkeys(
        ("action_sequence", "action_prediction", "object_interaction"),
        ("star/Charades_v1_480", "star/Charades_segment"),
    ),
    "action_localization": ("sta/sta_video", "sta/sta_video_segment"),
    "episodic_reasoning": ("tvqa/frames_fps3_hq", "tvqa/video_fps3_hq_segment"),
    "fine_grained_pose": ("nturgbd", "nturgbd_convert"),
    "action_antonym": ("ssv2_video", "ssv2_video_mp4"),
    "fine_grained_action": ("Moments_in_Time_Raw/videos",),
    "unexpected_action": ("FunQA_test/test",),
    "scene_transition": ("scene_qa/video",),
    "egocentric_navigation": ("vlnqa",),
    **dict.fromkeys(
        ("moving_direction", "moving_count", "moving_attribute", "object_existence", "counterfactual_inference"),
        ("clevrer/video_validation",),
    ),
    **dict.fromkeys(
        ("object_shuffle", "action_count", "state_change", "character_order"),
        ("perception/videos",),
    ),
}
"""Task -> the folders of its videos: as published, and as in lmms-eval, which looks for the last of them."""


def read(dataset: Dataset, collector: Collector) -> None:
    """Questions by task, from a folder of the tasks' files, from one of these files, or from one file with all tasks.

    Videos in a folder of segments are cut already.
    """
    add_all(_entries(annotations_of(dataset), dataset.videos or Path(), collector), collector)


def _entries(path: Path, videos: Path, collector: Collector) -> Iterator[Entry]:
    for task, file, rows, root in _tasks(path):
        named = (root, *FOLDERS[task]) if root else FOLDERS[task]
        folder = next((name for name in named if (videos / name).is_dir()), named[0])
        needed, fields = ("question", "candidates", "answer"), partial(_fields, task, folder)
        for entry in entries(collector, numbered(f"{file}, entry", rows), ["video"], needed, fields):
            yield replace(entry, question_id=f"{task}_{entry.source_index}")


def _fields(task: str, folder: str, row: dict[str, Any]) -> dict[str, Any]:
    is_cut = folder.endswith("_segment")
    return {
        **{name: row[name] for name in ("question", "answer")},
        "question_id": "",
        "video": f"{folder}/{row['video']}",
        "options": row["candidates"],
        "form": "text",
        "start_s": None if is_cut else row.get("start"),
        "end_s": None if is_cut else row.get("end"),
        "category": task,
    }


def _tasks(path: Path) -> Iterator[tuple[str, str, list[Any], str]]:
    """Each task: its name, its file, its rows, and the folder of its videos if the file names it."""
    if path.is_dir():
        if not (files := [file for file in sorted(path.glob("*.json")) if file.stem in FOLDERS]):
            raise AnnotationError(f"{path} has no file of a task, such as action_sequence.json")
        for file in files:
            yield file.stem, file.name, whole_json(file, list, "a list of questions"), ""
    elif path.stem in FOLDERS:
        yield path.stem, path.name, whole_json(path, list, "a list of questions"), ""
    else:
        whole = whole_json(path, dict, "an object with 'meta' and 'root', or a task's file")
        tasks, roots = whole.get("meta"), whole.get("root")
        if not isinstance(tasks, dict) or not isinstance(roots, dict):
            raise AnnotationError(f"{path} has no objects 'meta' and 'root', and is named after no task")
        for task, rows in tasks.items():
            if task not in FOLDERS or not isinstance(rows, list):
                raise AnnotationError(f"{path}: {short(task)} is no task of MVBench, or has no list of questions")
            yield task, f"{path.name}, {task}", rows, str(roots.get(task) or "").strip("/")


ADAPTER = Adapter(
    name="mvbench",
    title="MVBench",
    reference="Li et al., CVPR 2024",
    url="https://huggingface.co/datasets/OpenGVLab/MVBench",
    annotations="the folder json, a task's file of it, or test.json of the branch `video`",
    published="about 3,900 questions, at most 200 a task",
    spans=True,
    questions=True,
    takes_folder=True,
    read=read,
)
