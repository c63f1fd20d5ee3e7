"""Questions as datasets of VLMEvalKit: a TSV per cell, a driver with the datasets' class, and a configuration."""

from __future__ import annotations

import csv
import io
import json
from string import ascii_uppercase

from perturbations.exports.export_registry import Exported, Request
from perturbations.questions import harnesses
from perturbations.questions.lmms_eval import source_of

_DRIVER = "ask.py"
_README = """Datasets of VLMEvalKit, one per cell: {group}. Put your model into config.json, then, in its folder:

    python {output}/{driver} --config {output}/config.json --work-dir outputs
    perturb answers outputs/MODEL --questions manifests/{dataset}/questions.parquet -o scored

It samples the frames: give all cells the same `nframe`, or in its place `fps`. The folder may be moved. VLMEvalKit
keeps sampled frames by a dataset's name, so each cell has a name of its own; do not rename them.
"""


def write_videos(request: Request) -> Exported:
    """Write a dataset per cell of perturbed clips, or of perturbed questions about clean ones.

    Raises as `harnesses.read` and `export_folder.claim` do.
    """
    asked = harnesses.read(request)
    output, group = request.output, asked.group
    harnesses.place(asked)
    names = {name: f"{group}_{name}" for name in asked.cells}
    texts = {f"{names[name]}.tsv": _table(asked, name, names[name]) for name in asked.cells}
    data = {name: {"class": "PerturbedVideoMCQ", "dataset": name, "nframe": 16} for name in names.values()}
    texts |= {
        _DRIVER: source_of("vlmevalkit_driver.py"),
        "config.json": json.dumps({"model": {"MODEL": {}}, "data": data}, indent=1) + "\n",
        "README.md": _README.format(
            group=group, output=output.absolute(), driver=_DRIVER, dataset=asked.exported.dataset
        ),
    }
    return harnesses.write(asked, texts)


write_captions = write_videos


def _table(asked: harnesses.AskedCorpus, name: str, dataset: str) -> str:
    """The questions of a cell as TSV. All columns come back beside the predictions."""
    rows = [
        {
            "index": index,
            "video": clip.key,
            "question": text,
            "candidates": repr(row.options),
            "answer": ascii_uppercase[row.answer],
            "question_id": row.question_id,
            "item_id": row.item_id,
            **asked.cells[name].columns,
            "cell": name,
            "frames_sha256": clip.row.frames_sha256,
            "questions_sha256": asked.sha256,
            "dataset_name": dataset,
            "video_path": path.relative_to(asked.exported.request.output).as_posix(),
        }
        for index, (row, text, clip, path) in enumerate(asked.asked(name))
    ]
    buffer = io.StringIO(newline="")
    # All texts in quotes: pandas ends a line at a bare carriage return, which `csv` does not quote.
    names = rows[0] if rows else ["index"]
    writer = csv.DictWriter(buffer, names, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
