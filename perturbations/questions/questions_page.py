"""The page's part on answers: accuracies and drops, flips, controls, categories, and questions that all models lose."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from perturbations.base import shown
from perturbations.evaluation.page.displayed_names import titled
from perturbations.evaluation.page.page_tables import Cell, PagePart, PageTable, PlayedClips, Section, cell_of
from perturbations.exports.export_names import CLEAN
from perturbations.manifest import files, locations, manifest_paths
from perturbations.manifest.rows import COMPLETE, QUESTIONS, VIDEOS, QuestionRow, VideoRow
from perturbations.pages import clip_previews
from perturbations.questions.answer_rows import ANSWER_RESULTS, ANSWERS, AnswerResult, AnswerRow, CellKey
from perturbations.questions.table import sha256_of

_CONTROLS = "controls"
_LOST = 6
"""How many of the questions that all models lose are shown."""

_GUIDE = (
    "Accuracy in percent; small: its change from the clean answers to the same questions, and the 95 % interval of the "
    "change, by resamples of videos. A change means little without the controls: an answer that needs no pixels is as "
    "right on a grey clip (blank)."
)
_READ = (
    "n: questions that the model answered here and clean; missing: the others of the table; unparsed: responses that "
    "name no option, which count as wrong. Harmful and beneficial: right answers that became wrong, and the other way, "
    "as shares of n. Same answer: the share of n whose option is the clean one; resist rate: the share of right clean "
    "answers that stay right. "
    "p flip: signs of videos flipped at random; p Holm: the same, for all rows of the table together; "
    "p McNemar assumes independent questions. Smallest drop: what n pairs with so many flips can show (.05, power .8). "
    "Visual share: (A - A blank) / (A clean - A blank); empty where the clean accuracy is not above that of grey clips."
)


def sentence(row: AnswerResult) -> str:
    """A result in words, for the command line."""
    drop = ""
    if row.delta is not None and row.low is not None and row.high is not None:
        drop = f", {row.delta:+.1f} from clean [{row.low:+.1f}, {row.high:+.1f}], p {row.p_flip:.2g}"
    accuracy = "no pair" if row.accuracy is None else f"accuracy {row.accuracy:.1f}"
    counts = f"n {row.n:,}, {row.missing:,} missing, {row.unparsed:,} unparsed"
    return f"{row.model_name}, {row.cell_name}: {accuracy}{drop} ({counts})"


def sections(paths: Sequence[Path]) -> list[Section]:
    """The sections for manifests of results; the answers lie beside these. Raises `ManifestError`."""
    tables: list[PagePart] = []
    flips: list[PagePart] = []
    categories: list[PagePart] = []
    lost: list[PagePart] = []
    for path in paths:
        about, rows = files.read_metadata(path), list(files.read_rows(path, ANSWER_RESULTS))
        dataset = str(about.get("dataset") or "")
        for suite, chosen in _suites(rows):
            title = titled(dataset, suite)
            tables.append(_accuracies(f"{title}: answers", chosen))
            categories += _categories(f"{title}: answers by category of questions", chosen)
        flips.append(_flips(f"{dataset}: flips of answers", rows))
        lost += _lost(path, path.parent / str(about.get("questions")), str(about.get("questions_sha256")), rows)
    return [
        section
        for section in (
            Section("Answers", [*tables, *flips], "answers"),
            Section("Answers by category", categories, "answer-categories"),
            Section("Questions that every model loses", lost, "lost"),
        )
        if section.parts
    ]


def _suites(rows: Sequence[AnswerResult]) -> Iterator[tuple[str, list[AnswerResult]]]:
    """Each suite with its rows, the clean rows and the controls; without suites, the controls alone."""
    names = list(dict.fromkeys(row.suite for row in rows if row.suite not in (CLEAN, _CONTROLS)))
    for name in names or [_CONTROLS]:
        yield name, [row for row in rows if row.suite in (name, CLEAN, _CONTROLS)]


def _models(rows: Sequence[AnswerResult]) -> list[str]:
    return list(dict.fromkeys(row.model_name for row in rows))


def _columns(rows: Sequence[AnswerResult]) -> list[tuple[str, CellKey]]:
    """The cells in the order of their columns, each with its group: clean, the suite's categories, the controls."""
    keys = {row.key for row in rows}
    ordered = sorted(keys, key=lambda key: (key != CellKey(), key.suite == _CONTROLS, key))
    return [(_CONTROLS if key.suite == _CONTROLS else "" if key == CellKey() else key.suite, key) for key in ordered]


def _accuracies(caption: str, rows: Sequence[AnswerResult]) -> PageTable:
    by_key = {(row.model_name, row.key): row for row in rows}
    models = _models(rows)
    cells: dict[tuple[str, str], list[Cell]] = {}
    for group, key in _columns(rows):
        cells[group, key.name] = [_accuracy(by_key.get((model, key))) for model in models]
    perturbed = {name for group, key in _columns(rows) if group not in ("", _CONTROLS) for name in [key.perturbation]}
    if len(perturbed) > 1:
        cells["mean", "of perturbations"] = [_mean(rows, model, perturbed) for model in models]
    return PageTable(
        caption, "model", pd.DataFrame(cells, pd.Index(models)), guide=_GUIDE, style="board", has_files=True
    )


def _accuracy(row: AnswerResult | None) -> Cell:
    if row is None:
        return Cell()
    if row.cell == CLEAN:
        return cell_of(".1f", value=row.accuracy, low=row.accuracy_low, high=row.accuracy_high)
    return cell_of(".1f", value=row.accuracy, change=row.delta, low=row.low, high=row.high)


def _mean(rows: Sequence[AnswerResult], model: str, perturbations: set[str]) -> Cell:
    """The mean over perturbations of the means over severities; empty where the model lacks a perturbation."""
    by_name: dict[str, list[AnswerResult]] = defaultdict(list)
    for row in rows:
        if row.model_name == model and row.suite not in (CLEAN, _CONTROLS) and row.delta is not None:
            by_name[row.perturbation].append(row)
    if by_name.keys() != perturbations:
        return Cell()
    accuracies, changes = (
        sum(sum(getattr(row, name) for row in own) / len(own) for own in by_name.values()) / len(by_name)
        for name in ("accuracy", "delta")
    )
    return cell_of(".1f", value=accuracies, change=changes)


_NUMBERS = {
    **dict.fromkeys(("n", "missing", "unparsed"), ",.0f"),
    **dict.fromkeys(("harmful_flips", "beneficial_flips", "same_answer", "resist_rate"), ".3f"),
    **dict.fromkeys(("p_flip", "p_holm", "p_mcnemar"), ".2g"),
    "smallest_drop": ".1f",
}


def _flips(caption: str, rows: Sequence[AnswerResult]) -> PageTable:
    perturbed = [row for row in rows if row.cell != CLEAN]
    names = [f"{row.model_name}: {row.cell_name}" for row in perturbed]
    cells = {
        ("", name.replace("_", " ")): [
            Cell() if (value := getattr(row, name)) is None else cell_of(form, value=value) for row in perturbed
        ]
        for name, form in _NUMBERS.items()
    }
    cells["", "visual share"] = [
        cell_of(".2f", value=row.visual_share, low=row.visual_low, high=row.visual_high) for row in perturbed
    ]
    if any(row.equivalent is not None for row in perturbed):
        words = {None: "", True: "within the margin", False: "not shown"}
        cells["", "equivalent"] = [Cell(words[row.equivalent]) for row in perturbed]
    return PageTable(caption, "model and cell", pd.DataFrame(cells, pd.Index(names)), guide=_READ, has_files=True)


def _categories(caption: str, rows: Sequence[AnswerResult]) -> Iterator[PageTable]:
    known = {(row.model_name, row.key): json.loads(row.by_category) for row in rows}
    names = sorted({name for own in known.values() for name in own})
    if not names:
        return
    models = _models(rows)
    lines = [(model, name) for model in models for name in names]
    cells = {
        (group, key.name): [_of_category(known.get((model, key), {}).get(name), key) for model, name in lines]
        for group, key in _columns(rows)
    }
    index = pd.Index([f"{model}: {name}" if len(models) > 1 else name for model, name in lines])
    yield PageTable(caption, "category", pd.DataFrame(cells, index), style="stacked", has_files=True)


def _of_category(own: dict[str, float] | None, key: CellKey) -> Cell:
    if own is None:
        return Cell()
    before = own.get("clean_accuracy")
    change = None if before is None or key == CellKey() else own["accuracy"] - before
    return cell_of(".1f", value=own["accuracy"], change=change)


# --- questions that every model loses --------------------------------------------------------------------------------


def _lost(path: Path, table: Path, sha256: str, results: Sequence[AnswerResult]) -> Iterator[PagePart]:
    """The questions that every model answers right on the clean clip and wrong in the same cell, with both clips.

    `sha256` is the hash of the table of questions that was answered.
    """
    answers = path.with_name(f"{ANSWERS.name}.parquet")
    if not answers.is_file():
        return
    wrong: dict[str, list[CellKey]] = defaultdict(list)
    by_key: dict[tuple[str, CellKey], list[AnswerRow]] = defaultdict(list)
    models = {(row.model, row.budget) for row in results}
    for row in files.read_rows(answers, ANSWERS):
        by_key[row.question_id, row.key].append(row)
    for (question_id, key), rows in by_key.items():
        clean = by_key.get((question_id, CellKey()), [])
        before = {(row.model, row.budget) for row in clean if row.correct}
        after = {(row.model, row.budget) for row in rows if not row.correct}
        if key.suite not in (CLEAN, _CONTROLS) and before == after == models:
            wrong[question_id].append(key)
    if not wrong:
        return
    number = shown.plural(len(wrong), "question")
    yield f"{number} that every model answers right on the clean clip and wrong in the same cell; the first are shown."
    stored = files.read_rows(table, QUESTIONS) if table.is_file() else []
    if sha256_of(stored) != sha256:
        yield f"The table of questions, {table.name}, is not where it was, or is another: no text and no clip is shown."
        return
    questions = {row.question_id: row for row in stored}
    ordered = sorted(wrong, key=lambda name: (-len(wrong[name]), name))[:_LOST]
    clips = _clips(table.parent, {(questions[name].item_id, max(wrong[name], key=_strength)) for name in ordered})
    for name in ordered:
        yield _card(questions[name], wrong[name], by_key, clips)


def _strength(key: CellKey) -> tuple[int, CellKey]:
    return key.severity, key


def _card(
    question: QuestionRow,
    cells: Sequence[CellKey],
    answers: dict[tuple[str, CellKey], list[AnswerRow]],
    clips: dict[tuple[str, CellKey], clip_previews.ItemPreviews],
) -> PlayedClips:
    key = max(cells, key=_strength)
    responses = [
        f"{row.model}: {row.response[:200] if row.parsed is None else question.options[row.parsed]}"
        for row in answers[question.question_id, key]
    ]
    lines = [question.question, f"Right: {question.options[question.answer]}. In {key.name}: {'; '.join(responses)}."]
    lines.append(f"Lost in {', '.join(own.name for own in sorted(cells))}.")
    previews = clips.get((question.item_id, key))
    if previews is None:
        return PlayedClips(
            question.question_id, [], [*lines, "Its clips are not there, or it is the question that was perturbed."]
        )
    clean, perturbed = previews
    played = [(CLEAN, next(iter(clean.values()))), *((key.name, own) for _, own in perturbed[key.perturbation])]
    return PlayedClips(question.question_id, played, lines)


def _clips(folder: Path, wanted: set[tuple[str, CellKey]]) -> dict[tuple[str, CellKey], clip_previews.ItemPreviews]:
    """Previews of clips by item and cell, if their corpora lie below the folder of the table of questions."""
    previews: dict[tuple[str, CellKey], clip_previews.ItemPreviews] = {}
    for suite in {key.suite for _, key in wanted}:
        manifest = folder / suite / manifest_paths.name("videos")
        if not manifest.is_file():
            continue
        root = locations.root_of(manifest, files.read_metadata(manifest))
        for row in files.read_rows(manifest, VIDEOS):
            own = row.item_id, CellKey(row.suite, row.perturbation, row.severity)
            if own in wanted and row.status == COMPLETE and isinstance(row, VideoRow):
                previews[own] = clip_previews.of_item([locations.located(row, root)], [row.perturbation], root)
    return previews
