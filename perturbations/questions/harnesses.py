"""What exports of questions share: the questions of a corpus, and each question's clip and text in each cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perturbations.base import shown, storage
from perturbations.base.errors import ManifestError
from perturbations.datasets.adapter_registry import adapters
from perturbations.exports import export_folder, export_names, exported_corpus, videos
from perturbations.exports.export_registry import Exported, Request
from perturbations.exports.exported_corpus import ExportedClip, ExportedCorpus
from perturbations.manifest import files
from perturbations.manifest.companions import companion_path
from perturbations.manifest.rows import QUESTIONS, SOURCES, TEXTS, VIDEOS, QuestionRow
from perturbations.questions.answer_rows import CellKey
from perturbations.questions.table import sha256_of


@dataclass
class AskedCell:
    """A scenario that is asked about: its columns, the clip of each item, and the questions with a changed text."""

    columns: dict[str, Any]
    clips: Mapping[str, ExportedClip]
    texts: dict[str, str] | None = None


@dataclass
class AskedCorpus:
    """A corpus whose clips are asked about.

    Attributes:
        exported: the corpus, of clips or of perturbed questions.
        rows: the questions in the order of the annotations.
        sha256: the hash of the table of questions.
        cells: the cells by the names of their scenarios, the clean cell first.
        placed: the files of clips.
    """

    exported: ExportedCorpus
    rows: Sequence[QuestionRow]
    sha256: str
    cells: dict[str, AskedCell]
    placed: dict[ExportedClip, Path] = field(default_factory=dict)

    def asked(self, name: str) -> list[tuple[QuestionRow, str, ExportedClip, Path]]:
        """The questions of a cell that can be asked, each with its text, its clip and the clip's file."""
        cell = self.cells[name]
        questions = []
        for row in self.rows:
            clip = cell.clips.get(row.item_id)
            text = row.question if cell.texts is None else cell.texts.get(row.question_id)
            if clip in self.placed and text is not None:
                assert clip is not None
                questions.append((row, text, clip, self.placed[clip]))
        return questions

    @property
    def group(self) -> str:
        """The name of a group of tasks: the dataset and the suite, and `text` for perturbed questions."""
        dataset, _, suites = self.exported.identity
        kind = ["text"] if self.exported.records == "captions" else []
        return export_names.joined_name(dataset, *suites.split(","), *kind)


def read(request: Request) -> AskedCorpus:
    """The corpus of a manifest of videos, sources or texts, and its questions.

    Raises `ManifestError` without questions beside or above the manifest, and as `exported_corpus.read` does.
    """
    path = companion_path(request.manifest, QUESTIONS)
    if path is None:
        known = ", ".join(name for name, adapter in adapters().items() if adapter.questions)
        raise ManifestError(f"no questions.parquet beside or above {request.manifest}: datasets of {known} have one")
    rows = sorted(files.read_rows(path, QUESTIONS), key=lambda row: (row.source_index, row.question_id))
    wanted = {row.item_id for row in rows}
    has_texts = files.kind_of(request.manifest) == TEXTS
    if has_texts:
        exported = exported_corpus.read_texts(request, with_clips=True)
    else:
        exported = exported_corpus.read(request, kinds=(VIDEOS, SOURCES))
    cells = {}
    for name, clips in exported.scenarios():
        columns = _columns(exported, clips[0].row)
        cells[name] = AskedCell(columns, {clip.row.item_id: clip for clip in clips if clip.row.item_id in wanted})
    if has_texts:
        clean = cells.pop(export_names.CLEAN)
        ids = defaultdict(list)
        for row in rows:
            ids[row.item_id, row.question].append(row.question_id)
        for name, texts in exported.captions_by_scenario():
            of_ids = {
                question_id: text.text
                for text in texts
                for question_id in ids[text.item_id, getattr(text, "source_text", text.text)]
            }
            cells[name] = AskedCell(_columns(exported, texts[0]), clean.clips, of_ids)
    ordered = dict(sorted(cells.items(), key=lambda own: own[0] != export_names.CLEAN))
    return AskedCorpus(exported, rows, sha256_of(rows), ordered)


def _columns(exported: ExportedCorpus, row: object) -> dict[str, Any]:
    """The columns of answers that identify a cell."""
    perturbation = getattr(row, "perturbation", None)
    if perturbation is None:
        return {"dataset": exported.dataset, **CellKey()._asdict()}
    own = {name: getattr(row, name) for name in CellKey._fields}
    return {"dataset": exported.dataset, **own}


def place(asked: AskedCorpus) -> None:
    """Put the clips of all cells below `data`, a folder per scenario: hard links, or copies across disks."""
    output, exported = asked.exported.request.output, asked.exported
    export_folder.claim(exported)
    targets = {
        clip: exported.request.data / clip.scenario / f"{clip.key}{videos.suffix(clip.row)}"
        for cell in asked.cells.values()
        for clip in cell.clips.values()
    }
    asked.placed = {clip: path for clip, (path, _) in videos.place(exported, targets).items()}
    exported.count = sum(len(asked.asked(name)) for name in asked.cells)
    export_folder.finish(output, exported.left_out)


def write(asked: AskedCorpus, texts: Mapping[str, str]) -> Exported:
    """Write the texts of an export by the names of their files."""
    for name, text in texts.items():
        storage.write_text(asked.exported.request.output / name, text)
    return asked.exported.result(shown.plural(asked.exported.count, "question"))
