"""Questions as tasks of lmms-eval: a folder for `--include_path`; or clips in the places of lmms-eval's own tasks."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from perturbations.base import shown, storage
from perturbations.base.errors import ManifestError, OutputError, short
from perturbations.exports import export_folder, videos
from perturbations.exports.export_registry import Exported, Request
from perturbations.exports.exported_corpus import ExportedClip
from perturbations.questions import harnesses
from perturbations.questions.adapters.mvbench import FOLDERS
from perturbations.questions.harnesses import AskedCorpus

_BASE = """dataset_path: json
dataset_kwargs: {data_files: {test: questions.jsonl}}
test_split: test
output_type: generate_until
doc_to_visual: !function utils.visuals
doc_to_text: !function utils.text
doc_to_target: !function utils.target
process_results: !function utils.results
generation_kwargs: {max_new_tokens: 16, temperature: 0, do_sample: false}
metric_list:
  - metric: accuracy
    aggregation: !function utils.mean
    higher_is_better: true
cluster_key: video_id
score_key: score
metadata: {version: 1}
"""
_README = """Tasks of lmms-eval, one per cell, on {cells}: {group}.

    python -m lmms_eval --model MODEL --model_args ... --include_path {output} --tasks {group} \\
        --batch_size 1 --log_samples --output_path logs
    perturb answers logs --questions {questions} -o scored

`--tasks {group}` runs all cells, `--tasks {first}` one. The folder may be moved. lmms-eval needs an environment of its
own (PyAV before 16): pip install lmms-eval==0.7.3 'filelock<3.20'. A drop needs the clean cell, and is read beside the
suite `controls`.
"""


def write_videos(request: Request) -> Exported:
    """Write a task per cell of perturbed clips, or with `mirror` the clips alone, as lmms-eval's own tasks name them.

    Raises as `harnesses.read` and `export_folder.claim` do.
    """
    asked = harnesses.read(request)
    return _mirrored(asked) if request.mirror else _written(asked)


def write_captions(request: Request) -> Exported:
    """Write a task per cell of perturbed questions about clean clips. Raises as `write_videos` does."""
    if request.mirror:
        raise ManifestError(f"{request.manifest}: --mirror is of clips, and these are perturbed questions")
    return _written(harnesses.read(request))


def _written(asked: AskedCorpus) -> Exported:
    output, group = asked.exported.request.output, asked.group
    harnesses.place(asked)
    cells = {
        name: {own.question_id: (text, clip, path) for own, text, clip, path in asked.asked(name)}
        for name in asked.cells
    }
    lines = []
    for row in asked.rows:
        about = {
            **{name: getattr(row, name) or "" for name in ("question_id", "item_id", "category", "subcategory")},
            **{"video_id": row.cluster, "question": row.question, "options": row.options, "answer": row.answer},
            "cells": {name: _cell(asked, row.question_id, own) for name, own in cells.items()},
        }
        lines.append(json.dumps(about, ensure_ascii=False) + "\n")
    tasks = {name: f"{group}_{name}" for name in asked.cells}
    texts = {
        "questions.jsonl": "".join(lines),
        "cells.json": json.dumps(
            {"questions_sha256": asked.sha256, "cells": {name: cell.columns for name, cell in asked.cells.items()}},
            indent=1,
        ),
        "utils.py": source_of("lmms_eval_tasks.py"),
        "_base_yaml": _BASE,
        f"{group}.yaml": f"group: {group}\ntask: {json.dumps([*tasks.values()])}\n",
        "README.md": _README.format(
            cells=shown.plural(len(cells), "cell"),
            group=group,
            output=shlex.quote(str(output)),
            questions=f"manifests/{asked.exported.dataset}/questions.parquet",
            first=next(iter(tasks.values())),
        ),
    }
    texts |= {
        f"{task}.yaml": f"include: _base_yaml\ntask: {task}\nprocess_docs: !function utils.docs_{name}\n"
        for name, task in tasks.items()
    }
    return harnesses.write(asked, texts)


def _cell(asked: AskedCorpus, question_id: str, cell: dict[str, tuple[str, ExportedClip, Path]]) -> dict[str, str]:
    """The clip and the text of a question in a cell; empty texts without a clip, so that all lines have equal keys."""
    if question_id not in cell:
        return {"path": "", "frames_sha256": "", "question": ""}
    text, clip, path = cell[question_id]
    relative = path.relative_to(asked.exported.request.output).as_posix()
    return {"path": relative, "frames_sha256": clip.row.frames_sha256 or "", "question": text}


def source_of(name: str) -> str:
    """The source of a module of this folder for an export, with the code of `answering` in place of its import."""
    here = Path(__file__).parent
    own, taken = ((here / file).read_text(encoding="utf-8") for file in (name, "answering.py"))
    _, _, body = taken.partition("from __future__ import annotations\n")
    return re.sub(r"from perturbations\.questions\.answering import .*\n", lambda _: body, own)


# --- mirrors ----------------------------------------------------------------------------------------------------------

_MIRROR = """Clips where lmms-eval's own tasks look for them, a folder per cell. Of its annotations it downloads the
questions; it downloads no videos, because the folders are there. Give every cell an output folder of its own, and,
where you use --use_cache, a cache of its own: its key does not hold the video, so a shared one repeats the answers of
another cell.

{commands}
"""
_TASKS = {
    "video_mme": ("videomme", "videomme/data"),
    "next_qa": ("nextqa_mc_test", "nextqa/NExTVideo"),
    "egoschema": ("egoschema_subset", "egoschema/videos"),
    "perception_test": ("perceptiontest_val_mc", "perceptiontest_val/videos"),
    "mvbench": ("", "mvbench_video"),
}
"""Adapter -> lmms-eval's task, and where below HF_HOME it looks for videos."""


def _mirrored(asked: AskedCorpus) -> Exported:
    exported, output = asked.exported, asked.exported.request.output
    adapter = str(exported.about.get("adapter") or "")
    if adapter not in _TASKS:
        raise ManifestError(
            f"{exported.request.manifest}: --mirror is of {', '.join(_TASKS)}, and its dataset is "
            f"{adapter or 'of no known adapter'}: leave --mirror out, which writes tasks of its own"
        )
    export_folder.claim(exported)
    places: dict[Path, ExportedClip] = {}
    for name, cell in asked.cells.items():
        for place, item_id in _places(asked, adapter):
            if (clip := cell.clips.get(item_id)) is None:
                continue
            first = places.setdefault(output / name / place, clip)
            if first is not clip:
                raise OutputError(
                    f"{short(first.row.item_id)} and {short(item_id)} would both be {place}: lmms-eval's own task has "
                    "videos that are cut already; list those, by the annotations of its branch `video`"
                )
    firsts = {clip: path for path, clip in reversed(places.items())}
    held = videos.place(exported, firsts)
    for path, clip in places.items():
        if clip in held and firsts[clip] != path:
            with storage.atomic_path(path) as temporary:
                storage.link_or_copy(held[clip][0], temporary)
    tasks = _TASKS[adapter][0] or ",".join(sorted({f"mvbench_{row.category}" for row in asked.rows}))
    commands = "\n".join(_command(output, name, tasks) for name in asked.cells)
    storage.write_text(output / "README.md", _MIRROR.format(commands=commands))
    export_folder.finish(output, exported.left_out)
    return exported.result()


def _places(asked: AskedCorpus, adapter: str) -> Iterator[tuple[str, str]]:
    """Where lmms-eval looks for the clip of each question, below HF_HOME, and the item."""
    files = {row.item_id: Path(row.path or "").name for row in asked.exported.sources}
    root = _TASKS[adapter][1]
    for row in asked.rows:
        name = f"{row.question_id if adapter == 'egoschema' else row.cluster}.mp4"
        if adapter == "mvbench":
            name = f"{FOLDERS[row.category or ''][-1]}/{files.get(row.item_id) or Path(row.cluster).name}"
        yield f"{root}/{name}", row.item_id


def _command(output: Path, cell: str, tasks: str) -> str:
    home, logs = shlex.quote(str(output.absolute() / cell)), f"logs/{cell}"
    return (
        f"    HF_HOME={home} HF_HUB_CACHE=~/.cache/huggingface/hub HF_DATASETS_CACHE=~/.cache/huggingface/datasets \\\n"
        f"        python -m lmms_eval --model MODEL --model_args ... --tasks {tasks} --batch_size 1 --log_samples "
        f"--output_path {logs}\n    # perturb answers ... --cell {cell}={logs}"
    )
